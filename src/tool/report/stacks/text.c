/* SPDX-License-Identifier: MIT
 *
 * Stacks as text: deadlocks first, then the threads, with those of equal stacks as one paragraph.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/called_name.h"
#include "analysis/futex_calls.h"
#include "base/terminal.h"
#include "base/unicode.h"
#include "base/wrap.h"
#include "report/report.h"
#include "report/stacks/goroutines.h"
#include "report/stacks/tail_frames.h"
#include "symbol/language.h"
#include "symbol/short_name.h"
#include "target/interpreter/interpreter.h"
#include "target/state.h"

#define TIDS_SHOWN     12
#define FUNCTION_WIDTH 44
#define UNNAMED_MAX    32

/* Set once for an output: terminal_style makes a system call. */
static struct {
  const char *plain, *function, *module, *place, *heading, *alarm;
  unsigned columns; /* 0: lines are not shortened */
} style;

static void set_style(FILE *out, bool full_names) {
  style.plain = terminal_style(out, TERMINAL_PLAIN);
  style.function = terminal_style(out, TERMINAL_BOLD);
  style.module = terminal_style(out, TERMINAL_DIM);
  style.place = terminal_style(out, TERMINAL_CYAN);
  style.heading = terminal_style(out, TERMINAL_GREEN);
  style.alarm = terminal_style(out, TERMINAL_RED);
  style.columns = full_names ? 0 : terminal_columns(out);
}

/* Prints text of the target, with control characters as '?'. */
static void put_text(FILE *out, const char *text) {
  for (const char *p = text; *p; p++) {
    size_t control = unicode_control(p);
    fputc(control ? '?' : *p, out);
    p += control > 1;
  }
}

/* ---- what a thread does, in words: the same in text and in JSON ---------------------------- */

const char *stacks_state_word(char state) {
  switch (state) {
  case 'R': return "running";
  case 'S': return "sleeping";
  case 'D': return "uninterruptible";
  case 'T': return "stopped";
  case 't': return "traced";
  case 'Z': return "zombie";
  case 'X': return "dead";
  case 'I': return "idle";
  case 'P': return "parked";
  default: return NULL;
  }
}

static const char *lock_kind(const wait_t *wait) {
  return wait->is_gil ? "GIL" : wait->is_python ? "Python lock" : "mutex";
}

void stacks_wait_text(const thread_t *thread, char *out, size_t size) {
  const wait_t *wait = &thread->wait;
  out[0] = 0;
  if (wait->number < 0) return;
  if (!wait->syscall)
    snprintf(out, size, "system call %ld", wait->number);
  else if (wait->is_mutex && wait->owner)
    snprintf(out, size, "%s(%s 0x%llx, held by thread %d)", wait->syscall, lock_kind(wait),
             (unsigned long long)wait->address, wait->owner);
  else if (wait->is_mutex)
    snprintf(out, size, "%s(%s 0x%llx, holder unknown)", wait->syscall, lock_kind(wait),
             (unsigned long long)wait->address);
  else if (wait->address)
    snprintf(out, size, "%s(0x%llx)", wait->syscall, (unsigned long long)wait->address);
  else if (wait->fd >= 0 && wait->path)
    snprintf(out, size, "%s(fd %d, %s)", wait->syscall, wait->fd, wait->path);
  else if (wait->fd >= 0)
    snprintf(out, size, "%s(fd %d)", wait->syscall, wait->fd);
  else
    snprintf(out, size, "%s", wait->syscall);
}

/* ---- groups ------------------------------------------------------------------------------- */

static int compare_waits(const wait_t *a, const wait_t *b) {
  if (a->number != b->number) return a->number < b->number ? -1 : 1;
  if (a->is_mutex != b->is_mutex) return a->is_mutex ? 1 : -1;
  if (a->owner != b->owner) return a->owner < b->owner ? -1 : 1;
  return 0;
}

