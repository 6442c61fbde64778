/*
 * crontab: see crontab.h.
 *
 * What must hold: no byte of a command is lost or changed but as cron itself changes it. Blanks are space and tab, as
 * for cron.
 */
#include "base/crontab.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/parse.h"

#include <stdlib.h>
#include <string.h>

#define BLANKS " \t"
#define NAME_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"
#define DIGITS "0123456789"
#define FIELD_LETTERS NAME_LETTERS DIGITS "*,/~-"
#define PLAIN_LETTERS NAME_LETTERS DIGITS "@+:,./-"
#define WORD_ENDS BLANKS ";&|()<>\n"
#define FIELDS 5
#define NAME_MAX_LEN 50 /* there is room for a number behind it */

/* --- lines --- */

/* Take what is in quotes, or what is there without blanks at the end. Caller frees. */
static char *
take_value(const char *text)
{
	size_t len = strlen(text);

	while (len > 0 && strchr(BLANKS, text[len - 1]) != NULL)
		len--;
	if (len >= 2 && (text[0] == '"' || text[0] == '\'') && text[len - 1] == text[0]) {
		text++;
		len -= 2;
	}
	return jr_xmemdup0(text, len);
}

/* NAME = VALUE, where both may have quotes. An entry never begins with a letter or a quote. */
static bool
read_variable(struct jr_crontab_line *line, const char *text)
{
	char quote = text[0] == '"' || text[0] == '\'' ? text[0] : '\0';
	const char *name = text + (quote != '\0'), *rest;
	size_t len = strspn(name, NAME_LETTERS DIGITS);

	if (len == 0 || strchr(DIGITS, name[0]) != NULL || (quote != '\0' && name[len] != quote))
		return false;
	rest = name + len + (quote != '\0');
	rest += strspn(rest, BLANKS);
	if (*rest != '=')
		return false;
	line->kind = JR_CRONTAB_VARIABLE;
	line->name = jr_xmemdup0(name, len);
	line->value = take_value(rest + 1 + strspn(rest + 1, BLANKS));
	return true;
}

/* Append the next word of *text to *schedule and step behind it and its blanks. */
static bool
take_field(const char **text, const char *letters, struct jr_buf *schedule)
{
	size_t len = strspn(*text, letters), blanks = strspn(*text + len, BLANKS);

	if (len == 0 || blanks == 0)
		return false;
	if (schedule->len > 0)
		jr_buf_addc(schedule, ' ');
	jr_buf_add(schedule, *text, len);
	*text += len + blanks;
	return true;
}

/* A "-" in front says that cron shall not log the job; cronie and SUSE's cron know that. */
static bool
read_schedule(const char **text, struct jr_buf *schedule)
{
	*text += **text == '-';
	if (**text == '@')
		return take_field(text, "@" NAME_LETTERS, schedule);
	for (int i = 0; i < FIELDS; i++) {
		if (!take_field(text, FIELD_LETTERS, schedule))
			return false;
	}
	return true;
}

static void
read_entry(struct jr_crontab_line *line, const char *begin, const char *text, bool system)
{
	struct jr_buf schedule;
	size_t len;

	jr_buf_init(&schedule, strlen(text) + 1);
	if (read_schedule(&text, &schedule)) {
		len = system ? strcspn(text, BLANKS) : 0;
		if (system && text[len] != '\0') {
			line->user = jr_xmemdup0(text, len);
			text += len + strspn(text + len, BLANKS);
		}
		if (*text != '\0' && system == (line->user != NULL)) {
			line->kind = JR_CRONTAB_ENTRY;
			line->schedule = jr_xstrdup(schedule.data);
			line->command = jr_xstrdup(text);
			line->before = (size_t)(text - begin);
		} else {
			free(line->user);
			line->user = NULL;
		}
	}
	jr_buf_release(&schedule);
}

void
jr_crontab_read(struct jr_crontab_line *line, const char *text, size_t len, bool system)
{
	char *copy = jr_xmemdup0(text, len), *begin = copy + strspn(copy, BLANKS);

	*line = (struct jr_crontab_line){.kind = JR_CRONTAB_UNKNOWN};
	if (*begin == '\0' || *begin == '#')
		line->kind = JR_CRONTAB_NOTHING;
	else if (!read_variable(line, begin))
		read_entry(line, copy, begin, system);
	free(copy);
}

void
jr_crontab_release(struct jr_crontab_line *line)
{
	free(line->name);
	free(line->value);
	free(line->schedule);
	free(line->user);
	free(line->command);
	*line = (struct jr_crontab_line){.kind = JR_CRONTAB_NOTHING};
}

/* --- commands --- */

/* A backslash makes the character behind it an ordinary one, so "\\%" ends the command. */
size_t
jr_crontab_command_len(const char *command)
{
	size_t i;

	for (i = 0; command[i] != '\0' && command[i] != '%'; i++) {
		if (command[i] == '\\' && command[i + 1] != '\0')
			i++;
	}
	return i;
}

