# make install: what lands where, and that it works from there as cron would start it.

load ../lib/common

# The program under test is installed as it is, not made again beside the other tests.
make_in_tree() {
	make -C "$TOP" --no-print-directory -o all BUILD="$(dirname "$JOBRUN")" "$@"
}

@test "install puts program, manual pages, completions, examples and units under DESTDIR and PREFIX" {
	run make_in_tree install DESTDIR="$BATS_TEST_TMPDIR/root" PREFIX=/usr
	assert_success
	assert_file_executable root/usr/bin/jobrun
	# what an administrator copies into a crontab has the path of this program
	sed 's|/usr/local/bin/jobrun|/usr/bin/jobrun|' "$TOP/crontab.example" | diff - root/usr/share/doc/jobrun/crontab.example
	[ -z "$(grep -rl /usr/local/bin/jobrun root/usr/share)" ]
	if command -v scdoc; then
		grep -q '/usr/bin/jobrun --once' root/usr/share/man/man1/jobrun.1
		assert_file_not_empty root/usr/share/man/man1/jobrun.1
		assert_file_not_empty root/usr/share/man/man7/jobrun-scale.7
		assert_file_not_empty root/usr/share/man/man7/jobrun-deploy.7
		assert_file_not_empty root/usr/share/man/man7/jobrun-json.7
	else
		assert_output --partial 'left out: manual pages'
	fi
	assert_file_exists root/usr/share/doc/jobrun/jobrun.rules.yml
	assert_file_exists root/usr/share/doc/jobrun/jobrun-dashboard.json
	assert_file_executable root/usr/share/doc/jobrun/examples/hello
	diff -r "$TOP/scripts/examples" root/usr/share/doc/jobrun/examples
	[ "$(sed -n 's/^ExecStart=//p' root/usr/lib/systemd/system/jobrun.service)" = "/usr/bin/jobrun run" ]
	grep -qx 'AccuracySec=1s' root/usr/lib/systemd/system/jobrun.timer
	bash -n root/usr/share/bash-completion/completions/jobrun
	assert_file_not_empty root/usr/share/zsh/vendor-completions/_jobrun
	assert_file_not_empty root/usr/share/fish/vendor_completions.d/jobrun.fish
	[ "$(find root -type f -perm /022 | wc -l)" -eq 0 ]
}

@test "installed completions are found by zsh below /usr/local, and by fish if XDG_DATA_DIRS names /usr/local/share" {
	run make_in_tree install DESTDIR="$BATS_TEST_TMPDIR/root"
	assert_file_not_empty root/usr/local/share/zsh/site-functions/_jobrun
	assert_not_exist root/usr/local/share/zsh/vendor-completions
	if command -v zsh; then
		zsh -f -c 'print -l $fpath' | grep -qx /usr/local/share/zsh/site-functions
	fi
	assert_file_not_empty root/usr/local/share/fish/vendor_completions.d/jobrun.fish
	if command -v fish; then
		export PATH=$BATS_TEST_TMPDIR/root/usr/local/bin:$PATH XDG_DATA_DIRS=$BATS_TEST_TMPDIR/root/usr/local/share:/usr/share
		run timeout 20 fish -c 'complete -C "jobrun enqu"' </dev/null
		assert_output --regexp '^enqueue'
	fi
}

@test "uninstall removes what install put there and nothing else" {
	make_in_tree install DESTDIR="$BATS_TEST_TMPDIR/root" PREFIX=/opt/jobrun
	touch root/opt/jobrun/bin/other
	run make_in_tree uninstall DESTDIR="$BATS_TEST_TMPDIR/root" PREFIX=/opt/jobrun
	assert_success
	run find root -type f
	assert_output root/opt/jobrun/bin/other
}

