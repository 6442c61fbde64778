/*
 * jsonb_size: see jsonb_size.h.
 *
 * Source: PostgreSQL, src/backend/utils/adt/jsonb_util.c (convertJsonbValue), numeric.c (set_var_from_str).
 */
#include "handler/jsonb_size.h"

#include <ctype.h>
#include <string.h>

/* The parts of a number as it is written. */
struct number {
	size_t whole, fraction; /* digits before and after the point */
	size_t exponent;
	bool is_negative, is_small; /* minus signs before the number and before its exponent */
};

/* The size of a number as an element of jsonb: its entry, padding, two headers, and two bytes for four digits. */
static size_t
size_of_number(const struct number *number)
{
	return 4 + 3 + 8 + 2 * ((number->whole + number->fraction) / 4 + 2);
}

/* numeric prints no exponent, and keeps the zeros at the end of a fraction. */
static size_t
printed_number(const struct number *number)
{
	size_t whole = number->whole, fraction = number->fraction, exponent = number->exponent;

	if (number->is_small) {
		fraction += exponent;
		whole = whole > exponent ? whole - exponent : 1;
	} else {
		whole += exponent;
		fraction = fraction > exponent ? fraction - exponent : 0;
	}
	return number->is_negative + whole + (fraction > 0 ? 1 + fraction : 0);
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
			in_exponent = true;
		else if (text[i] == '.')
			in_fraction = true;
		else if (text[i] == '-')
			*(in_exponent ? &number->is_small : &number->is_negative) = true;
		else if (is_digit && !in_exponent)
			(*(in_fraction ? &number->fraction : &number->whole))++;
		else if (is_digit && number->exponent <= JR_JSONB_NUMBER_MAX)
			number->exponent = number->exponent * 10 + (size_t)(text[i] - '0');
	}
	return i;
}

static size_t
measure_number(const char *text, size_t len, struct jr_jsonb_size *size)
{
	struct number number = {.whole = 0};
	size_t end = read_number(text, len, &number);

	size->stored += size_of_number(&number);
	if (number.whole + number.fraction + number.exponent > JR_JSONB_NUMBER_MAX)
		size->has_huge_number = true;
	else
		size->printed += printed_number(&number);
	return end;
}

/*
 * Measure the string that begins at text[0]. Returns its length with both quotes. An escape is never shorter than the
 * character that it stands for, nor than what is printed for it.
 */
static size_t
measure_string(const char *text, size_t len, struct jr_jsonb_size *size)
{
	size_t i = 1;

	while (i < len && text[i] != '"')
		i += text[i] == '\\' ? 2 : 1;
	size->stored += 4 + i;
	size->printed += i + 1;
	return i + 1;
}

/* Any other byte. Each container has a header and padding; a blank is printed after each comma and colon. */
static void
measure_byte(char c, struct jr_jsonb_size *size)
{
	if (c == '{' || c == '[')
		size->stored += 4 + 4 + 3;
	else if (c == 't' || c == 'f' || c == 'n') /* true, false, null */
		size->stored += 4;
	if (c == ',' || c == ':')
		size->printed += 2;
	else if (!isspace((unsigned char)c))
		size->printed++;
}

/* Each value and each key has an entry of four bytes. */
struct jr_jsonb_size
jr_jsonb_measure(const char *text, size_t len)
{
	struct jr_jsonb_size size = {.stored = 16};

	for (size_t i = 0; i < len;) {
		char c = text[i];

		if (c == '"')
			i += measure_string(text + i, len - i, &size);
		else if (c == '-' || isdigit((unsigned char)c))
			i += measure_number(text + i, len - i, &size);
		else {
			measure_byte(c, &size);
			i++;
		}
	}
	return size;
}
