/* SPDX-License-Identifier: MIT
 *
 * The facts of a recording: names of its stacks, stalls by function, how it ended.
 */
#include <string.h>
#include <sys/wait.h>

#include "analysis/summary/summary.h"
#include "analysis/why/rules.h"
#include "report/crash.h"
#include "report/findings.h"
#include "report/own_code.h"
#include "report/sections/analyses.h"
#include "report/why/why.h"

/* A program in a system folder belongs to a package: its users cannot change it. */
static bool is_own_file(const char *path, const char *file) {
  static const char *const interpreters[] = {"python", "libpython", "perl", "libperl",
                                             "ruby",   "libruby",   "node", "libnode",
                                             "java",   "libjvm",    NULL};
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  for (const char *const *i = interpreters; *i; i++)
    if (!strncmp(name, *i, strlen(*i))) return false;
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
                          .own = name->own && (name->python || is_own_file(name->path, name->file)),
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

static bool name_variable(void *context, uint64_t address, char *out, size_t size) {
  return frame_names_variable(((const report_t *)context)->names, address, out, size);
}

static const char *program_of(void *context) {
  const report_t *r = context;
  const char *path = reader_argument(r->reader, 0);
  return path ? frame_names_debug_path(r->names, path) : NULL;
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
  const why_function_t function = function_of(name);
  return why_keep_function(w, &function);
}

/* What the owner of the lock did during STALL. */
static uint32_t owner_stack(const stall_t *stall) {
  for (size_t i = 0; i < stall->lock_count; i++)
    if (stall->locks[i].waiter == stall->tid && stall->locks[i].owner_stack)
      return stall->locks[i].owner_stack;
  return 0;
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
                        .stack = worst->worst ? worst->worst->stack : 0,
                        .owner_stack = owner_stack(worst->stall),
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
  if (h->state != RECORD_FINISHED || !RECORD_STATUS_IS_KNOWN(h->exit_status)) return 0;
  int status = (int)h->exit_status;
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/* Calls that the policy does not allow. */
static bool add_calls(why_t *w, const audited_t *audited) {
  findings_t found = {0};
  bool good = findings_make(&found, audited, false) == 0 && findings_merge(&found) == 0;
  for (size_t i = 0; good && i < found.count; i++) {
    const finding_row_t *row = &found.rows[i];
    if (row->allowed || row->by->report.reader != w->reader) continue;
    const record_thread_t *thread = reader_thread(w->reader, row->sighting->stream);
    why_call_t *c = ARRAY_ADD(w->calls);
    good = c != NULL;
    if (good)
      *c = (why_call_t){.category = row->category->id,
                        .title = row->category->title,
                        .level = policy_level_word(row->category->level),
                        .function = finding_function(row),
                        .arguments = why_copy_text(w, row->arguments),
                        .stack = row->sighting->stack,
                        .tid = thread ? thread->tid : 0,
                        .count = row->sighting->count,
                        .first_ns = reader_ns(w->reader, row->sighting->first)};
  }
  findings_free(&found);
  return good;
}

/* The pointer that explains the crash: the address of the fault, the freed pointer, or else the
 * register whose block was freed. */
static const crash_pointer_t *telling_pointer(const crash_pointers_t *all) {
  const crash_pointer_t *found = crash_pointer_link(all);
  if (found) return found;
  for (uint32_t i = 0; i < all->count; i++) {
    const crash_pointer_t *p = &all->items[i];
    if (!p->is_telling || !p->block.start) continue;
    if (!strcmp(p->name, "address") || !strcmp(p->name, "freed")) return p;
    if (!found && (p->place == CRASH_PLACE_FREED || p->place == CRASH_PLACE_BEHIND)) found = p;
  }
  return found;
}

/* A register that points to memory that belonged to another function's block: a pointer that was
 * kept after the free. */
static void add_reused(why_t *w, const crash_pointers_t *all) {
  why_crash_t *c = &w->crash;
  for (uint32_t i = 0; i < all->count && !c->reused; i++) {
    const crash_pointer_t *p = &all->items[i];
    if (!p->before.start || p->before.is_sampled) continue;
    const why_function_t *then = why_owner(why_stack(w, p->before.allocated_stack));
    const why_function_t *now = why_owner(why_stack(w, p->block.allocated_stack));
    const why_function_t *freed = why_owner(why_stack(w, p->before.freed_stack));
    if (!then || !now || !freed || why_same_function(then, now)) continue;
    c->reused = p->name;
    c->allocated_stack = p->before.allocated_stack;
    c->freed_stack = p->before.freed_stack;
    c->live_stack = p->block.allocated_stack;
  }
}

static bool add_crash(why_t *w, const report_t *r, const crash_t *crash) {
  crash_pointers_t pointers;
  char text[CRASH_TEXT_BYTES];
  report_t short_names = *r;
  why_crash_t *c = &w->crash;
  if (!crash->number) return true;
  if (crash_pointers_find(r->reader, crash, &pointers) < 0) return false;
  if (!short_names.columns) short_names.columns = 80; /* the width alone decides on full names */
  *c = (why_crash_t){.signal = (int)crash->number,
                     .code = crash->code,
                     .has_address = crash->has_address,
                     .address = crash->address,
                     .time_ns = reader_ns(r->reader, crash->time),
                     .tid = (uint32_t)crash->crashed.tid,
                     .stack = crash->crashed.stack,
                     .kind = crash_kind_key(report_crash_kind(r, crash, &pointers))};
  c->cause = why_copy_text(w, report_crash_cause(&short_names, crash, &pointers, text));
  const crash_pointer_t *p = telling_pointer(&pointers);
  if (p)
    c->pointer = why_copy_text(w, report_crash_pointer(&short_names, crash, p, text));
  else
    add_reused(w, &pointers);
  return true;
}

const report_section_t *const why_sections[WHY_SECTIONS] = {
    &section_stalls, &section_usage, &section_vm, &section_audit, &section_crash};

bool why_report_finish(why_report_t *why, const report_t *r, void *const *states) {
  why_t *w = &why->facts;
  const record_header_t *h = reader_header(r->reader);
  const stall_groups_t *stalls = section_stall_groups(r, states[0]);
  const audited_t *audited = section_audit_programs(r, states[3]);
  w->names = (why_names_t){name_stack, name_variable, program_of, (void *)(uintptr_t)r};
  w->has_ticks = (h->mode & RECORD_SAMPLES) || w->ticks.count;
  w->has_stalls = (h->mode & RECORD_STALLS) != 0;
  w->has_calls = ((h->mode | r->replay->modes) & RECORD_AUDIT) != 0;
  w->exit_signal = exit_signal_of(h);
  w->usage = section_usage_readings(states[1]);
  w->mappings = section_vm_mappings(states[2]);
  if (r->replay->modes & RECORD_ANY_BLOCKS) w->replay = r->replay;
  if (!stalls || !audited || !why_complete(w, r->cpu_time) || !add_stalls(w, stalls) ||
      !add_calls(w, audited) || !add_crash(w, r, section_crash_record(states[4])))
    return false;
  why_find(w, &why->findings);
  return !w->failed;
}

void why_report_free(why_report_t *why) { why_free(&why->facts); }
