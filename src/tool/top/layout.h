/* SPDX-License-Identifier: MIT
 *
 * Lays the model out as lines of text that fit the screen. The live view and printed frames show
 * the same lines. Pure, except that the width of a character depends on the locale.
 */
#ifndef SONDE_TOP_LAYOUT_H
#define SONDE_TOP_LAYOUT_H

#include "top/view.h"

enum { TOP_LINE_MAX = 1024, TOP_COLUMNS_MAX = 250 };

typedef enum top_style {
  TOP_PLAIN,
  TOP_BOLD,
  TOP_DIM,
  TOP_HEADING,
  TOP_SELECTED,
  TOP_BUSY,
  TOP_ALARM,
} top_style_t;

typedef struct top_line {
  char text[TOP_LINE_MAX]; /* no control characters; at most VIEW's columns */
  top_style_t style;
} top_line_t;

typedef struct top_lines {
  top_line_t *items;
  size_t count, capacity;
} top_lines_t;

/* Replaces the lines of OUT, which begins as zeros; at most VIEW's rows. */
void top_layout(const top_model_t *model, const top_view_t *view, top_lines_t *out);

/* Appends TEXT to LINE in at most WIDTH columns, with control characters and what the terminal
 * cannot show as '?'. Returns the columns used. */
unsigned top_put(top_line_t *line, bool is_utf8, const char *text, unsigned width);

#endif