/* The text with "\%" as "%", and with "%" as a newline. Caller frees. */
static char *
translate(const char *text, size_t len)
{
	char *out = jr_xmalloc(len + 1);
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		bool escapes = text[i] == '\\' && i + 1 < len;

		if (escapes && text[i + 1] != '%')
			out[n++] = text[i];
		if (escapes)
			i++;
		out[n++] = text[i] == '%' && !escapes ? '\n' : text[i];
	}
	out[n] = '\0';
	return out;
}

void
jr_crontab_translate(const char *command, char **shell_command, char **input)
{
	size_t len = jr_crontab_command_len(command), more;

	*shell_command = translate(command, len);
	*input = NULL;
	if (command[len] == '\0')
		return;
	more = strlen(command + len + 1);
	*input = translate(command + len + 1, more);
	more = strlen(*input);
	if (more > 0 && (*input)[more - 1] == '\n')
		return;
	*input = jr_xrealloc(*input, more + 2, 1);
	memcpy(*input + more, "\n", 2);
}

char *
jr_crontab_entry(const char *shell_command)
{
	char *out = jr_xmalloc(strlen(shell_command) * 2 + 1);
	size_t n = 0;

	for (const char *c = shell_command; *c != '\0'; c++) {
		if (*c == '%')
			out[n++] = '\\';
		out[n++] = *c;
	}
	out[n] = '\0';
	return out;
}

bool
jr_crontab_is_plain(const char *shell_command)
{
	size_t first = strspn(shell_command, PLAIN_LETTERS);

	return memchr(shell_command, '/', first) != NULL &&
	       shell_command[strspn(shell_command, PLAIN_LETTERS "=" BLANKS)] == '\0' && shell_command[first] != '=';
}

/* The part of a path behind its last slash. */
static const char *
base_name(const char *word, size_t *len)
{
	for (size_t i = *len; i > 0; i--) {
		if (word[i - 1] == '/') {
			*len -= i;
			return word + i;
		}
	}
	return word;
}

/* --- names --- */

/* What is passed over behind a word that says nothing about the job, and behind its options. */
enum passing {
	PASS_NONE,
	PASS_WORD,    /* one word that is no option and no number */
	PASS_COMMAND, /* up to the end of the command */
	PASS_TEST     /* up to "]" */
};

/* A word that says nothing about the job. The options are those with an argument in a word of its own. */
struct starter {
	const char *name;
	const char *valued; /* options without their dashes, divided by spaces; NULL: none */
	const char *code;   /* further ones, whose argument is a program in the language that the starter reads */
	const char *ends;   /* options behind which nothing is passed over; NULL: none */
	enum passing passing;
	bool is_language; /* a number may follow its name, as in php8.2 */
};

/* clang-format off */
static const struct starter starters[] = {
	{ .name = "sudo", .valued = "u user g group h host p prompt C close-from D chdir R chroot r role t type T U" },
	{ .name = "doas", .valued = "u C a" },
	{ .name = "su", .passing = PASS_WORD, .valued = "s shell g group G supp-group w", .ends = "c command" },
	{ .name = "runuser", .passing = PASS_WORD, .valued = "u user s shell g group G supp-group w", .ends = "c command u user" },
	{ .name = "env", .valued = "u unset C chdir" },
	{ .name = "ionice", .valued = "c class" },
	{ .name = "timeout", .valued = "s signal" },
	{ .name = "flock", .passing = PASS_WORD },
	{ .name = "stdbuf", .valued = "i input o output e error" },
	{ .name = "time", .valued = "f format o output" },
	{ .name = "exec", .valued = "a" },
	{ .name = "sh", .valued = "o" },
	{ .name = "bash", .valued = "o O rcfile init-file" },
	{ .name = "dash", .valued = "o" },
	{ .name = "ksh", .valued = "o" },
	{ .name = "zsh", .valued = "o" },
	{ .name = "python", .valued = "W X", .code = "c", .is_language = true },
	{ .name = "perl", .valued = "I M m", .code = "e E", .is_language = true },
	{ .name = "php", .valued = "c d z", .code = "r", .is_language = true },
	{ .name = "ruby", .valued = "C I r", .code = "e", .is_language = true },
	{ .name = "node", .valued = "r require import", .code = "e eval p print", .is_language = true },
	{ .name = "java", .valued = "cp classpath class-path module-path" },
	{ .name = "[", .passing = PASS_TEST },
	{ .name = "[[", .passing = PASS_TEST },
};
/* clang-format on */

