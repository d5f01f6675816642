/* SPDX-License-Identifier: MIT
 *
 * The facts of a recording: names of its stacks, stalls by function, how it ended.
 */
#include <string.h>
#include <sys/wait.h>

#include "analysis/summary/summary.h"
#include "analysis/why/rules.h"
#include "report/own_code.h"
#include "report/why/why.h"

/* A program in a system folder belongs to a package: its users cannot change it. */
static bool is_own_file(const char *path, const char *file) {
  static const char *const local[] = {"/usr/local/", "/opt/"};
  bool is_local = false;
  for (size_t i = 0; i < sizeof local / sizeof *local; i++)
    is_local |= !strncmp(path, local[i], strlen(local[i]));
  return own_image(path) || (is_local && file);
}

bool why_own(const char *path, const char *function, const char *file) {
  return is_own_file(path, file) && own_function(function, file);
}

static why_function_t function_of(const frame_name_t *name) {
  return (why_function_t){.name = name->function,
                          .file = name->file,
                          .line = name->line,
                          .library = name->library,
                          .path = name->path,
                          .own = name->own && is_own_file(name->path, name->file),
                          .known = name->known};
}

static int name_stack(void *context, uint32_t stack, why_function_t *out, int max) {
  const report_t *r = context;
  const frame_name_t *names[WHY_DEPTH_MAX];
  int count = frame_names_of_stack(r->names, stack, names, WHY_DEPTH_MAX);
  if (count > max) count = max;
  for (int i = 0; i < count; i++)
    out[i] = function_of(names[i]);
  return count;
}

void why_report_start(why_report_t *why, const report_t *r, replay_options_t *window) {
  const record_header_t *h = reader_header(r->reader);
  why_t *w = &why->facts;
  why->path = r->path;
  w->reader = r->reader;
  w->duration_ns = h->end_monotonic_ns - h->start_monotonic_ns;
  if (w->duration_ns / WHY_LEVELS == 0 || is_summary(r->reader)) return;
  window->on_interval = why_add_level;
  window->on_interval_context = w;
  window->interval_ns = w->duration_ns / (WHY_LEVELS + 1);
}

static const why_function_t *keep_function(why_t *w, const frame_name_t *name) {
  if (!name) return NULL;
  why_function_t *copy = calloc(1, sizeof *copy);
  why_function_t **kept = copy ? ARRAY_ADD(w->functions) : NULL;
  if (!kept) {
    free(copy);
    return NULL;
  }
  *copy = function_of(name);
  *kept = copy;
  return copy;
}

static bool add_stalls(why_t *w, const stall_groups_t *groups) {
  for (size_t i = 0; i < groups->count; i++) {
    const stall_group_t *g = &groups->items[i];
    const attributed_stall_t *worst = g->worst;
    why_stalls_t *s = ARRAY_ADD(w->stalls);
    if (!s) return false;
    *s = (why_stalls_t){.function = keep_function(w, worst->hot),
                        .callee = keep_function(w, worst->callee),
                        .cause = stall_label_key(worst->stall->label),
                        .call = worst->call,
                        .what = worst->what,
                        .tid = worst->stall->tid,
                        .owner = worst->worst ? worst->worst->owner : 0,
                        .count = g->count,
                        .total_ns = g->total_ns,
                        .longest_ns = worst->stall->length_ns,
                        .first_ns = reader_ns(w->reader, g->first),
                        .open = g->open};
  }
  return true;
}

/* The signal that ended the program, unless the user or the machine sent it. */
static int exit_signal_of(const record_header_t *h) {
  if (h->state != RECORD_FINISHED || h->exit_status == RECORD_STATUS_UNKNOWN) return 0;
  int status = (int)h->exit_status;
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

bool why_report_finish(why_report_t *why, const report_t *r, const stall_groups_t *stalls) {
  why_t *w = &why->facts;
  const record_header_t *h = reader_header(r->reader);
  w->names = (why_names_t){name_stack, (void *)(uintptr_t)r};
  w->has_ticks = (h->mode & RECORD_SAMPLES) || w->ticks.count;
  w->has_stalls = (h->mode & RECORD_STALLS) != 0;
  w->exit_signal = exit_signal_of(h);
  if (h->mode & RECORD_ANY_BLOCKS) w->replay = r->replay;
  if (!why_complete(w, r->cpu_time) || (stalls && !add_stalls(w, stalls))) return false;
  why_find(w, &why->findings);
  return !w->failed;
}

void why_report_free(why_report_t *why) { why_free(&why->facts); }