/* 0 for threads with the same frames, state and wait, which share a paragraph. */
static int compare_stacks(const thread_t *a, const thread_t *b) {
  if (a->frame_count != b->frame_count) return a->frame_count < b->frame_count ? -1 : 1;
  for (uint32_t i = 0; i < a->frame_count; i++)
    if (a->frames[i].pc != b->frames[i].pc) return a->frames[i].pc < b->frames[i].pc ? -1 : 1;
  if (a->ending != b->ending) return a->ending < b->ending ? -1 : 1;
  if (a->reason != b->reason) return a->reason < b->reason ? -1 : 1;
  if (a->state != b->state) return a->state < b->state ? -1 : 1;
  if (a->holds_gil != b->holds_gil) return a->holds_gil ? 1 : -1;
  if (a->deadlock != b->deadlock) return a->deadlock < b->deadlock ? -1 : 1;
  return compare_waits(&a->wait, &b->wait);
}

static int by_stack(const void *a, const void *b) {
  const thread_t *x = *(thread_t *const *)a, *y = *(thread_t *const *)b;
  int order = compare_stacks(x, y);
  return order ? order : (x->tid < y->tid ? -1 : x->tid > y->tid);
}

/* Threads [first, first + count) of the sorted list share one stack. */
typedef struct thread_group {
  thread_t **threads;
  size_t count;
} thread_group_t;

static int by_first_tid(const void *a, const void *b) {
  pid_t x = ((const thread_group_t *)a)->threads[0]->tid,
        y = ((const thread_group_t *)b)->threads[0]->tid;
  return x < y ? -1 : x > y;
}

/* Sorts THREADS by stack and fills GROUPS, ordered by first tid. Returns the number of groups. */
static size_t make_groups(thread_t **threads, size_t count, thread_group_t *groups) {
  size_t made = 0;
  qsort(threads, count, sizeof *threads, by_stack);
  for (size_t i = 0; i < count; i++) {
    if (made > 0 && compare_stacks(groups[made - 1].threads[0], threads[i]) == 0)
      groups[made - 1].count++;
    else
      groups[made++] = (thread_group_t){&threads[i], 1};
  }
  qsort(groups, made, sizeof *groups, by_first_tid);
  return made;
}

/* ---- frames without a name-------------------------------------------------------------------- */

/* Why frames have no name: one line for each image, at the end. */
static struct {
  const char *module, *why;
  uint32_t frames;
} unnamed[UNNAMED_MAX];
static size_t unnamed_count;

static void note_unnamed(const char *module, const char *why) {
  if (!why) return;
  for (size_t i = 0; i < unnamed_count; i++) {
    if (unnamed[i].module != module || unnamed[i].why != why) continue;
    unnamed[i].frames++;
    return;
  }
  if (unnamed_count == UNNAMED_MAX) return;
  unnamed[unnamed_count].module = module;
  unnamed[unnamed_count].why = why;
  unnamed[unnamed_count++].frames = 1;
}

static void print_unnamed(FILE *out) {
  if (unnamed_count > 0) fputc('\n', out);
  for (size_t i = 0; i < unnamed_count; i++) {
    fprintf(out, "%u frame%s without a name%s", unnamed[i].frames,
            unnamed[i].frames == 1 ? "" : "s", unnamed[i].module ? " in " : "");
    if (unnamed[i].module) put_text(out, unnamed[i].module);
    fprintf(out, ": %s\n", unnamed[i].why);
  }
}

/* ---- a frame ------------------------------------------------------------------------------ */

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash && slash[1] ? slash + 1 : path;
}

/* One line of a stack: its parts, and how wide the name may be. */
typedef struct stack_line {
  const char *name, *module, *file; /* NULL: none */
  char offset[24];                  /* behind the name */
  uint32_t line;
  const char *notes[4];
  int width; /* of the name, with spaces behind it */
} stack_line_t;

static int columns_of(const char *text) { return (int)wrap_columns(text, strlen(text)); }

