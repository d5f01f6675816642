/* SPDX-License-Identifier: MIT */
#include "report/why/target.h"

#include <elf.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "analysis/why/rules.h"
#include "recorder/monitor/thread_stats.h"
#include "recorder/preload_check.h"
#include "report/stacks/stacks.h"
#include "report/stacks/tail_frames.h"
#include "report/why/goroutines.h"
#include "report/why/stuck.h"
#include "symbol/language.h"
#include "target/state.h"

/* A process is observed for two seconds; on a machine that is slow to read it, for at most four. */
#define PERIOD_NS  UINT64_C(40000000)
#define OBSERVE_NS UINT64_C(2000000000)
#define AT_MOST_NS UINT64_C(4000000000)
enum { LOOKS_LEAST = 8, DEPTH = WHY_DEPTH_MAX };

/* A stack that was seen; its id is its index + 1. */
typedef struct seen_stack {
  frame_t *frames;
  uint32_t count;
} seen_stack_t;

/* The kernel's counters of a thread at the first look. */
typedef struct counters {
  pid_t tid;
  uint64_t at_ns;
  thread_stats_t stats;
} counters_t;

typedef struct observer {
  why_t *why;
  target_t *target;
  stack_symbolizer_t *symbolizer;
  tail_frames_t *tail_frames;
  ARRAY(seen_stack_t) stacks;
  hash_index_t index;
  ARRAY(counters_t) counters;
  ARRAY(pid_t) running;                 /* threads of this look that ran and have no stack yet */
  uint64_t start_ns, now_ns, before_ns; /* BEFORE: the previous look */
  char program[32];
  bool failed;
} observer_t;

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- stacks ------------------------------------------------------------------------------- */

static uint64_t hash_of_frames(const frame_t *frames, uint32_t count) {
  uint64_t hash = HASH_START;
  for (uint32_t i = 0; i < count; i++)
    hash = hash_bytes(hash, &frames[i].pc, sizeof frames[i].pc);
  return hash_number(hash);
}

static uint64_t hash_of_seen(const void *observer, size_t i) {
  const seen_stack_t *s = &((const observer_t *)observer)->stacks.items[i];
  return hash_of_frames(s->frames, s->count);
}

static bool same_frames(const seen_stack_t *s, const frame_t *frames, uint32_t count) {
  if (s->count != count) return false;
  for (uint32_t i = 0; i < count; i++)
    if (s->frames[i].pc != frames[i].pc || s->frames[i].exact != frames[i].exact) return false;
  return true;
}

/* 0: no frames, or out of memory. */
static uint32_t intern(observer_t *o, const thread_t *thread) {
  uint32_t *slot, count = thread->frame_count;
  const frame_t *frames = tail_frames_expand(o->tail_frames, thread, &count);
  if (!count || !hash_reserve(&o->index, o->stacks.count, hash_of_seen, o)) return 0;
  HASH_FIND(&o->index, hash_of_frames(frames, count), slot) {
    if (same_frames(&o->stacks.items[*slot - 1], frames, count)) return *slot;
  }
  seen_stack_t *added = ARRAY_ADD(o->stacks);
  frame_t *copy = malloc(count * sizeof *copy);
  if (!added || !copy) {
    if (added) o->stacks.count--;
    free(copy);
    return 0;
  }
  memcpy(copy, frames, count * sizeof *copy);
  *added = (seen_stack_t){copy, count};
  *slot = (uint32_t)o->stacks.count;
  return *slot;
}

static why_function_t function_of(const symbolized_pc_t *named, const symbol_frame_t *f) {
  const char *path = named->module ? named->module->path : named->source ? named->source : "";
  const char *slash = strrchr(path, '/');
  const char *name = f->function ? f->function : f->raw;
  return (why_function_t){.name = name ? name : "?",
                          .file = f->file,
                          .line = f->line,
                          .library = slash ? slash + 1 : path,
                          .path = path,
                          .own = name &&
                                 (named->language ? language_is_own(named->language, f->file)
                                                  : named->module && why_own(path, name, f->file)),
                          .known = name != NULL};
}

