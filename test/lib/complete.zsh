# complete.zsh LINE...: type each line and a tab into an interactive zsh that has read the completion of jobrun, and print what the
# lines have become, without blanks at their ends.
zmodload zsh/zpty
typeset -x TYPED=$TMPDIR/typed
cat >$TMPDIR/rc.zsh <<'zsh'
autoload -Uz compinit
compinit -u -D
source <("$JOBRUN" completion zsh)
typed() { print -r -- "$BUFFER" >>$TYPED; BUFFER= }
zle -N typed
bindkey '^X' typed
setopt noautomenu nobeep
print ready >>$TYPED
zsh
: >$TYPED
zpty -b shell 'TERM=dumb zsh -f -i'
zpty -w shell "PATH=${JOBRUN:h}:\$PATH; source $TMPDIR/rc.zsh"

# lines N: wait for N of them.
lines() {
	local seen
	integer deadline=$((SECONDS + 20))

	until [[ $(wc -l <$TYPED) -ge $1 ]]; do
		[[ $SECONDS -lt $deadline ]] || { print -u2 "zsh says: $seen"; exit 1 }
		zpty -r -t shell seen
		sleep 0.02
	done
}

lines 1
for ((n = 1; n <= $#; n++)); do
	zpty -w -n shell "${argv[n]}"$'\t\x18'
	lines $((n + 1))
done
tail -n +2 $TYPED | sed "s/ *\$//"