/* The word is one of those of a list that spaces divide. */
static bool
is_in(const char *word, size_t len, const char *list)
{
	for (const char *p = list; p != NULL && *p != '\0'; p += *p == ' ') {
		size_t each = strcspn(p, " ");

		if (each == len && strncmp(p, word, len) == 0)
			return true;
		p += each;
	}
	return false;
}

/* Does the word say nothing about the job? NULL: it does. */
static const struct starter *
find_starter(const char *word, size_t len)
{
	static const struct starter plain = {.name = ""}, prepares = {.name = "", .passing = PASS_COMMAND};
	size_t base = len;

	while (base > 1 && strchr(DIGITS ".", word[base - 1]) != NULL)
		base--;
	for (size_t i = 0; i < JR_COUNT(starters); i++) {
		size_t own = strlen(starters[i].name);

		if ((own == len || (own == base && starters[i].is_language)) &&
		    strncmp(word, starters[i].name, own) == 0)
			return &starters[i];
	}
	if (is_in(word, len, "cd test . source umask ulimit set export unset exit return true false : sleep for read"))
		return &prepares;
	if (is_in(word, len, "nice nohup chronic cronic command setsid date if then elif else while until do ! { ] ]]"))
		return &plain;
	return NULL;
}

/* -u, -Hu, --user: is the argument of this option the next word? In -uwww and --user=www it is not. */
static bool
has_value_behind(const char *word, size_t len, const char *valued)
{
	size_t dashes = len > 1 && word[1] == '-' ? 2 : 1;

	if (len > dashes && is_in(word + dashes, len - dashes, valued))
		return true;
	for (size_t i = 1; dashes == 1 && i < len; i++) {
		if (is_in(word + i, 1, valued))
			return i + 1 == len;
	}
	return false;
}

/* Digits, perhaps with a unit as in "1.5h". */
static bool
is_number(const char *word, size_t len)
{
	size_t number = strspn(word, DIGITS ".");

	if (number > len)
		number = len;
	return strcspn(word, DIGITS) < number &&
	       (number == len || (number + 1 == len && strchr("smhd", word[number]) != NULL));
}

/* An option, a number, an argument of date, a variable, or what names many files; but not "$HOME/bin/backup". */
static bool
is_no_program(const char *word, size_t len)
{
	bool is_path = strchr("$~", word[0]) != NULL && memchr(word, '/', len) != NULL;

	if (is_path) {
		size_t base_len = len;
		const char *base = base_name(word, &base_len);

		return memchr(base, '$', base_len) != NULL || memchr(word, '=', len) != NULL;
	}
	return strchr("-+$\\%#*?~!", word[0]) != NULL || is_number(word, len) || memchr(word, '=', len) != NULL;
}

/* Does a command end in what is between two words? The "&" or "|" of a redirection ends none. */
static bool
has_end(const char *between, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		bool after = i > 0 && strchr("<>", between[i - 1]) != NULL;
		bool before = i + 1 < len && between[i + 1] == '>';

		if (strchr(";\n", between[i]) != NULL || (strchr("&|", between[i]) != NULL && !after && !before))
			return true;
	}
	return false;
}

/* Is the word behind this the file of a redirection? */
static bool
is_redirection(const char *between, size_t len)
{
	while (len > 0 && strchr(BLANKS "\"'&|", between[len - 1]) != NULL)
		len--;
	return len > 0 && strchr("<>", between[len - 1]) != NULL;
}

/* Where the walk through the words of a command stands. */
struct walk {
	const struct starter *starter; /* whose options come; NULL: none */
	enum passing passing;
	bool is_value;        /* the next word is the argument of an option */
	const char *language; /* the first starter that got its program as an option; NULL: none */
};

static void
take_option(struct walk *walk, const char *word, size_t len)
{
	const struct starter *starter = walk->starter;
	bool is_code;

	if (starter == NULL)
		return;
	is_code = has_value_behind(word, len, starter->code);
	if (has_value_behind(word, len, starter->ends))
		walk->passing = PASS_NONE;
	else if (is_code && walk->language == NULL)
		walk->language = starter->name;
	walk->is_value = is_code || has_value_behind(word, len, starter->valued);
}

/* Is the word one of those to pass over? Their last one ends that. */
static bool
is_behind(struct walk *walk, const char *word)
{
	bool is_passed = walk->passing != PASS_NONE;

	if (walk->passing == PASS_WORD || (walk->passing == PASS_TEST && word[0] == ']'))
		walk->passing = PASS_NONE;
	return is_passed;
}

static bool
is_passed_over(struct walk *walk, const char *word, size_t len)
{
	const struct starter *starter;
	size_t base_len = len;
	const char *base = base_name(word, &base_len);

	if (walk->passing <= PASS_WORD && strchr("-+", word[0]) != NULL)
		take_option(walk, word, len);
	if (is_no_program(word, len) || is_behind(walk, word) || base_len == 0)
		return true;
	starter = find_starter(base, base_len);
	if (starter == NULL)
		return false;
	walk->starter = starter;
	walk->passing = starter->passing;
	return true;
}

