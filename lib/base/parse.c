/*
 * parse: numbers, durations and names as people type them. Pure.
 *
 * Each digit is added with a check for overflow. Fractions are exact: "1.5h" is 5400000 ms, and a duration that is not
 * a whole number of milliseconds is refused rather than rounded. What must hold: *out is written on success only, and
 * each message names the option, the text and what was expected.
 */
#include "base/parse.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

#define SHOWN "\"%.100s\"" /* the user's text in a message */
#define MS_SECOND INT64_C(1000)
#define MS_MINUTE (60 * MS_SECOND)
#define MS_HOUR (60 * MS_MINUTE)
#define MS_DAY (24 * MS_HOUR)
#define MS_WEEK (7 * MS_DAY)

/*
 * The most digits after the point that a whole number of milliseconds can have, trailing zeros not counted: no unit
 * times a fraction with more digits is a whole number.
 */
#define FRACTION_DIGITS 10

static const struct unit {
	const char *name;
	int64_t ms;
} units[] = {
    {"w", MS_WEEK},
    {"d", MS_DAY},
    {"h", MS_HOUR},
    {"m", MS_MINUTE},
    {"s", MS_SECOND},
    {"ms", 1},
};

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool
is_lower(char c)
{
	return c >= 'a' && c <= 'z';
}

static bool
is_letter(char c)
{
	return is_lower(c) || (c >= 'A' && c <= 'Z');
}

/* value * 10 + digit, with the sign of the digit; false if it does not fit. */
static bool
add_digit(int64_t *value, int digit)
{
	return !__builtin_mul_overflow(*value, 10, value) && !__builtin_add_overflow(*value, digit, value);
}

/* fits: int64_t can hold the number, so that it is not too large for the largest one. */
static bool
fail_range(const char *what, const char *s, int64_t min, int64_t max, bool fits, struct jr_err *err)
{
	if (max == INT64_MAX && fits)
		return jr_fail(
		    err, JR_E_USAGE, "%s: " SHOWN " is out of range, expected at least %lld", what, s, (long long)min);
	return jr_fail(err, JR_E_USAGE, "%s: " SHOWN " is out of range, expected %lld to %lld", what, s, (long long)min,
	    (long long)max);
}

bool
jr_parse_int(const char *what, const char *s, int64_t min, int64_t max, int64_t *out, struct jr_err *err)
{
	bool is_negative = s[0] == '-';
	const char *digits = is_negative ? s + 1 : s;
	int64_t value = 0;
	bool fits = true;

	if (digits[0] == '\0' || digits[strspn(digits, "0123456789")] != '\0')
		return jr_fail(err, JR_E_USAGE, "%s: " SHOWN " is not a whole number", what, s);
	for (const char *at = digits; fits && *at != '\0'; at++)
		fits = add_digit(&value, is_negative ? '0' - *at : *at - '0');
	if (!fits || value < min || value > max)
		return fail_range(what, s, min, max, fits, err);
	*out = value;
	return true;
}

/* A number as it was typed: whole + fraction / scale. Trailing zeros of the fraction are left out. */
struct number {
	int64_t whole;
	int64_t fraction;
	int64_t scale; /* 10^digits */
	bool fits;
	bool is_exact; /* the fraction is short enough to be whole ms in some unit */
};

/* Read the digits after the point. Returns how many there are. */
static size_t
read_fraction(const char *s, struct number *number)
{
	size_t len = strspn(s, "0123456789");
	size_t used = len;

	while (used > 0 && s[used - 1] == '0')
		used--;
	number->is_exact = used <= FRACTION_DIGITS;
	for (size_t i = 0; number->is_exact && i < used; i++) {
		number->fraction = number->fraction * 10 + (s[i] - '0');
		number->scale *= 10;
	}
	return len;
}

/* Read DIGITS[.DIGITS] at *at and move *at behind it; false if there is none. */
static bool
read_number(const char **at, struct number *number)
{
	const char *s = *at;

	*number = (struct number){.scale = 1, .fits = true, .is_exact = true};
	if (!is_digit(*s))
		return false;
	for (; is_digit(*s); s++)
		number->fits = number->fits && add_digit(&number->whole, *s - '0');
	if (*s == '.') {
		size_t len = read_fraction(s + 1, number);

		if (len == 0)
			return false;
		s += 1 + len;
	}
	*at = s;
	return true;
}

/* Read the letters at *at and move *at behind them; NULL if they are no unit. */
static const struct unit *
read_unit(const char **at)
{
	const char *s = *at;
	size_t len = 0;

	while (is_letter(s[len]))
		len++;
	for (size_t i = 0; i < JR_COUNT(units); i++) {
		if (strlen(units[i].name) == len && strncmp(units[i].name, s, len) == 0) {
			*at = s + len;
			return &units[i];
		}
	}
	return NULL;
}

/* State while a duration is read: the texts for messages, the position, the sum so far. */
struct reading {
	const char *what;
	const char *text;
	const char *at;
	int64_t sum_ms;
};

static bool
fail_unit(const struct reading *r, const char *number, struct jr_err *err)
{
	size_t letters = 0;

	while (is_letter(r->at[letters]))
		letters++;
	if (letters > 0)
		return jr_fail(err, JR_E_USAGE,
		    "%s: " SHOWN " has an unknown unit \"%.*s\"; the units are ms, s, m, h, d and w", r->what, r->text,
		    letters < 20 ? (int)letters : 20, r->at);
	if (*r->at == '\0' && r->at - number <= 20)
		return jr_fail(
		    err, JR_E_USAGE, "%s: " SHOWN " has no unit; write %ss or %sm", r->what, r->text, number, number);
	return jr_fail(err, JR_E_USAGE,
	    "%s: " SHOWN " is not a duration; write it like 90s, 5m, 1h30m or 2d, without blanks", r->what, r->text);
}