/* Code of a stripped image, or of none: "server+0x12a0". */
static why_function_t nameless(observer_t *o, const symbolized_pc_t *named) {
  const char *path = named->module ? named->module->path : "";
  const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
  char text[320] = "code without a name";
  if (named->module && named->has_offset)
    snprintf(text, sizeof text, "%.255s+0x%" PRIx64, file, named->offset);
  return (why_function_t){.name = why_copy_text(o->why, text), .library = file, .path = path};
}

static int name_stack(void *context, uint32_t stack, why_function_t *out, int max) {
  observer_t *o = context;
  int count = 0;
  if (!stack || stack > o->stacks.count) return 0;
  const seen_stack_t *s = &o->stacks.items[stack - 1];
  for (uint32_t i = 0; i < s->count && count < max; i++) {
    const symbolized_pc_t *named = stack_symbolizer_lookup(o->symbolizer, &s->frames[i]);
    if (!named) break;
    if (s->frames[i].folded) continue;
    if (!named->count) out[count++] = nameless(o, named);
    for (int k = 0; k < named->count && count < max; k++)
      out[count++] = function_of(named, &named->functions[k]);
  }
  return count;
}

static const char *program_of(void *context) { return ((const observer_t *)context)->program; }

/* ---- one look ----------------------------------------------------------------------------- */

static bool is_blocked(const thread_t *t) { return t->wait.syscall && t->state != 'R'; }

static why_wait_t *wait_until(why_t *w, uint32_t tid, uint64_t time_ns) {
  for (size_t i = w->waits.count; i-- > 0;)
    if (w->waits.items[i].tid == tid)
      return w->waits.items[i].to_ns == time_ns ? &w->waits.items[i] : NULL;
  return NULL;
}

static bool add_wait(observer_t *o, const thread_t *t, uint32_t stack) {
  why_t *w = o->why;
  uint64_t from = o->before_ns - o->start_ns, to = o->now_ns - o->start_ns;
  why_wait_t *last = wait_until(w, (uint32_t)t->tid, from);
  if (last && last->stack == stack && last->address == t->wait.address &&
      last->owner == (uint32_t)t->wait.owner) {
    last->to_ns = to;
    return true;
  }
  why_wait_t *wait = ARRAY_ADD(w->waits);
  if (!wait) return false;
  const char *what = state_wait_what(t);
  *wait = (why_wait_t){.from_ns = from,
                       .to_ns = to,
                       .tid = (uint32_t)t->tid,
                       .stack = stack,
                       .is_lock = t->wait.is_mutex,
                       .owner = (uint32_t)t->wait.owner,
                       .address = t->wait.address,
                       .call = t->wait.syscall,
                       .what = what ? why_copy_text(w, what) : ""};
  return true;
}

static bool add_tick(observer_t *o, const thread_t *t, uint32_t stack) {
  why_t *w = o->why;
  why_thread_t *thread = why_thread(w, (uint32_t)t->tid);
  why_tick_t *tick = ARRAY_ADD(w->ticks);
  if (!tick || !thread) return false;
  thread->ticks++;
  *tick = (why_tick_t){o->now_ns - o->start_ns, (uint32_t)t->tid, stack, 1};
  return true;
}

/* A thread that is met for the first time. */
static bool add_thread(observer_t *o, const thread_t *t) {
  why_thread_t *thread = why_thread(o->why, (uint32_t)t->tid);
  if (!thread) return false;
  if (*thread->name) return true;
  thread->name = why_copy_text(o->why, t->name);
  if (!o->target->live) return true;
  counters_t *c = ARRAY_ADD(o->counters);
  if (!c) return false;
  *c = (counters_t){.tid = t->tid, .at_ns = now()};
  thread_stats_files_t files;
  thread_stats_open(&files, o->target->pid, t->tid);
  (void)thread_stats_read(&files, &c->stats);
  thread_stats_close(&files);
  return true;
}

static bool add_running(observer_t *o, pid_t tid) {
  pid_t *added = ARRAY_ADD(o->running);
  if (added) *added = tid;
  return added != NULL;
}

static bool is_running(void *context, pid_t tid) {
  const observer_t *o = context;
  for (size_t i = 0; i < o->running.count; i++)
    if (o->running.items[i] == tid) return true;
  return false;
}

