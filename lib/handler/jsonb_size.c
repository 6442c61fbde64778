/*
 * jsonb_size: see jsonb_size.h.
 *
 * Source: PostgreSQL, src/backend/utils/adt/jsonb_util.c (convertJsonbValue), numeric.c (set_var_from_str).
 */
#include "handler/jsonb_size.h"

#include <ctype.h>
#include <string.h>

#define SHORT_MAX 63 /* digits plus exponent for which numeric surely has its short header */

struct measure {
	struct jr_jsonb_size size;
	size_t numbers, others; /* others: strings and containers, which may end anywhere */
};

/* The parts of a number as it is written. */
struct number {
	size_t whole, fraction; /* digits before and after the point; a zero before it is none */
	size_t exponent;
	bool has_exponent;
	bool is_negative, is_small; /* minus signs before the number and before its exponent */
};

/*
 * The size of a number as an element of jsonb: its entry, and a numeric with headers and two bytes for each four
 * digits, counted from the point. With the padding after it the next number is aligned.
 */
static size_t
size_of_number(const struct number *number)
{
	size_t digits = number->whole + number->fraction;
	size_t headers = digits + number->exponent > SHORT_MAX ? 8 : 6;
	size_t fours = (number->whole + 3) / 4 + (number->fraction + 3) / 4;

	if (number->has_exponent) /* it moves the point to any place */
		fours = (digits + 6) / 4;
	return 4 + ((headers + 2 * fours + 3) & ~(size_t)3);
}

/* numeric prints no exponent, and keeps the zeros at the end of a fraction. */
static size_t
printed_number(const struct number *number)
{
	size_t whole = number->whole, fraction = number->fraction, exponent = number->exponent;

	if (number->is_small) {
		fraction += exponent;
		whole = whole > exponent ? whole - exponent : 0;
	} else {
		whole += exponent;
		fraction = fraction > exponent ? fraction - exponent : 0;
	}
	return number->is_negative + (whole > 0 ? whole : 1) + (fraction > 0 ? 1 + fraction : 0);
}

/* Read the number at text[0]. Returns its length. */
static size_t
read_number(const char *text, size_t len, struct number *number)
{
	bool in_fraction = false, in_exponent = false;
	size_t i = 0;

	for (; i < len && (isalnum((unsigned char)text[i]) || strchr("+-.", text[i]) != NULL); i++) {
		bool is_digit = isdigit((unsigned char)text[i]) != 0;

		if (text[i] == 'e' || text[i] == 'E')
			in_exponent = number->has_exponent = true;
		else if (text[i] == '.')
			in_fraction = true;
		else if (text[i] == '-')
			*(in_exponent ? &number->is_small : &number->is_negative) = true;
		else if (is_digit && in_fraction && !in_exponent)
			number->fraction++;
		else if (is_digit && !in_exponent)
			number->whole += number->whole > 0 || text[i] != '0';
		else if (is_digit && number->exponent <= JR_JSONB_NUMBER_MAX)
			number->exponent = number->exponent * 10 + (size_t)(text[i] - '0');
	}
	return i;
}

static size_t
measure_number(const char *text, size_t len, struct measure *measure)
{
	struct number number = {.whole = 0};
	size_t end = read_number(text, len, &number);

	measure->numbers++;
	measure->size.stored += size_of_number(&number);
	if (number.whole + number.fraction + number.exponent > JR_JSONB_NUMBER_MAX)
		measure->size.has_huge_number = true;
	else
		measure->size.printed += printed_number(&number);
	return end;
}

/*
 * Measure the string that begins at text[0]. Returns its length with both quotes. An escape is never shorter than the
 * character that it stands for, nor than what is printed for it.
 */
static size_t
measure_string(const char *text, size_t len, struct measure *measure)
{
	size_t i = 1;

	while (i < len && text[i] != '"')
		i += text[i] == '\\' ? 2 : 1;
	measure->others++;
	measure->size.stored += 4 + i;
	measure->size.printed += i + 1;
	return i + 1;
}

/* Any other byte. Each container has a header and padding; a blank is printed after each comma and colon. */
static void
measure_byte(char c, struct measure *measure)
{
	if (c == '{' || c == '[') {
		measure->others++;
		measure->size.stored += 4 + 4 + 3;
	} else if (c == 't' || c == 'f' || c == 'n') /* true, false, null */
		measure->size.stored += 4;
	if (c == ',' || c == ':')
		measure->size.printed += 2;
	else if (!isspace((unsigned char)c))
		measure->size.printed++;
}

/*
 * Each value and each key has an entry of four bytes. A number may need padding before it only if what is stored before
 * it is not a number; in an object that need not be what is written before it.
 */
struct jr_jsonb_size
jr_jsonb_measure(const char *text, size_t len)
{
	struct measure measure = {.size = {.stored = 16}};

	for (size_t i = 0; i < len;) {
		char c = text[i];

		if (c == '"')
			i += measure_string(text + i, len - i, &measure);
		else if (c == '-' || isdigit((unsigned char)c))
			i += measure_number(text + i, len - i, &measure);
		else {
			measure_byte(c, &measure);
			i++;
		}
	}
	measure.size.stored += 3 * (measure.numbers < measure.others ? measure.numbers : measure.others);
	return measure.size;
}