static bool
add_number(struct reading *r, const struct number *number, const struct unit *unit, struct jr_err *err)
{
	int64_t ms;

	if (!number->is_exact || number->fraction * unit->ms % number->scale != 0)
		return jr_fail(
		    err, JR_E_USAGE, "%s: " SHOWN " is not a whole number of milliseconds", r->what, r->text);
	if (!number->fits || __builtin_mul_overflow(number->whole, unit->ms, &ms) ||
	    __builtin_add_overflow(ms, number->fraction * unit->ms / number->scale, &ms) ||
	    ms > JR_DURATION_MAX_MS - r->sum_ms)
		return jr_fail(err, JR_E_USAGE, "%s: " SHOWN " is too long; the longest duration is %lldd (100 years)",
		    r->what, r->text, (long long)(JR_DURATION_MAX_MS / MS_DAY));
	r->sum_ms += ms;
	return true;
}

static bool
read_pairs(struct reading *r, struct jr_err *err)
{
	const struct unit *last = NULL;

	do {
		const char *start = r->at;
		const struct unit *unit;
		struct number number;

		if (!read_number(&r->at, &number))
			return fail_unit(&(struct reading){r->what, r->text, "?", 0}, start, err);
		unit = read_unit(&r->at);
		if (unit == NULL)
			return fail_unit(r, start, err);
		if (last != NULL && unit <= last)
			return jr_fail(err, JR_E_USAGE,
			    "%s: " SHOWN " has its units out of order; the largest comes first, each once", r->what,
			    r->text);
		if (!add_number(r, &number, unit, err))
			return false;
		last = unit;
	} while (*r->at != '\0');
	return true;
}

bool
jr_parse_duration(const char *what, const char *s, int64_t *out_ms, struct jr_err *err)
{
	struct reading r = {.what = what, .text = s, .at = s};

	if (s[0] == '-' && (is_digit(s[1]) || s[1] == '.'))
		return jr_fail(err, JR_E_USAGE, "%s: " SHOWN " is negative; durations count forward", what, s);
	if (strcmp(s, "0") == 0) {
		*out_ms = 0;
		return true;
	}
	if (!read_pairs(&r, err))
		return false;
	*out_ms = r.sum_ms;
	return true;
}

char *
jr_format_duration(int64_t ms)
{
	const char *sign = ms < 0 ? "-" : "";
	uint64_t left = ms < 0 ? 0 - (uint64_t)ms : (uint64_t)ms;
	size_t i = 1; /* start with days, not weeks */
	uint64_t first, second;

	if (left == 0)
		return jr_xstrdup("0s");
	while (left < (uint64_t)units[i].ms)
		i++;
	first = left / (uint64_t)units[i].ms;
	second = i + 1 < JR_COUNT(units) ? left % (uint64_t)units[i].ms / (uint64_t)units[i + 1].ms : 0;
	if (second == 0)
		return jr_xasprintf("%s%llu%s", sign, (unsigned long long)first, units[i].name);
	return jr_xasprintf("%s%llu%s %llu%s", sign, (unsigned long long)first, units[i].name,
	    (unsigned long long)second, units[i + 1].name);
}

static bool
is_name(const char *s)
{
	size_t len = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_.-");

	return len > 0 && len <= JR_NAME_MAX && s[len] == '\0' && (is_lower(s[0]) || is_digit(s[0]));
}

static bool
ends_with(const char *s, const char *ending)
{
	size_t len = strlen(s), ending_len = strlen(ending);

	return len >= ending_len && strcmp(s + len - ending_len, ending) == 0;
}

static bool
parse_name(const char *what, const char *kind, const char *s, struct jr_err *err)
{
	if (is_name(s))
		return true;
	return jr_fail(err, JR_E_USAGE,
	    "%s: " SHOWN " is not a %s: 1 to %d of a-z, 0-9, \"_\", \".\" and \"-\", the first a letter or digit", what,
	    s, kind, JR_NAME_MAX);
}

static bool
parse_file_name(const char *what, const char *kind, const char *s, struct jr_err *err)
{
	if (!parse_name(what, kind, s, err))
		return false;
	if (ends_with(s, ".sql") || ends_with(s, ".json"))
		return jr_fail(err, JR_E_USAGE,
		    "%s: " SHOWN " is not a %s: it must not end in .sql or .json, which are endings of files", what, s,
		    kind);
	return true;
}

bool
jr_parse_job_type(const char *what, const char *s, struct jr_err *err)
{
	return parse_file_name(what, "job type", s, err);
}

bool
jr_parse_definition(const char *what, const char *s, struct jr_err *err)
{
	return parse_file_name(what, "definition name", s, err);
}

bool
jr_parse_queue(const char *what, const char *s, struct jr_err *err)
{
	return parse_name(what, "queue name", s, err);
}

bool
jr_parse_key(const char *what, const char *s, struct jr_err *err)
{
	size_t len = strlen(s);

	if (len >= 1 && len <= JR_KEY_MAX)
		return true;
	return jr_fail(err, JR_E_USAGE, "%s: %zu bytes; from 1 to %d are possible", what, len, JR_KEY_MAX);
}