/*
 * How much to step over with a word of text[0..len): if it is a value or the file of a redirection, or ends in "=",
 * also what is in its quotes. `quote`: the one before it, or another character.
 */
static size_t
whole_len(const char *text, size_t len, char quote, bool is_value)
{
	const char *end;

	if (!is_value || strchr("\"'", quote) == NULL) {
		if (len == 0 || text[len - 1] != '=' || text[len] == '\0' || strchr("\"'", text[len]) == NULL)
			return len;
		quote = text[len++];
	}
	end = strchr(text + len, quote);
	return end == NULL ? len : (size_t)(end - text);
}

/* bash -lc, su --command: is what follows a command, perhaps in quotes? */
static bool
takes_command(const char *word, size_t len)
{
	return word[0] == '-' && (word[len - 1] == 'c' || is_in(word, len, "--command --session-command"));
}

/*
 * The length of the word behind text[0..between). In quotes it ends with them, but for those of a command; a blank
 * behind a backslash ends no word. is_first: nothing is before text; else a quote at its beginning ends the word
 * before.
 */
static size_t
word_len(const char *text, size_t between, bool is_first, bool is_command)
{
	static const char quotes[] = "\"'";
	const char *word = text + between, *end = NULL;
	bool in_quotes = between > (is_first ? 0 : 1) && strchr(quotes, word[-1]) != NULL;
	bool in_others = between > 1 && strchr(quotes, word[-2]) != NULL; /* '"/opt/a b" -x' */
	size_t len = strcspn(word, WORD_ENDS "\"'");

	if (in_quotes && (!is_command || in_others))
		end = strchr(word, word[-1]);
	if (end != NULL)
		return (size_t)(end - word);
	while (len > 0 && word[len - 1] == '\\' && word[len] != '\0' && strchr(BLANKS, word[len]) != NULL)
		len += 1 + strcspn(word + len + 1, WORD_ENDS "\"'");
	return len;
}

/* The word that names the job; NULL: none. */
static const char *
find_program(const char *text, size_t *len)
{
	struct walk walk = {.passing = PASS_NONE};
	const char *begin = text;
	bool is_command = false;

	for (; *text != '\0'; text += *len) {
		size_t between = strspn(text, WORD_ENDS "\"'");
		char quote = between > 0 ? text[between - 1] : ' ';
		bool is_value = is_redirection(text, between);

		*len = word_len(text, between, text == begin, is_command);
		if (walk.passing != PASS_TEST && has_end(text, between))
			walk = (struct walk){.language = walk.language};
		text += between;
		if (*len == 0)
			continue;
		is_command = takes_command(text, *len);
		if (is_value || walk.is_value) {
			walk.is_value = walk.is_value && is_value;
			*len = whole_len(text, *len, quote, true);
		} else if (is_passed_over(&walk, text, *len))
			*len = whole_len(text, *len, quote, false);
		else
			return base_name(text, len);
	}
	*len = walk.language == NULL ? 0 : strlen(walk.language);
	return walk.language;
}

char *
jr_crontab_name(const char *shell_command)
{
	size_t len = 0, n = 0;
	const char *word = find_program(shell_command, &len);
	char name[NAME_MAX_LEN + 1];
	struct jr_err unused;

	for (size_t i = 0; word != NULL && i < len && n < NAME_MAX_LEN; i++) {
		char c = word[i];

		if (c >= 'A' && c <= 'Z')
			c = (char)(c - 'A' + 'a');
		else if ((c < 'a' || c > 'z') && (c == '\0' || strchr(DIGITS "_.-", c) == NULL))
			c = '-';
		if (n > 0 || (c != '-' && c != '_' && c != '.'))
			name[n++] = c;
	}
	while (n > 0 && strchr("-_.", name[n - 1]) != NULL)
		n--;
	name[n] = '\0';
	if (strncmp(name, "jobrun.", strlen("jobrun.")) == 0)
		name[strlen("jobrun")] = '-';
	return jr_xstrdup(jr_parse_definition("name", name, &unused) ? name : "job");
}

/* --- words of a shell --- */

char *
jr_crontab_quote(const char *text, size_t len)
{
	struct jr_buf out;

	jr_buf_init(&out, 4 * len + 3);
	jr_buf_addc(&out, '\'');
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '\'')
			jr_buf_adds(&out, "'\\''");
		else
			jr_buf_addc(&out, text[i]);
	}
	jr_buf_addc(&out, '\'');
	return jr_buf_detach(&out);
}

char *
jr_crontab_word(const char *text)
{
	if (text[0] != '\0' && text[strspn(text, PLAIN_LETTERS)] == '\0')
		return jr_xstrdup(text);
	return jr_crontab_quote(text, strlen(text));
}