static int line_columns(const stack_line_t *l, uint32_t number) {
  int name = columns_of(l->name) + columns_of(l->offset);
  int n = snprintf(NULL, 0, "  #%-3u ", number) + (name > l->width ? name : l->width);
  if (l->module) n += 2 + columns_of(l->module);
  if (l->file) n += 3 + columns_of(l->file) + snprintf(NULL, 0, "%u", l->line);
  for (int i = 0; l->notes[i]; i++)
    n += 2 + columns_of(l->notes[i]);
  return n;
}

/* Makes L fit into the screen: the folders of the file are left out, then the spaces behind the
 * name, then parts of the name, for which SHORT_TEXT of SIZE bytes has space. */
static void fit(stack_line_t *l, uint32_t number, char *short_text, size_t size) {
  int most = (int)style.columns;
  if (!most || line_columns(l, number) <= most) return;
  if (l->file) l->file = base_name(l->file);
  int over = line_columns(l, number) - most, name = columns_of(l->name) + columns_of(l->offset);
  if (over <= 0) return;
  l->width = l->width - over > name ? l->width - over : name;
  over = line_columns(l, number) - most;
  int room = columns_of(l->name) - over;
  if (over > 0) l->name = short_name(l->name, (unsigned)(room > 20 ? room : 20), short_text, size);
  l->width = 0;
}

static void print_line(FILE *out, uint32_t number, const stack_line_t *l) {
  bool is_last = !l->module && !l->file && !l->notes[0];
  int padding = is_last ? 0 : l->width - columns_of(l->name) - columns_of(l->offset);
  fprintf(out, "  #%-3u %s", number, style.function);
  put_text(out, l->name);
  fprintf(out, "%s%*s%s", l->offset, padding > 0 ? padding : 0, "", style.plain);
  if (l->module) {
    fprintf(out, "  %s", style.module);
    put_text(out, l->module);
    fputs(style.plain, out);
  }
  if (l->file) {
    fprintf(out, "  %s", style.place);
    put_text(out, l->file);
    if (l->line) fprintf(out, ":%u", l->line);
    fputs(style.plain, out);
  }
  for (int i = 0; l->notes[i]; i++)
    fprintf(out, "  %s", l->notes[i]);
  fputc('\n', out);
}

/* FUNCTION may be NULL; then NAME is the frame's address. */
static void print_function(FILE *out, uint32_t *number, const char *name, const char *module,
                           const symbol_frame_t *function, const frame_t *frame) {
  char short_text[SHORT_NAME_SIZE(1024)];
  stack_line_t l = {.name = name, .module = module, .width = FUNCTION_WIDTH};
  if (function && function->has_offset)
    snprintf(l.offset, sizeof l.offset, "+0x%llx", (unsigned long long)function->function_offset);
  if (function && function->file && function->line) {
    l.file = function->file;
    l.line = function->line;
  }
  int notes = 0;
  if (function && function->inlined) l.notes[notes++] = "[inlined]";
  if (frame->guessed) l.notes[notes++] = "[guessed]";
  if (frame->tail_call && notes < 3) l.notes[notes++] = "[tail call]";
  if (frame->async && notes < 3) l.notes[notes++] = "[async]";
  fit(&l, *number, short_text, sizeof short_text);
  print_line(out, (*number)++, &l);
}

static void print_frame(const stacks_view_t *view, FILE *out, const frame_t *frame,
                        uint32_t *number) {
  char text[1024];
  const symbolized_pc_t *named = stack_symbolizer_lookup(view->symbolizer, frame);
  if (!named || (view->app_only && named->system) || (frame->folded && !view->native)) return;
  const char *module = named->module   ? base_name(named->module->path)
                       : named->source ? base_name(named->source)
                                       : NULL;
  if (named->count == 0) {
    snprintf(text, sizeof text, "0x%llx", (unsigned long long)frame->pc);
    if (named->has_offset)
      snprintf(text, sizeof text, "0x%llx (+0x%llx)", (unsigned long long)frame->pc,
               (unsigned long long)named->offset);
    print_function(out, number, text, module, NULL, frame);
    note_unnamed(named->module ? named->module->path : NULL, named->why);
  }
  for (int i = 0; i < named->count; i++) {
    const symbol_frame_t *function = &named->functions[i];
    snprintf(text, sizeof text, "%s", function->function ? function->function : "??");
    print_function(out, number, text, module, function, frame);
  }
}

