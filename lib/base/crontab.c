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

static bool
read_schedule(const char **text, struct jr_buf *schedule)
{
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

bool
jr_crontab_calls(const char *shell_command, const char *program)
{
	const char *word = shell_command;

	while (*word != '\0') {
		size_t all = strcspn(word, WORD_ENDS "\"'"), len = all;
		const char *base = base_name(word, &len);

		if (len == strlen(program) && strncmp(base, program, len) == 0)
			return true;
		word += all + (word[all] != '\0');
	}
	return false;
}

/* --- names --- */

static bool
is_one_of(const char *word, size_t len, const char *const *words, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (strlen(words[i]) == len && strncmp(words[i], word, len) == 0)
			return true;
	}
	return false;
}

/* What is passed over behind a word that says nothing about the job. */
enum passing {
	PASS_NONE,
	PASS_WORD,    /* one word that is no option and no number */
	PASS_COMMAND, /* up to the end of the command */
	PASS_TEST     /* up to "]" */
};

/* Does the word say nothing about the job? *passing: nor does what is behind it. */
static bool
is_passed_over(const char *word, size_t len, enum passing *passing)
{
	static const char *const tests[] = {"[", "[["};
	static const char *const commands[] = {"cd", "test", ".", "source", "umask", "ulimit", "set", "export", "unset",
	    "exit", "return", "true", "false", ":", "sleep", "for"};
	static const char *const with_argument[] = {"flock", "su"};
	static const char *const others[] = {"nice", "ionice", "env", "sudo", "exec", "nohup", "time", "chronic", "sh",
	    "bash", "dash", "ksh", "zsh", "python", "python2", "python3", "perl", "php", "ruby", "node", "java",
	    "command", "setsid", "timeout", "KILL", "TERM", "INT", "date", "if", "then", "elif", "else", "while",
	    "until", "do", "!", "{", "]", "]]"};

	if (is_one_of(word, len, tests, JR_COUNT(tests)))
		*passing = PASS_TEST;
	else if (is_one_of(word, len, commands, JR_COUNT(commands)))
		*passing = PASS_COMMAND;
	else if (is_one_of(word, len, with_argument, JR_COUNT(with_argument)))
		*passing = PASS_WORD;
	else
		return is_one_of(word, len, others, JR_COUNT(others));
	return true;
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

/* An option, a number, an argument of date, a redirection or a variable that is set. */
static bool
is_no_program(const char *word, size_t len)
{
	return strchr("-+<>$\\%#*?~!", word[0]) != NULL || is_number(word, len) || memchr(word, '=', len) != NULL;
}

/* Does a command end in what is between two words? The "&" of a redirection ends none. */
static bool
has_end(const char *between, size_t len)
{
	return strcspn(between, ";&|\n") < len && memchr(between, '>', len) == NULL;
}

/* Is the word one of those to pass over? Their last one ends that. */
static bool
is_behind(const char *word, enum passing *passing)
{
	bool is_passed = *passing != PASS_NONE;

	if (*passing == PASS_WORD || (*passing == PASS_TEST && word[0] == ']'))
		*passing = PASS_NONE;
	return is_passed;
}

/* The word that names the job; NULL: none. */
static const char *
find_program(const char *text, size_t *len)
{
	enum passing passing = PASS_NONE;

	for (; *text != '\0'; text += *len) {
		size_t between = strspn(text, WORD_ENDS "\"'"), base_len;
		const char *base;

		if (passing != PASS_TEST && has_end(text, between))
			passing = PASS_NONE;
		text += between;
		*len = base_len = strcspn(text, WORD_ENDS "\"'");
		if (*len == 0 || is_no_program(text, *len) || is_behind(text, &passing))
			continue;
		base = base_name(text, &base_len);
		if (base_len == 0 || is_passed_over(base, base_len, &passing))
			continue;
		*len = base_len;
		return base;
	}
	return NULL;
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
