/* SPDX-License-Identifier: MIT
 *
 * What the user chose to see, and how keys change it. Pure: no terminal.
 */
#ifndef SONDE_TOP_VIEW_H
#define SONDE_TOP_VIEW_H

#include "top/model.h"

typedef enum top_page {
  TOP_OVERVIEW, /* threads and functions */
  TOP_THREADS,
  TOP_FUNCTIONS,
  TOP_ALLOCATIONS,
  TOP_PAGES,
} top_page_t;

/* Keys without a character. */
enum {
  TOP_KEY_ENTER = '\r',
  TOP_KEY_ESCAPE = 27,
  TOP_KEY_UP = 0x110000,
  TOP_KEY_DOWN,
  TOP_KEY_PAGE_UP,
  TOP_KEY_PAGE_DOWN,
  TOP_KEY_HOME,
  TOP_KEY_END,
  TOP_KEY_BACKSPACE,
  TOP_KEY_RESIZE,
};

/* What the caller must do after a key. The screen is drawn again in any case. */
typedef enum top_action {
  TOP_DRAW,
  TOP_QUIT,
  TOP_READ_STACK,    /* of thread `selected` */
  TOP_SWITCH_MALLOC, /* the sensor, on or off */
  TOP_SWITCH_SAMPLE,
} top_action_t;

enum { TOP_THREADS_MAX = 65536, TOP_FILTER_MAX = 48 };

typedef struct top_view {
  unsigned columns, rows; /* of the screen; 0: no limit */
  bool is_utf8;           /* the terminal shows UTF-8 */
  bool is_live;           /* a screen with keys, not printed frames */
  top_page_t page;
  top_sort_t sort;
  top_rank_t rank;
  bool is_frozen, is_help, is_stack, is_typing;
  char filter[TOP_FILTER_MAX];
  pid_t selected; /* a thread; 0: the first of the list */
  size_t first;   /* row at the top of functions, allocations or frames */
  char note[160]; /* a message until the next key */
} top_view_t;

top_action_t top_view_key(top_view_t *view, const top_model_t *model, int key);

/* The threads that VIEW lists, in its order, and the row of the selected one in *SELECTED. The
 * caller frees the list; NULL: out of memory. */
const top_thread_t **top_view_threads(const top_view_t *view, const top_model_t *model,
                                      size_t *count, size_t *selected);

const char *top_page_text(top_page_t page);

#endif