@test "dist makes the same bytes each time, with manual pages" {
	git -C "$TOP" rev-parse HEAD >/dev/null 2>&1 || skip 'no git repository'
	command -v scdoc >/dev/null || skip 'no scdoc'
	"$TOP/scripts/dist" 1.2.3 "$BATS_TEST_TMPDIR/one"
	(umask 077 && "$TOP/scripts/dist" 1.2.3 "$BATS_TEST_TMPDIR/two")
	cmp one/jobrun-1.2.3.tar.gz two/jobrun-1.2.3.tar.gz
	tar -xzf one/jobrun-1.2.3.tar.gz
	assert_file_not_empty jobrun-1.2.3/cmd/man/jobrun.1
	# Without scdoc the page of the archive is taken.
	mkdir bin
	printf '#!/bin/sh\nexit 1\n' >bin/scdoc
	chmod +x bin/scdoc
	PATH=$PWD/bin:$PATH run make -C jobrun-1.2.3 --no-print-directory BUILD=build build/man/jobrun.1
	assert_success
	cmp jobrun-1.2.3/build/man/jobrun.1 jobrun-1.2.3/cmd/man/jobrun.1
}

@test "the installed program says its version" {
	make_in_tree install DESTDIR="$BATS_TEST_TMPDIR/root"
	version=$(sed -n 's/^VERSION = //p' "$TOP/Makefile")
	run ./root/usr/local/bin/jobrun --version
	assert_success
	assert_output --partial "jobrun $version"
}

@test "the installed program runs a handler with cron's environment" {
	make_in_tree install DESTDIR="$BATS_TEST_TMPDIR/root"
	mkdir -p home/.config/jobrun/handlers
	JOBRUN_HANDLERS=$HOME/.config/jobrun/handlers handler hello <<<'echo hello >"$HOME/said"'
	id=$(enqueue hello)
	run --separate-stderr env -i HOME="$HOME" LOGNAME=root SHELL=/bin/sh PATH=/usr/bin:/bin \
		JOBRUN_TEST_ID="$JOBRUN_TEST_ID" JOBRUN_STATE_DIR="$JOBRUN_STATE_DIR" ASAN_OPTIONS="$ASAN_OPTIONS" \
		JOBRUN_DATABASE_URL="$JOBRUN_DATABASE_URL" \
		/bin/sh -c "$BATS_TEST_TMPDIR/root/usr/local/bin/jobrun --once" 3>&-
	assert_success
	assert_output ""
	[ -z "$stderr" ]
	run_is "$id" succeeded
	assert_file_contains "$HOME/said" hello
}

@test "flags that harden the program are used where the compiler has them for its target, and only there" {
	cat >cc <<-'sh'
		#!/bin/sh
		for arg; do
			case $arg in
			-fcf-protection | -mbranch-protection=* | -ftrivial-auto-var-init=*)
				case " $HAS " in *" $arg "*) ;; *) exit 1 ;; esac
				;;
			--target=arm) HAS=-mbranch-protection=standard ;;
			esac
		done
	sh
	chmod +x cc
	used() {
		# Without the flags of the make that runs the tests: under SANITIZE=1 nothing is hardened.
		HAS=$1 env -u MAKEFLAGS -u MFLAGS -u SANITIZE make -C "$TOP" -s BUILD="$PWD/b" CC="$PWD/cc" "${@:2}" "$PWD/b/flags"
		grep -oE -e '-(fcf|mbranch)-protection[=a-z]*|-ftrivial-auto-var-init[=a-z]*' b/flags | paste -sd' '
	}
	assert_equal "$(used '-fcf-protection -ftrivial-auto-var-init=zero')" '-fcf-protection -ftrivial-auto-var-init=zero'
	assert_equal "$(used '-mbranch-protection=standard')" '-mbranch-protection=standard'
	assert_equal "$(used '')" ''
	assert_equal "$(used '-fcf-protection' CFLAGS='-O2 --target=arm')" '-mbranch-protection=standard'
}

@test "each line of crontab.example is a comment, a setting or a cron line with an absolute path" {
	while IFS= read -r line; do
		case $line in
		'' | '#'*) ;;
		[A-Z]*=*) ;;
		'* * * * * /usr/local/bin/jobrun '*) ;;
		*) fail "crontab.example: $line" ;;
		esac
	done <"$TOP/crontab.example"
}