static bool add_look(observer_t *o) {
  o->running.count = 0;
  for (size_t i = 0; i < o->target->thread_count; i++) {
    const thread_t *t = &o->target->threads[i];
    if (!add_thread(o, t)) return false;
    if (is_blocked(t)) {
      if (!add_wait(o, t, intern(o, t))) return false;
    } else if (t->state == 'R' &&
               !(t->frame_count ? add_tick(o, t, intern(o, t)) : add_running(o, t->tid))) {
      return false;
    }
  }
  return true;
}

/* Threads that ran are stopped for some microseconds. */
static bool look(observer_t *o, problem_t *problem) {
  stacks_options_t options = {.depth = DEPTH, .touch = TOUCH_UNSEEN, .interpreted = true};
  if (!stacks_capture(o->target, &options, problem)) return false;
  o->failed |= !add_look(o);
  if (!o->running.count || o->failed) return true;
  options.touch = TOUCH_ANY;
  options.wanted = is_running;
  options.context = o;
  if (!stacks_capture(o->target, &options, problem)) return true; /* they ended */
  for (size_t i = 0; i < o->target->thread_count; i++) {
    const thread_t *t = &o->target->threads[i];
    o->failed |= !add_tick(o, t, intern(o, t));
  }
  return true;
}

/* ---- a process ---------------------------------------------------------------------------- */

static void add_counters(observer_t *o) {
  for (size_t i = 0; i < o->counters.count; i++) {
    const counters_t *c = &o->counters.items[i];
    why_thread_t *t = why_thread(o->why, (uint32_t)c->tid);
    thread_stats_files_t files;
    thread_stats_t end = {0};
    thread_stats_open(&files, o->target->pid, c->tid);
    if (t && thread_stats_read(&files, &end) && end.run_ns >= c->stats.run_ns) {
      t->seen_ns = now() - c->at_ns;
      t->run_ns = end.run_ns - c->stats.run_ns;
      t->runq_ns = end.runq_ns - c->stats.runq_ns;
      t->switches = end.slices - c->stats.slices;
      t->is_counted = true;
    }
    thread_stats_close(&files);
  }
}

static void sleep_until(uint64_t time_ns) {
  struct timespec t = {(time_t)(time_ns / 1000000000u), (long)(time_ns % 1000000000u)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL)) {
  }
}

/* Whether each thread was blocked at one place all the time. */
static bool nothing_moved(const observer_t *o) {
  const why_t *w = o->why;
  bool good = !w->ticks.count && w->waits.count == o->target->thread_count;
  for (size_t i = 0; good && i < w->waits.count; i++)
    good = !w->waits.items[i].from_ns && w->waits.items[i].to_ns == o->now_ns - o->start_ns;
  return good;
}

static bool observe(observer_t *o, problem_t *problem) {
  unsigned zombies = stuck_zombies(o->target->pid), later;
  o->start_ns = o->now_ns = now();
  for (int looks = 0;; looks++) {
    o->before_ns = o->now_ns;
    o->now_ns = now();
    if (!look(o, problem)) {
      if (looks) break; /* it ended */
      return false;
    }
    uint64_t passed = now() - o->start_ns;
    if (o->failed || passed >= AT_MOST_NS || (passed >= OBSERVE_NS && looks >= LOOKS_LEAST)) break;
    sleep_until(o->now_ns + PERIOD_NS);
  }
  o->why->duration_ns = now() - o->start_ns;
  o->why->is_stuck = nothing_moved(o) && stuck_for_ever(o->target);
  later = stuck_zombies(o->target->pid);
  o->why->zombies = later < zombies ? later : zombies;
  add_counters(o);
  return true;
}

/* ---- a core file -------------------------------------------------------------------------- */

/* Signals that a program's own code causes. */
static bool is_fault(int number) {
  return number == SIGSEGV || number == SIGBUS || number == SIGABRT || number == SIGFPE ||
         number == SIGILL || number == SIGSYS;
}

