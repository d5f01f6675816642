/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "top/layout.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "report/report.h"
#include "symbol/short_name.h"

enum { PRINTED_ROWS = 20, PRINTED_FUNCTIONS = 10, PLACE_COLUMNS = 22, NARROW = 60, CALL_MIN = 20 };

typedef struct page {
  const top_model_t *model;
  const top_view_t *view;
  top_lines_t *out;
  unsigned columns;
  size_t rows; /* in all; SIZE_MAX: no limit */
} page_t;

/* ---- lines -------------------------------------------------------------------------------- */

/* A new line; NULL: the screen is full, or memory is. */
static top_line_t *add_line(page_t *p, top_style_t style) {
  if (p->out->count >= p->rows) return NULL;
  if (!ARRAY_GROW(p->out->items, p->out->count, p->out->capacity)) return NULL;
  top_line_t *line = &p->out->items[p->out->count++];
  line->text[0] = 0;
  line->style = style;
  return line;
}

static void print(page_t *p, top_style_t style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void print(page_t *p, top_style_t style, const char *format, ...) {
  char text[TOP_LINE_MAX];
  va_list arguments;
  top_line_t *line = add_line(p, style);
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (line) (void)top_put(line, p->view->is_utf8, text, p->columns);
}

/* Appends a cell of WIDTH columns to LINE and, if any of the COLUMNS is left, a space. */
static void cell(const page_t *p, top_line_t *line, unsigned *left, const char *text,
                 unsigned width, bool is_number) {
  if (width > *left) width = *left;
  top_line_t shown = {.text = ""};
  unsigned used = top_put(&shown, p->view->is_utf8, text, width), pad = width - used;
  size_t length = strlen(line->text);
  char *end = line->text + length;
  size_t room = TOP_LINE_MAX - length;
  *left -= width;
  snprintf(end, room, "%*s%s%*s%s", is_number ? (int)pad : 0, "", shown.text,
           is_number || !*left ? 0 : (int)pad, "", *left ? " " : "");
  if (*left) --*left;
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash && slash[1] ? slash + 1 : path;
}

/* "1.2 s", "3:04", "5:06:07". */
static void time_text(uint64_t ns, char *out, size_t size) {
  uint64_t s = ns / 1000000000u;
  if (s < 100)
    snprintf(out, size, "%.1f s", (double)ns / 1e9);
  else if (s < 3600)
    snprintf(out, size, "%u:%02u", (unsigned)(s / 60), (unsigned)(s % 60));
  else
    snprintf(out, size, "%llu:%02u:%02u", (unsigned long long)(s / 3600), (unsigned)(s / 60 % 60),
             (unsigned)(s % 60));
}

/* ---- head --------------------------------------------------------------------------------- */

static void head_states(const page_t *p, char *out, size_t size) {
  size_t counts[TOP_ENDED + 1] = {0}, n = 0;
  const top_threads_t *threads = &p->model->threads;
  for (size_t i = 0; i < threads->count; i++)
    counts[threads->items[i].state]++;
  n = (size_t)snprintf(out, size, "threads %zu", threads->count);
  for (int s = 0; s <= TOP_ENDED; s++)
    if (counts[s] && n < size)
      n += (size_t)snprintf(out + n, size - n, "%s%zu %s", n > 14 ? ", " : ": ", counts[s],
                            top_state_text((top_state_t)s));
}

static void head_heap(page_t *p) {
  const top_heap_t *heap = &p->model->heap;
  char live[24], rate[24];
  if (!heap->is_known) {
    if (*heap->why) print(p, TOP_DIM, "%s", heap->why);
    return;
  }
  print(p, TOP_PLAIN, "heap %s%s live, %s/s allocated%s", heap->is_lower ? "at least " : "",
        report_bytes((int64_t)heap->live_bytes, live),
        report_bytes((int64_t)heap->bytes_per_s, rate), heap->is_estimate ? " (estimates)" : "");
}

static void print_head(page_t *p) {
  const top_model_t *m = p->model;
  char up[24], rss[24], states[128], descriptors[48] = "";
  time_text(m->uptime_ns, up, sizeof up);
  head_states(p, states, sizeof states);
  if (m->descriptors >= 0)
    snprintf(descriptors, sizeof descriptors, "  descriptors %lld", (long long)m->descriptors);
  print(p, TOP_BOLD, "%s  pid %d  up %s", p->columns < 100 ? base_name(m->program) : m->program,
        (int)m->pid, up);
  print(p, TOP_PLAIN, "CPU %.1f %%  RSS %s%s  %s", m->cpu * 100,
        report_bytes((int64_t)m->rss_bytes, rss), descriptors, states);
  head_heap(p);
  print(p, TOP_DIM, "top uses %.1f %% of a CPU; %s", m->own_cpu * 100,
        m->sampling ? m->sampling : "");
  if (*m->problem) print(p, TOP_ALARM, "%s", m->problem);
  if (*m->ended) print(p, TOP_ALARM, "%s; this is the last state", m->ended);
  if (*p->view->note) print(p, TOP_ALARM, "%s", p->view->note);
}

/* ---- threads ------------------------------------------------------------------------------ */

static const char *place_of_thread(const top_thread_t *t, bool shows_state) {
  return !shows_state && (t->state != TOP_WAITING || !*t->call) ? top_state_text(t->state)
                                                                : t->call;
}

static void thread_line(page_t *p, const top_thread_t *t, top_style_t style) {
  char tid[16], cpu[16], wait[24] = "";
  bool narrow = p->columns < NARROW;
  unsigned left = p->columns;
  top_line_t *line = add_line(p, style);
  if (!line) return;
  snprintf(tid, sizeof tid, "%d", (int)t->tid);
  snprintf(cpu, sizeof cpu, "%.1f", t->cpu * 100);
  if (t->state == TOP_WAITING) time_text(t->waiting_ns, wait, sizeof wait);
  cell(p, line, &left, tid, 7, true);
  cell(p, line, &left, t->name, narrow ? 9 : 15, false);
  cell(p, line, &left, cpu, 5, true);
  if (!narrow) cell(p, line, &left, top_state_text(t->state), 8, false);
  if (!narrow) cell(p, line, &left, wait, 8, true);
  cell(p, line, &left, place_of_thread(t, !narrow), left, false);
}

static void thread_heading(page_t *p) {
  bool narrow = p->columns < NARROW;
  unsigned left = p->columns;
  top_line_t *line = add_line(p, TOP_HEADING);
  if (!line) return;
  cell(p, line, &left, "TID", 7, true);
  cell(p, line, &left, "THREAD", narrow ? 9 : 15, false);
  cell(p, line, &left, "CPU %", 5, true);
  if (!narrow) cell(p, line, &left, "STATE", 8, false);
  if (!narrow) cell(p, line, &left, "WAITS", 8, true);
  cell(p, line, &left, "IN", left, false);
}

/* At most MOST lines, with the selected thread among them. */
static void print_threads(page_t *p, size_t most) {
  size_t count, selected, first = 0;
  const top_thread_t **list = top_view_threads(p->view, p->model, &count, &selected);
  if (!list || most < 2) {
    free(list);
    return;
  }
  thread_heading(p);
  if (p->view->is_live && selected >= most - 1) first = selected - (most - 2);
  for (size_t i = first; i < count && i - first < most - 1; i++) {
    const top_thread_t *t = list[i];
    bool chosen = p->view->is_live && i == selected;
    thread_line(p, t, chosen ? TOP_SELECTED : t->state == TOP_WAITING ? TOP_PLAIN : TOP_BUSY);
  }
  if (!p->view->is_live && count > most - 1)
    print(p, TOP_DIM, "... and %zu more threads", count - (most - 1));
  free(list);
}

/* ---- functions and allocations ------------------------------------------------------------ */

/* The columns of LEFT for a name in front of a place; all if there is little space. */
static unsigned name_room(const page_t *p, unsigned left) {
  bool both = left > PLACE_COLUMNS + CALL_MIN + 10;
  return p->view->columns && both ? left - PLACE_COLUMNS - 1 : left;
}

static unsigned columns_of(const page_t *p, const char *text) {
  top_line_t line = {.text = ""};
  return top_put(&line, p->view->is_utf8, text, TOP_COLUMNS_MAX);
}

/* "NUMBER NUMBER NAME PLACE" */
static void name_line(page_t *p, const char *a, const char *b, const char *name, const char *place,
                      bool is_own) {
  char text[TOP_LINE_MAX];
  unsigned left = p->columns;
  top_line_t *line = add_line(p, is_own ? TOP_PLAIN : TOP_DIM);
  if (!line) return;
  cell(p, line, &left, a, 10, true);
  cell(p, line, &left, b, 10, true);
  strcpy(text, "FUNCTION");
  unsigned room = name_room(p, left);
  if (name) (void)short_name(name, room, text, sizeof text);
  cell(p, line, &left, text, p->view->columns ? room : columns_of(p, text) + 1, false);
  if (left) cell(p, line, &left, place, left, false);
}

static void heading(page_t *p, const char *a, const char *b) {
  size_t at = p->out->count;
  name_line(p, a, b, NULL, "PLACE", true);
  if (p->out->count > at) p->out->items[at].style = TOP_HEADING;
}

static void print_functions(page_t *p, size_t most, size_t first) {
  const top_functions_t *f = &p->model->functions;
  const top_function_t **list = calloc(f->count + 1, sizeof *list);
  if (!list || most < 2) {
    free(list);
    return;
  }
  size_t count = top_functions_list(f, p->view->rank, p->view->filter, list, f->count);
  heading(p, "TOTAL %", "OWN %");
  if (!count) print(p, TOP_DIM, "  no samples of running threads in the last %d s", TOP_SLICES);
  for (size_t i = first; i < count && i - first < most - 1; i++) {
    char total[16], own[16];
    double whole = f->time_ns ? (double)f->time_ns / 100 : 1;
    snprintf(total, sizeof total, "%.1f", (double)list[i]->total_ns / whole);
    snprintf(own, sizeof own, "%.1f", (double)list[i]->own_ns / whole);
    name_line(p, total, own, list[i]->name, list[i]->place, list[i]->is_own);
  }
  free(list);
}

static void print_allocations(page_t *p, size_t most, size_t first) {
  const top_heap_t *heap = &p->model->heap;
  size_t shown = 0;
  if (!heap->is_known) {
    print(p, TOP_DIM, "%s", heap->why);
    return;
  }
  heading(p, "ALLOC/S", "LIVE");
  for (size_t i = first; i < heap->site_count && shown + 1 < most; i++) {
    char rate[24], live[24];
    const top_site_t *site = &heap->sites[i];
    if (!strcasestr(site->name, p->view->filter)) continue;
    name_line(p, report_bytes((int64_t)site->bytes_per_s, rate),
              report_bytes((int64_t)site->live_bytes, live), site->name, site->place, site->is_own);
    shown++;
  }
}

/* ---- a stack, help, the last line ---------------------------------------------------------- */

static void print_stack(page_t *p, size_t most) {
  const top_stack_t *stack = &p->model->stack;
  const top_thread_t *t =
      top_threads_find((top_threads_t *)(uintptr_t)&p->model->threads, stack->tid);
  print(p, TOP_HEADING, "thread %d %s: %s%s%s", (int)stack->tid, t ? t->name : "",
        t ? top_state_text(t->state) : "ended", t && *t->call ? " in " : "", t ? t->call : "");
  for (size_t i = p->view->first; i < stack->count && i - p->view->first + 2 < most; i++) {
    char number[24];
    unsigned left = p->columns;
    top_line_t *line = add_line(p, TOP_PLAIN);
    if (!line) break;
    snprintf(number, sizeof number, "#%zu", i);
    cell(p, line, &left, number, 4, false);
    unsigned room = name_room(p, left);
    cell(p, line, &left, stack->rows[i].name, room, false);
    if (left) cell(p, line, &left, stack->rows[i].place, left, false);
  }
  if (*stack->note) print(p, TOP_DIM, "%s", stack->note);
}

static void print_help(page_t *p) {
  static const char *const lines[] = {
      "q            quit; a program that top started is ended",
      "t, Tab       next view: overview, threads, functions, allocations",
      "j k arrows   select a thread, or scroll",
      "Enter        stack of the selected thread; Esc returns",
      "s            next sort column",
      "p, space     freeze, continue",
      "/            filter by a part of the name; Esc shows all",
      "m, c         sensors malloc, sample: on, off (need the agent)",
      "CPU %        of one CPU, in the last interval",
      "WAITS        how long this wait has lasted, as far as top saw it",
      "IN           the call in which a thread waits; of a running",
      "             thread the function of the program",
      "TOTAL %      of the CPU time of the last 10 s, in the function",
      "             and what it called",
      "OWN %        in the function and the libraries that it called",
  };
  print(p, TOP_HEADING, "keys and columns; any key returns");
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    print(p, TOP_PLAIN, "%s", lines[i]);
}

static void print_last_line(page_t *p) {
  const top_view_t *v = p->view;
  const char *sort = v->page == TOP_FUNCTIONS ? v->rank == TOP_RANK_TOTAL ? "total" : "own"
                                              : top_sort_text(v->sort);
  while (p->out->count + 1 < p->rows && add_line(p, TOP_PLAIN)) {
  }
  if (v->is_typing)
    print(p, TOP_BOLD, "filter: %s_", v->filter);
  else
    print(p, TOP_DIM, "%s%s%s%sq quit  ? help  t %s  s by %s  Enter stack  p freeze",
          v->is_frozen ? "FROZEN  " : "", *v->filter ? "/" : "", v->filter, *v->filter ? "  " : "",
          top_page_text(v->page), sort);
}

/* ---- pages -------------------------------------------------------------------------------- */

static void print_overview(page_t *p, size_t room) {
  size_t count = p->model->threads.count + 1;
  if (!p->view->is_live) {
    print_threads(p, PRINTED_ROWS + 1);
    print(p, TOP_PLAIN, "%s", "");
    print_functions(p, PRINTED_FUNCTIONS + 1, 0);
    if (!p->model->heap.is_known) return;
    print(p, TOP_PLAIN, "%s", "");
    print_allocations(p, PRINTED_FUNCTIONS + 1, 0);
    return;
  }
  size_t half = room / 2 > 2 ? room / 2 : room;
  size_t threads = count < half ? count : half;
  print_threads(p, threads);
  if (room > threads + 1) print(p, TOP_PLAIN, "%s", "");
  if (room > threads + 1) print_functions(p, room - threads - 1, 0);
}

static void print_page(page_t *p) {
  size_t used = p->out->count;
  size_t room = p->rows == SIZE_MAX ? SIZE_MAX / 2 : p->rows > used ? p->rows - used : 0;
  if (p->view->is_help)
    print_help(p);
  else if (p->view->is_stack)
    print_stack(p, room);
  else if (p->view->page == TOP_OVERVIEW)
    print_overview(p, room);
  else if (p->view->page == TOP_THREADS)
    print_threads(p, room);
  else if (p->view->page == TOP_FUNCTIONS)
    print_functions(p, room, p->view->first);
  else
    print_allocations(p, room, p->view->first);
}

void top_layout(const top_model_t *model, const top_view_t *view, top_lines_t *out) {
  unsigned columns =
      view->columns && view->columns < TOP_COLUMNS_MAX ? view->columns : TOP_COLUMNS_MAX;
  page_t page = {model, view, out, columns, view->rows ? view->rows : SIZE_MAX};
  out->count = 0;
  print_head(&page);
  print(&page, TOP_PLAIN, "%s", "");
  if (view->is_live && page.rows > out->count) page.rows--; /* keeps the last line free */
  print_page(&page);
  if (!view->is_live) return;
  page.rows = view->rows;
  print_last_line(&page);
}
