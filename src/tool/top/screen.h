/* SPDX-License-Identifier: MIT
 *
 * The terminal of the live view, through ncurses. One thread uses these functions; there is one
 * screen. A build without ncurses has none.
 */
#ifndef SONDE_TOP_SCREEN_H
#define SONDE_TOP_SCREEN_H

#include <signal.h>
#include <stdint.h>

#include "top/layout.h"

/* Why there can be no screen: output is no terminal, TERM is unknown or "dumb", or the command was
 * built without ncurses. NULL: there can be one. */
const char *screen_refusal(void);

/* Takes over the terminal. False if it cannot be used; then nothing has changed. */
bool screen_open(void);

/* Restores the terminal. */
void screen_close(void);

/* The size in columns and rows. */
void screen_size(unsigned *columns, unsigned *rows);
void screen_draw(const top_lines_t *lines);

/* The next key, a character or TOP_KEY_…, waiting at most TIMEOUT_NS for it; -1: none. A signal
 * that WAITING does not block ends the wait. */
int screen_key(uint64_t timeout_ns, const sigset_t *waiting);

#endif
