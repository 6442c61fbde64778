/*
 * calls: see calls.h. Pure.
 */
#include "calls.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "commands.h"

#define BLANKS " \t"
#define COMMAND_ENDS ";&|()<>`\n" /* what a redirection names is no argument that matters here */
#define QUOTES "\"'"
#define COMMAND_NAME(name) #name,

static const char *const command_names[] = {JR_COMMANDS(COMMAND_NAME)};

/* A word without its quotes and backslashes. */
struct word {
	char *text;
	bool is_first;  /* a command begins with it */
	bool is_quoted; /* at least in part */
};

struct words {
	struct word *items;
	size_t count;
};

/* --- words --- */

/* Add what is in quotes at *at and step behind them. Without an end they reach up to that of the text. */
static void
take_quoted(const char **at, struct jr_buf *out)
{
	const char *c = *at + 1;
	char quote = **at;

	for (; *c != '\0' && *c != quote; c++) {
		if (quote == '"' && *c == '\\' && c[1] != '\0' && strchr("\"\\$`", c[1]) != NULL)
			c++;
		jr_buf_addc(out, *c);
	}
	*at = c + (*c == quote);
}

/* Step behind the word at *at, which is not empty. The text is owned. */
static struct word
take_word(const char **at)
{
	struct word word = {.text = NULL};
	const char *c = *at;
	struct jr_buf out;

	jr_buf_init(&out, strlen(c) + 1);
	while (*c != '\0' && strchr(BLANKS COMMAND_ENDS, *c) == NULL) {
		bool escapes = *c == '\\' && c[1] != '\0';

		word.is_quoted = word.is_quoted || escapes || strchr(QUOTES, *c) != NULL;
		if (strchr(QUOTES, *c) != NULL)
			take_quoted(&c, &out);
		else {
			c += escapes ? 1 : 0;
			jr_buf_addc(&out, *c++);
		}
	}
	*at = c;
	word.text = jr_buf_detach(&out);
	return word;
}

/* Up to the end, or to a comment that goes there. Release *words. */
static void
read_words(struct words *words, const char *text)
{
	bool is_first = true;

	*words = (struct words){.count = 0};
	while (*text != '\0') {
		if (strchr(BLANKS COMMAND_ENDS, *text) != NULL) {
			is_first = is_first || strchr(COMMAND_ENDS, *text) != NULL;
			text++;
			continue;
		}
		if (*text == '#')
			text += strcspn(text, "\n");
		else {
			words->items = jr_xrealloc(words->items, words->count + 1, sizeof(*words->items));
			words->items[words->count] = take_word(&text);
			words->items[words->count++].is_first = is_first;
			is_first = false;
		}
	}
}

static void
release_words(struct words *words)
{
	for (size_t i = 0; i < words->count; i++)
		free(words->items[i].text);
	free(words->items);
}

/* --- a call --- */

/* A variable that is set, or a URL, may end as the name of a program does. */
static bool
names_jobrun(const char *word)
{
	const char *slash = strrchr(word, '/');

	return strchr(word, '=') == NULL && strstr(word, "://") == NULL &&
	       strcmp(slash == NULL ? word : slash + 1, "jobrun") == 0;
}

/* A global option by its name or, if that is empty, by its letter. NULL: there is none. */
static const struct jr_option *
find_option(const char *name, size_t len, char letter)
{
	for (const struct jr_option *option = jr_global_options(); option->name != NULL; option++) {
		if (len == 0 ? option->letter == letter
			     : strlen(option->name) == len && strncmp(option->name, name, len) == 0)
			return option;
	}
	return NULL;
}

/* How many words a global option has: two with an argument in a word of its own. 0: it is none. */
static size_t
option_words(const char *word)
{
	const struct jr_option *option = NULL;

	if (word[1] == '-') {
		size_t len = strcspn(word + 2, "=");

		option = len == 0 ? NULL : find_option(word + 2, len, '\0');
		if (option == NULL || (option->arg == NULL && word[2 + len] != '\0'))
			return 0;
		return option->arg != NULL && word[2 + len] == '\0' ? 2 : 1;
	}
	for (size_t i = 1; word[i] != '\0'; i++) { /* -v, -vd CONNINFO, -dCONNINFO */
		option = find_option("", 0, word[i]);
		if (option == NULL || option->arg != NULL)
			return option == NULL ? 0 : word[i + 1] == '\0' ? 2 : 1;
	}
	return option == NULL ? 0 : 1;
}

/* NULL: it is none. */
static const char *
command_of(const char *word)
{
	if (strcmp(word, "--once") == 0)
		return "run";
	for (size_t i = 0; i < JR_COUNT(command_names); i++) {
		if (strcmp(word, command_names[i]) == 0)
			return command_names[i];
	}
	return NULL;
}

/* The command behind items[*at..end) of global options, to which *at is moved. A variable may hold some. NULL: none. */
static const char *
find_command(const struct words *words, size_t *at, size_t end)
{
	while (*at < end) {
		const char *word = words->items[*at].text, *command = command_of(word);
		size_t count = word[0] == '$' ? 1 : word[0] == '-' ? option_words(word) : 0;

		if (command != NULL || count == 0)
			return command;
		*at += count;
	}
	return NULL;
}

/* Takes the texts of the words: items[program], and its arguments from items[at] on. Returns where they end. */
static size_t
add_call(struct jr_calls *calls, struct words *words, size_t program, const char *command, size_t at, size_t end)
{
	struct jr_call call = {.program = jr_xstrdup(words->items[program].text), .command = command};
	size_t count = 0;

	call.args = jr_xcalloc(end - at + 1, sizeof(*call.args));
	for (; at < end && strcmp(words->items[at].text, "--") != 0; at++)
		call.args[count++] = jr_xstrdup(words->items[at].text);
	calls->items = jr_xrealloc(calls->items, calls->count + 1, sizeof(*calls->items));
	calls->items[calls->count++] = call;
	return at;
}

/* --- the whole --- */

/* Of a command that begins at items[at]: where the next one begins. */
static size_t
end_of_command(const struct words *words, size_t at)
{
	do {
		at++;
	} while (at < words->count && !words->items[at].is_first);
	return at;
}

/* Each step inwards removes quotes, so it ends. */
static void
find_in(struct jr_calls *calls, const char *text)
{
	struct words words;

	read_words(&words, text);
	for (size_t i = 0, end = 0; i < words.count; i++) {
		const struct word *word = &words.items[i];
		size_t at = i + 1;
		const char *command;

		if (i >= end)
			end = end_of_command(&words, i);
		command = names_jobrun(word->text) ? find_command(&words, &at, end) : NULL;
		if (command != NULL)
			i = add_call(calls, &words, i, command, at + 1, end) - 1;
		else if (word->is_quoted && strpbrk(word->text, BLANKS) != NULL)
			find_in(calls, word->text);
	}
	release_words(&words);
}

void
jr_calls_find(struct jr_calls *calls, const char *command_line)
{
	*calls = (struct jr_calls){.count = 0};
	find_in(calls, command_line);
}

void
jr_calls_release(struct jr_calls *calls)
{
	for (size_t i = 0; i < calls->count; i++) {
		free(calls->items[i].program);
		jr_strings_free(calls->items[i].args);
	}
	free(calls->items);
	*calls = (struct jr_calls){.count = 0};
}
