/*
 * completion: scripts that let shells complete command lines of jobrun. They know nothing: they hand the words of the
 * line to "jobrun completion --", so what is completed is always what this program takes (complete.h).
 */
#include <string.h>

#include "complete.h"

/* Status 1 means a file. A database that hangs ends the program by a signal, after what else it knew. */
static const char bash[] =
    "# jobrun for bash\n"
    "_jobrun() {\n"
    "	local program=${COMP_WORDS[0]/#\\~/$HOME} found line\n"
    "	COMPREPLY=()\n"
    "	found=$(\"$program\" completion -- \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null) || [ $? -ne 1 ] || {\n"
    "		compopt -o default 2>/dev/null\n"
    "		return 0\n"
    "	}\n"
    "	while IFS= read -r line; do\n"
    "		[ -z \"$line\" ] || COMPREPLY+=(\"${line%%$'\\t'*}\")\n"
    "	done <<<\"$found\"\n"
    "}\n"
    "complete -F _jobrun jobrun\n";

static const char zsh[] =
    "#compdef jobrun\n"
    "_jobrun() {\n"
    "	local found line\n"
    "	local -a lines\n"
    "	found=$(\"${(Q)words[1]/#\\~/$HOME}\" completion -- \"${(@Q)words[2,CURRENT-1]}\" \"${(Q)PREFIX}\" 2>/dev/null)\n"
    "	if [ $? -eq 1 ]; then\n"
    "		_files\n"
    "		return\n"
    "	fi\n"
    "	for line in ${(f)found}; do\n"
    "		lines+=(\"${line/$'\\t'/:}\")\n"
    "	done\n"
    "	_describe -V jobrun lines\n"
    "}\n"
    "if [ \"$funcstack[1]\" = _jobrun ]; then\n"
    "	_jobrun \"$@\"\n"
    "else\n"
    "	compdef _jobrun jobrun\n"
    "fi\n";

static const char fish[] = "# jobrun for fish\n"
			   "function __jobrun_words\n"
			   "	set -l words (commandline -opc)\n"
			   "	set -l last (commandline -ct)\n"
			   "	set -l found ($words[1] completion -- $words[2..-1] \"$last\" 2>/dev/null)\n"
			   "	if test $status -eq 1\n"
			   "		__fish_complete_path \"$last\"\n"
			   "	else\n"
			   "		string join \\n -- $found\n"
			   "	end\n"
			   "end\n"
			   "complete -c jobrun -f -a '(__jobrun_words)'\n";

static int
completion_run(const struct jr_app *app, const void *values, int argc, char **argv, struct jr_err *err)
{
	static const struct {
		const char *shell, *script;
	} scripts[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};

	(void)values;
	if (strcmp(argv[0], "--") == 0 && argc > 1)
		return jr_complete(app, argv + 1, argc - 1) ? 0 : JR_E_NEWS;
	for (size_t i = 0; argc == 1 && i < JR_COUNT(scripts); i++) {
		if (strcmp(argv[0], scripts[i].shell) == 0) {
			fputs(scripts[i].script, stdout);
			return 0;
		}
	}
	jr_fail(err, JR_E_USAGE, "there is completion for bash, zsh and fish; usage: jobrun completion bash|zsh|fish");
	return (int)err->code;
}

const struct jr_cmd jr_cmd_completion = {
    .name = "completion",
    .group = JR_GROUP_SETUP,
    .summary = "print a script by which bash, zsh or fish complete command lines",
    .usage = "bash|zsh|fish | -- WORD...",
    .details =
	"bash: put  source <(jobrun completion bash)  into ~/.bashrc.\n"
	"zsh: put  source <(jobrun completion zsh)  into ~/.zshrc, after compinit.\n"
	"fish: jobrun completion fish > ~/.config/fish/completions/jobrun.fish\n"
	"\n"
	"Job types, queues, definitions and ids come from the database if it answers within 300 ms. After -- the "
	"scripts give the words of a command line, and get what the last one may be; exit status 1 means a file.\n",
    .min_args = 1,
    .max_args = -1,
    .takes_command = true,
    .run = completion_run,
};
