#!/bin/sh
# Add up the orders of a file. stdin is {"file": "/srv/orders/2026-11-23.csv"}; each line of that file is CUSTOMER,CENTS.
# Install it as sum_orders, the job type. It uses jq.
# Exit status: 0 done; 75 not now, try again later; 65 give up; anything else has failed and is tried again after a pause.
file=$(jq -er '.file | strings') || {
	echo 'the payload names no file' >&2
	exit 65
}
[ -e "$file" ] || {
	echo "$file is not there yet" >&2
	exit 75
}
all=$(awk 'END { print NR }' "$file") || exit 1
orders=0
cents=0
while IFS=, read -r _ price || [ -n "$price" ]; do
	orders=$((orders + 1))
	case $price in
	'' | *[!0-9]*)
		echo "line $orders: no price" >&2
		exit 65
		;;
	esac
	cents=$((cents + price))
	if [ $((orders % 100)) -eq 0 ]; then
		echo "{\"progress\": {\"done\": $orders, \"of\": $all}}" >>"$JOBRUN_OUT"
	fi
done <"$file"
echo "{\"result\": {\"orders\": $orders, \"cents\": $cents}}" >>"$JOBRUN_OUT"
echo "added up $orders orders"