/* ---- a thread ----------------------------------------------------------------------------- */

static void print_tids(FILE *out, const thread_group_t *group) {
  fprintf(out, "%s", group->count == 1 ? "thread " : "threads ");
  for (size_t i = 0; i < group->count && i < TIDS_SHOWN; i++)
    fprintf(out, "%s%d", i ? ", " : "", group->threads[i]->tid);
  if (group->count > TIDS_SHOWN)
    fprintf(out, " and %zu more (%zu in all)", group->count - TIDS_SHOWN, group->count);
}

static bool same_names(const thread_group_t *group) {
  for (size_t i = 1; i < group->count; i++)
    if (strcmp(group->threads[i]->name, group->threads[0]->name) != 0) return false;
  return true;
}

static void print_name(FILE *out, const char *name) {
  fputs(" \"", out);
  put_text(out, name);
  fputc('"', out);
}

/* The outermost of the innermost functions of THREAD that are the C library's; NULL: none. */
static const char *called_of_libc(const stacks_view_t *view, const thread_t *thread) {
  const char *found = NULL;
  for (size_t i = 0; i < thread->frame_count; i++) {
    const symbolized_pc_t *named = stack_symbolizer_lookup(view->symbolizer, &thread->frames[i]);
    if (!named || !named->module || !called_is_libc(base_name(named->module->path))) break;
    for (int k = 0; k < named->count; k++) {
      const char *function = named->functions[k].function;
      if (!function) continue;
      if (called_is_start(function) || !strcmp(function, "syscall")) return found;
      found = called_name(function);
    }
  }
  return found;
}

/* What the program called where THREAD waits in the system call CALL: "usleep", "pthread_join", or
 * CALL if it is unknown. */
static const char *called(const stacks_view_t *view, const thread_t *thread, const char *call) {
  enum { FRAMES_MAX = 6 };
  const char *found = NULL;
  for (size_t i = 0; i < thread->frame_count && i < FRAMES_MAX; i++) {
    const symbolized_pc_t *named = stack_symbolizer_lookup(view->symbolizer, &thread->frames[i]);
    if (!named || (found && !named->system)) break;
    for (int k = 0; k < named->count; k++) {
      const char *function = named->functions[k].function;
      const futex_wait_t *wait = function ? futex_wait_of_function(function) : NULL;
      if (wait && wait->function && (named->system || !found)) found = wait->function;
    }
  }
  if (!found) found = called_of_libc(view, thread);
  return found ? found : call;
}

/* "fd 3 pipe:[7], fd 5 socket:[8], 2 more" */
static bool list_descriptors(const stacks_view_t *view, const thread_t *thread, char *out,
                             size_t size) {
  enum { SHOWN = 4 };
  int fds[SHOWN];
  char path[4096];
  size_t used = 0, count = state_wait_descriptors(view->target, thread, fds, SHOWN);
  for (size_t i = 0; i < count && i < SHOWN && used < size; i++) {
    bool known = state_descriptor(view->target, fds[i], path, sizeof path);
    used += (size_t)snprintf(out + used, size - used, "%sfd %d%s%.200s", i ? ", " : "", fds[i],
                             known ? " " : "", known ? path : "");
  }
  if (count > SHOWN && used < size)
    (void)snprintf(out + used, size - used, ", %zu more", count - SHOWN);
  return count > 0;
}

/* A wait in a system call: the call of the program, and what it waits for. Threads that are shown
 * together wait for descriptors of their own. */
