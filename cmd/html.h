/*
 * html: text for a page that carries what handlers and clients have written.
 *
 * Whatever comes from the database goes through jr_html_text. It stands only between tags and never in a tag, a style,
 * an address or a comment. What is written with jr_buf_addf is the program's own words and numbers.
 */
#ifndef JR_HTML_H
#define JR_HTML_H

#include "base/buf.h"

/*
 * Up to `most` characters of `text`, with an ellipsis behind them if there were more. Markup becomes entities. Control
 * characters, invalid bytes, and what changes the direction of text become visible (jr_text_visible). NULL adds
 * nothing.
 */
void jr_html_text(struct jr_buf *out, const char *text, size_t most);

/* The same, kept apart from the direction of the text around it: <bdi>. */
void jr_html_value(struct jr_buf *out, const char *text, size_t most);

/* "12,204"; with `more` "> 12,204". */
void jr_html_count(struct jr_buf *out, int64_t n, bool more);

/* "4m 10s", "0s". */
void jr_html_took(struct jr_buf *out, int64_t ms);

/* The same without the second unit: "4m", "13h". */
void jr_html_roughly(struct jr_buf *out, int64_t ms);

/* Two digits: "512 ms", "4.1 s", "17 min", "1.2 h", "3 d". */
void jr_html_about(struct jr_buf *out, int64_t ms);

/*
 * A command to copy: a click marks all of it. Words may stand before it: "is it there? try: jobrun --once". What is no
 * plain command is shown as text.
 */
void jr_html_command(struct jr_buf *out, const char *command);

#endif
