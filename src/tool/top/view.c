/* SPDX-License-Identifier: MIT */
#include "top/view.h"

#include <stdlib.h>
#include <string.h>

const char *top_page_text(top_page_t page) {
  static const char *const texts[] = {"overview", "threads", "functions", "allocations"};
  return texts[page];
}

const top_thread_t **top_view_threads(const top_view_t *v, const top_model_t *model, size_t *count,
                                      size_t *selected) {
  size_t most = model->threads.count < TOP_THREADS_MAX ? model->threads.count : TOP_THREADS_MAX;
  const top_thread_t **list = calloc(most + 1, sizeof *list);
  *count = *selected = 0;
  if (!list) return NULL;
  *count = top_threads_list(&model->threads, v->sort, v->filter, list, most);
  for (size_t i = 0; i < *count; i++)
    if (list[i]->tid == v->selected) *selected = i;
  return list;
}

/* ---- moving ------------------------------------------------------------------------------- */

/* How many rows KEY moves; 0: it does not move. */
static long distance(const top_view_t *v, int key) {
  long page = v->rows > 12 ? (long)v->rows / 2 : 5;
  switch (key) {
  case 'k':
  case TOP_KEY_UP: return -1;
  case 'j':
  case TOP_KEY_DOWN: return 1;
  case TOP_KEY_PAGE_UP: return -page;
  case TOP_KEY_PAGE_DOWN: return page;
  case TOP_KEY_HOME: return -TOP_THREADS_MAX;
  case TOP_KEY_END: return TOP_THREADS_MAX;
  default: return 0;
  }
}

static size_t moved(size_t from, long by, size_t count) {
  long to = (long)from + by;
  if (to < 0) to = 0;
  if (to >= (long)count) to = count ? (long)count - 1 : 0;
  return (size_t)to;
}

static bool lists_threads(const top_view_t *v) {
  return !v->is_stack && (v->page == TOP_OVERVIEW || v->page == TOP_THREADS);
}

static size_t scrolled_rows(const top_view_t *v, const top_model_t *model) {
  if (v->is_stack) return model->stack.count;
  return v->page == TOP_FUNCTIONS ? model->functions.count : model->heap.site_count;
}

static void move(top_view_t *v, const top_model_t *model, long by) {
  size_t count, selected;
  if (!lists_threads(v)) {
    v->first = moved(v->first, by, scrolled_rows(v, model));
    return;
  }
  const top_thread_t **list = top_view_threads(v, model, &count, &selected);
  if (list && count) v->selected = list[moved(selected, by, count)]->tid;
  free(list);
}

/* ---- keys --------------------------------------------------------------------------------- */

/* A key of a filter that is being typed. */
static void type(top_view_t *v, int key) {
  size_t length = strlen(v->filter);
  if (key == TOP_KEY_ENTER || key == '\n') v->is_typing = false;
  if (key == TOP_KEY_ESCAPE) v->is_typing = false, v->filter[0] = 0;
  if ((key == TOP_KEY_BACKSPACE || key == 127 || key == 8) && length) v->filter[length - 1] = 0;
  if (key >= ' ' && key < 127 && length + 1 < sizeof v->filter) {
    v->filter[length] = (char)key;
    v->filter[length + 1] = 0;
  }
}

static void sort_next(top_view_t *v) {
  if (v->page == TOP_FUNCTIONS)
    v->rank = v->rank == TOP_RANK_TOTAL ? TOP_RANK_OWN : TOP_RANK_TOTAL;
  else
    v->sort = (top_sort_t)((v->sort + 1) % TOP_SORTS);
}

/* Shows the stack of the selected thread. */
static top_action_t open_stack(top_view_t *v, const top_model_t *model) {
  size_t count, selected;
  if (!lists_threads(v)) return TOP_DRAW;
  const top_thread_t **list = top_view_threads(v, model, &count, &selected);
  bool any = list && count;
  if (any) v->selected = list[selected]->tid;
  free(list);
  if (!any) return TOP_DRAW;
  v->is_stack = true;
  v->first = 0;
  return TOP_READ_STACK;
}

static void close_overlay(top_view_t *v) {
  if (!v->is_stack) v->filter[0] = 0;
  v->is_stack = false;
  v->first = 0;
}

top_action_t top_view_key(top_view_t *v, const top_model_t *model, int key) {
  if (key == TOP_KEY_RESIZE) return TOP_DRAW;
  v->note[0] = 0;
  if (v->is_typing) {
    type(v, key);
    return TOP_DRAW;
  }
  if (v->is_help) {
    v->is_help = false;
    return key == 'q' ? TOP_QUIT : TOP_DRAW;
  }
  long by = distance(v, key);
  if (by) {
    move(v, model, by);
    return TOP_DRAW;
  }
  switch (key) {
  case 'q': return TOP_QUIT;
  case '?':
  case 'h': v->is_help = true; break;
  case 'p':
  case ' ': v->is_frozen = !v->is_frozen; break;
  case 's': sort_next(v); break;
  case 't':
  case '\t':
    v->page = (top_page_t)((v->page + 1) % TOP_PAGES);
    v->is_stack = false;
    v->first = 0;
    break;
  case '/': v->is_typing = true; break;
  case TOP_KEY_ENTER:
  case '\n': return open_stack(v, model);
  case TOP_KEY_ESCAPE:
  case TOP_KEY_BACKSPACE: close_overlay(v); break;
  case 'm': return TOP_SWITCH_MALLOC;
  case 'c': return TOP_SWITCH_SAMPLE;
  default: break;
  }
  return TOP_DRAW;
}