static void call_of_thread(const stacks_view_t *view, const thread_t *thread, bool is_alone,
                           char *out, size_t size) {
  const wait_t *wait = &thread->wait;
  const char *call = called(view, thread, wait->syscall);
  char list[1024];
  bool listed = is_alone && list_descriptors(view, thread, list, sizeof list);
  if (listed && wait->fd >= 0)
    snprintf(out, size, "%s(fd %d: %s)", call, wait->fd, list);
  else if (listed)
    snprintf(out, size, "%s(%s)", call, list);
  else if (wait->fd >= 0 && wait->path)
    snprintf(out, size, "%s(fd %d, %s)", call, wait->fd, wait->path);
  else if (wait->fd >= 0)
    snprintf(out, size, "%s(fd %d)", call, wait->fd);
  else
    snprintf(out, size, "%s", call);
}

/* A wait for a futex, in the words of the program: the call and the variable. */
static void futex_of_thread(const stacks_view_t *view, const thread_t *thread, char *out,
                            size_t size) {
  const wait_t *wait = &thread->wait;
  const char *call = called(view, thread, wait->syscall);
  char name[1024];
  if (wait->is_gil)
    snprintf(name, sizeof name, "the GIL");
  else if (!stack_symbolizer_variable(view->symbolizer, wait->address, name, sizeof name))
    snprintf(name, sizeof name, "0x%llx", (unsigned long long)wait->address);
  const char *kind = wait->is_mutex && !wait->is_gil ? lock_kind(wait) : "";
  const char *space = *kind ? " " : "";
  if (wait->is_mutex && wait->owner)
    snprintf(out, size, "%s(%s%s%s, held by thread %d)", call, kind, space, name, wait->owner);
  else
    snprintf(out, size, wait->is_mutex ? "%s(%s%s%s, holder unknown)" : "%s(%s%s%s)", call, kind,
             space, name);
}

/* What the threads wait for; only the system call if its arguments differ. */
static void wait_of_group(const stacks_view_t *view, const thread_group_t *group, char *out,
                          size_t size) {
  const wait_t *first = &group->threads[0]->wait;
  for (size_t i = 1; i < group->count; i++) {
    const wait_t *wait = &group->threads[i]->wait;
    if (wait->fd == first->fd && wait->address == first->address) continue;
    snprintf(out, size, "%s",
             first->syscall ? called(view, group->threads[0], first->syscall) : "a system call");
    return;
  }
  if (first->syscall && first->address)
    futex_of_thread(view, group->threads[0], out, size);
  else if (first->syscall)
    call_of_thread(view, group->threads[0], group->count == 1, out, size);
  else
    stacks_wait_text(group->threads[0], out, size);
}

static void print_heading(FILE *out, const stacks_view_t *view, const thread_group_t *group) {
  const thread_t *thread = group->threads[0];
  char wait[4200];
  wait_of_group(view, group, wait, sizeof wait);
  fputs(style.heading, out);
  print_tids(out, group);
  fputs(style.plain, out);
  if (thread->name[0] && same_names(group)) print_name(out, thread->name);
  const char *state = stacks_state_word(thread->state);
  if (state) fprintf(out, ", %s", state);
  if (wait[0]) fputs(" in ", out);
  put_text(out, wait);
  if (thread->holds_gil) fputs(", holds the GIL", out);
  if (thread->signal) fprintf(out, ", ended by %s", report_signal_name((uint64_t)thread->signal));
  if (thread->stopped_ns) fprintf(out, ", stopped for %.3f ms", (double)thread->stopped_ns / 1e6);
  fputc('\n', out);
}

static void print_ending(FILE *out, const target_t *target, const thread_t *thread) {
  if (thread->ending == ENDING_NONE) fprintf(out, "  no frames: %s\n", thread->reason);
  if (thread->ending == ENDING_TRUNCATED) fprintf(out, "  … truncated at the depth limit\n");
  if (thread->ending == ENDING_BROKEN) fprintf(out, "  broken: %s\n", thread->reason);
  if (thread->frames_problem)
    fprintf(out, "  %s frames are missing: %s\n",
            language_facts(target->interpreter->kind->language)->title, thread->frames_problem);
}

