/*
 * jsonb_size: how much room a JSON text takes as jsonb, and how long it is when PostgreSQL prints it.
 *
 * Both can be much more than the text: [1,1] takes 12 bytes for each number, and 1e-15999 is printed with all its
 * digits.
 * Pure: the text is only looked at, nothing is allocated. What must hold: for valid JSON neither size is too low.
 */
#ifndef JR_JSONB_SIZE_H
#define JR_JSONB_SIZE_H

#include "base/base.h"

#define JR_JSONB_NUMBER_MAX 16000 /* digits plus exponent; numeric has at most 16383 digits after the point */

struct jr_jsonb_size {
	size_t stored;        /* bytes as jsonb, at most */
	size_t printed;       /* bytes of its text, at most; unknown if has_huge_number */
	bool has_huge_number; /* one of more than JR_JSONB_NUMBER_MAX digits: numeric may not take it */
};

struct jr_jsonb_size jr_jsonb_measure(const char *text, size_t len) JR_MUST;

#endif