static void find_crash(observer_t *o) {
  static const char *const raisers[] = {
      "abort", "raise", "pthread_kill", "pthread_kill_implementation", "pthread_kill_internal",
      NULL};
  why_t *w = o->why;
  for (size_t i = 0; i < o->target->thread_count; i++) {
    const thread_t *t = &o->target->threads[i];
    if (!is_fault(t->signal)) continue;
    uint32_t stack = intern(o, t);
    /* kill -ABRT of a program that hangs. */
    if (t->signal == SIGABRT && !why_calls_any(why_stack(w, stack), raisers)) return;
    w->crash = (why_crash_t){.signal = t->signal,
                             .code = o->target->signal_code,
                             .has_address = o->target->has_fault_address,
                             .address = o->target->fault_address,
                             .tid = (uint32_t)t->tid,
                             .stack = stack,
                             .stack_pointer = t->regs.r[machine_sp(o->target->machine)]};
    return;
  }
}

static bool read_core(observer_t *o, problem_t *problem) {
  const stacks_options_t options = {.depth = DEPTH, .interpreted = true};
  if (!stacks_capture(o->target, &options, problem)) return false;
  o->failed = !add_look(o);
  find_crash(o);
  return true;
}

/* ---- both --------------------------------------------------------------------------------- */

static void free_observer(observer_t *o) {
  for (size_t i = 0; i < o->stacks.count; i++)
    free(o->stacks.items[i].frames);
  free(o->stacks.items);
  hash_free(&o->index);
  free(o->counters.items);
  free(o->running.items);
  tail_frames_free(o->tail_frames);
  stack_symbolizer_free(o->symbolizer);
}

static bool explain(why_report_t *why, observer_t *o, const frame_names_options_t *naming,
                    problem_t *problem) {
  why_t *w = o->why = &why->facts;
  w->is_live = o->target->live;
  w->is_core = !w->is_live;
  w->has_waits = true;
  w->has_ticks = w->is_live;
  w->names = (why_names_t){.of_stack = name_stack, .context = o};
  if (w->is_live) {
    snprintf(o->program, sizeof o->program, "/proc/%d/exe", (int)o->target->pid);
    w->names.program = program_of;
  }
  const stack_symbolizer_options_t options = {.debug_dirs = naming->debug_dirs,
                                              .sysroots = naming->sysroots};
  o->symbolizer = stack_symbolizer_new(o->target, &options);
  o->tail_frames = o->symbolizer ? tail_frames_new(o->target, o->symbolizer) : NULL;
  if (!o->tail_frames) return problem_set(problem, "out of memory"), false;
  if (!(w->is_live ? observe(o, problem) : read_core(o, problem))) return false;
  if (o->failed || w->failed) return problem_set(problem, "out of memory"), false;
  why_find(w, &why->findings);
  if (why->is_go) why_goroutines(why, o->target, o->symbolizer, function_of);
  return true;
}

/* The strings of a symbolizer die with it; those of the findings are needed to print them. */
static void keep_culprits(why_report_t *why) {
  why_t *w = &why->facts;
  for (size_t i = 0; i < why->findings.count; i++) {
    finding_t *f = &why->findings.items[i];
    if (!f->culprit) continue;
    why_function_t copy = *f->culprit;
    copy.name = why_copy_text(w, copy.name);
    copy.library = why_copy_text(w, copy.library);
    copy.path = why_copy_text(w, copy.path);
    if (copy.file) copy.file = why_copy_text(w, copy.file);
    f->culprit = why_keep_function(w, &copy);
  }
}

bool why_target(why_report_t *why, long pid, const char *path, const char *exe,
                const frame_names_options_t *naming, char error[WHY_ERROR_MAX]) {
  problem_t problem = {{0}};
  if (pid == getpid()) {
    snprintf(error, WHY_ERROR_MAX, "sonde cannot observe itself");
    return false;
  }
  target_t *target = pid ? target_open_process((pid_t)pid, &problem)
                         : target_open_core(path, exe, naming->sysroots, &problem);
  observer_t o = {.target = target};
  why->is_go = pid && preload_check_process_is_go((pid_t)pid);
  bool good = target && explain(why, &o, naming, &problem);
  if (good) keep_culprits(why);
  free_observer(&o);
  if (target) target_close(target);
  snprintf(error, WHY_ERROR_MAX, "%s", problem.text);
  return good;
}

bool why_is_core(const char *path) {
  Elf64_Ehdr header;
  FILE *file = fopen(path, "re");
  bool is = file && fread(&header, sizeof header, 1, file) == 1 &&
            !memcmp(header.e_ident, ELFMAG, SELFMAG) && header.e_type == ET_CORE;
  if (file) fclose(file);
  return is;
}