void stacks_frames_text(FILE *out, const stacks_view_t *view, const thread_t *thread) {
  uint32_t number = 0;
  uint32_t count = thread->frame_count;
  const frame_t *frames = thread->frames;
  if (view->tail_frames) frames = tail_frames_expand(view->tail_frames, thread, &count);
  for (uint32_t i = 0; i < count; i++)
    print_frame(view, out, &frames[i], &number);
  print_ending(out, view->target, thread);
}

static void print_group(const stacks_view_t *view, FILE *out, const thread_group_t *group) {
  fputc('\n', out);
  print_heading(out, view, group);
  stacks_frames_text(out, view, group->threads[0]);
}

/* ---- deadlocks ---------------------------------------------------------------------------- */

static const thread_t *thread_by_tid(const target_t *target, pid_t tid) {
  for (size_t i = 0; i < target->thread_count; i++)
    if (target->threads[i].tid == tid) return &target->threads[i];
  return NULL;
}

static void print_deadlock(FILE *out, const target_t *target, const thread_t *first) {
  fprintf(out, "\n%sdeadlock:%s thread %d", style.alarm, style.plain, first->tid);
  print_name(out, first->name);
  if (first->wait.owner == first->tid) {
    fprintf(out, " waits for a %s that it holds itself\n", lock_kind(&first->wait));
    return;
  }
  const thread_t *thread = first;
  do {
    const wait_t *wait = &thread->wait;
    const char *article = wait->is_gil ? "the" : "a", *kind = lock_kind(wait);
    thread = thread_by_tid(target, thread->wait.owner);
    if (!thread) break;
    fprintf(out, " waits for %s %s held by thread %d", article, kind, thread->tid);
    if (thread == first) break;
    print_name(out, thread->name);
    fputs(", which", out);
  } while (true);
  fputc('\n', out);
}

static void print_deadlocks(FILE *out, const target_t *target) {
  uint32_t seen = 0;
  for (size_t i = 0; i < target->thread_count; i++) {
    const thread_t *thread = &target->threads[i];
    if (thread->deadlock <= seen) continue;
    seen = thread->deadlock;
    print_deadlock(out, target, thread);
  }
}

/* ---- all threads -------------------------------------------------------------------------- */

static void print_summary(FILE *out, const target_t *target, size_t groups) {
  size_t stopped = 0, torn = 0;
  for (size_t i = 0; i < target->thread_count; i++) {
    stopped += target->threads[i].stopped_ns > 0;
    torn += target->threads[i].ending == ENDING_BROKEN || target->threads[i].ending == ENDING_NONE;
  }
  fputs(style.function, out);
  put_text(out, target->exe ? target->exe : "(no executable)");
  fputs(style.plain, out);
  if (target->pid) fprintf(out, ", process %d", target->pid);
  fprintf(out, ": %zu thread%s, %zu different stack%s", target->thread_count,
          target->thread_count == 1 ? "" : "s", groups, groups == 1 ? "" : "s");
  if (torn) fprintf(out, ", %zu not complete", torn);
  if (target->live) {
    fprintf(out, "; read in %.1f ms", (double)target->elapsed_ns / 1e6);
    if (stopped)
      fprintf(out, ", %zu stopped briefly", stopped);
    else
      fprintf(out, ", none was stopped");
  }
  fputc('\n', out);
}

void stacks_text(FILE *out, const stacks_view_t *view) {
  target_t *target = view->target;
  thread_t **threads = calloc(target->thread_count + 1, sizeof *threads);
  thread_group_t *groups = calloc(target->thread_count + 1, sizeof *groups);
  if (threads && groups) {
    for (size_t i = 0; i < target->thread_count; i++)
      threads[i] = &target->threads[i];
    size_t count = make_groups(threads, target->thread_count, groups);
    set_style(out, view->full_names);
    print_summary(out, target, count);
    print_deadlocks(out, target);
    unnamed_count = 0;
    if (view->goroutines) goroutines_text(out, view, view->goroutines);
    for (size_t i = 0; i < count; i++)
      print_group(view, out, &groups[i]);
    print_unnamed(out);
  }
  free(threads);
  free(groups);
}
