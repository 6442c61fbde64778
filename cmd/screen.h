/*
 * screen: a terminal whose whole screen shows one frame after the other.
 *
 * A frame is what was printed on stdout since the last one. It is cut at the height of the terminal, and goes out in
 * one write, over the old frame and without clearing it first, so that nothing flickers. Signals and keys are only seen
 * in jr_screen_wait: whatever is done between two frames ends first, so give it a deadline.
 *
 * The terminal is as it was before after jr_screen_close, and while the process is stopped by Ctrl-Z.
 */
#ifndef JR_SCREEN_H
#define JR_SCREEN_H

#include "base/err.h"

enum jr_screen_end {
	JR_SCREEN_TIME, /* time for a frame: the time is over, the size has changed, or a key was pressed */
	JR_SCREEN_QUIT  /* q, Ctrl-C, TERM, HUP, or the terminal is gone */
};

/* stdout must be a terminal, and nothing printed on it before. Keys are read from stdin if that is a terminal, too. */
bool jr_screen_open(struct jr_err *err) JR_MUST;
void jr_screen_close(void); /* no harm if it is not open */

/* Show what was printed as the next frame. false: the terminal is gone. */
bool jr_screen_show(void) JR_MUST;

enum jr_screen_end jr_screen_wait(int64_t ms) JR_MUST;

/*
 * The bytes of a frame, for `rows` rows, from the text that was printed. The caller frees. If not all lines fit, the
 * last row says how many do not.
 */
char *jr_screen_frame(const char *text, size_t len, size_t rows, size_t *frame_len) JR_MUST;

#endif
