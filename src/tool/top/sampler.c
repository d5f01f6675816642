/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "top/sampler.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "os/os.h"
#include "recorder/monitor/thread_file.h"
#include "recorder/monitor/thread_stats.h"
#include "recorder/process_facts.h"
#include "symbol/short_name.h"
#include "target/perf_ticks.h"
#include "target/process.h"
#include "target/state.h"
#include "top/budget.h"
#include "top/names.h"

enum { DEPTH_MAX = 256, NAMES_MAX = 512, TICKS_MAX = 64, BLOCKED_MAX = 64, IDLE_READS = 10 };
#define BUSY_SHARE 0.005
/* The names of threads are read again after so many readings. */
#define NAME_READS 8u
/* The list of images is read again after so long at least, and after so long at most if that did
 * not help. */
#define REOPEN_NS     UINT64_C(500000000)
#define REOPEN_MAX_NS UINT64_C(60000000000)

/* What is kept of a thread between two readings. */
typedef struct watch {
  pid_t tid;
  thread_stats_files_t files;
  uint32_t reads, idle;
  bool is_seen, is_wanted;
  bool is_sampled; /* TICKS is open */
  perf_ticks_t ticks;
  uint64_t counted_ns; /* the CPU time that samples stand for */
} watch_t;

struct top_sampler {
  pid_t pid;
  uint64_t birth;
  target_t *target; /* NULL: it cannot be read now */
  stack_symbolizer_t *symbolizer;
  dev_t exe_device;
  ino_t exe_inode;
  watch_t *watches; /* sorted by tid */
  size_t count, capacity, sampled;
  bool is_refused;     /* perf */
  bool is_interpreted; /* its frames are not in the stack that perf copies */
  uint64_t interval_ns, opened_ns, reopen_ns, stepped_ns, read_ns, cpu_ns;
  pid_t next_blocked; /* where the next reading of blocked stacks begins */
  uint32_t doubts, samples;
  top_costs_t sample_costs;
  top_frame_t names[NAMES_MAX];
};

uint64_t top_own_cpu_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- opening ------------------------------------------------------------------------------ */

static void close_target(top_sampler_t *s) {
  stack_symbolizer_free(s->symbolizer);
  target_close(s->target);
  s->symbolizer = NULL;
  s->target = NULL;
}

static bool open_target(top_sampler_t *s, problem_t *problem) {
  struct stat exe = {0};
  char path[32];
  snprintf(path, sizeof path, "/proc/%d/exe", (int)s->pid);
  (void)stat(path, &exe);
  s->exe_device = exe.st_dev;
  s->exe_inode = exe.st_ino;
  s->opened_ns = os_monotonic_ns();
  s->target = target_open_process(s->pid, problem);
  if (!s->target) return false;
  s->is_interpreted = stacks_has_interpreter(s->target);
  s->symbolizer = stack_symbolizer_new(s->target, &(stack_symbolizer_options_t){0});
  if (s->symbolizer) return true;
  problem_set(problem, "out of memory");
  close_target(s);
  return false;
}

top_sampler_t *top_sampler_open(pid_t pid, problem_t *problem) {
  top_sampler_t *s = calloc(1, sizeof *s);
  process_facts_t facts = {0};
  if (!s) {
    problem_set(problem, "out of memory");
    return NULL;
  }
  s->pid = pid;
  s->reopen_ns = REOPEN_NS;
  s->interval_ns = top_interval_ns(1, 0);
  (void)process_facts_read(pid, &facts);
  s->birth = facts.birth;
  s->stepped_ns = os_monotonic_ns();
  if (open_target(s, problem)) return s;
  free(s);
  return NULL;
}

static void close_watch(top_sampler_t *s, watch_t *w) {
  thread_stats_close(&w->files);
  if (w->is_sampled) {
    perf_ticks_close(&w->ticks);
    s->sampled--;
  }
  w->is_sampled = false;
}

void top_sampler_close(top_sampler_t *s) {
  if (!s) return;
  for (size_t i = 0; i < s->count; i++)
    close_watch(s, &s->watches[i]);
  free(s->watches);
  close_target(s);
  free(s);
}

/* ---- samples ------------------------------------------------------------------------------ */

int top_sampler_names(top_sampler_t *s, const frame_t *frames, uint32_t count, top_frame_t *out,
                      int max) {
  return s->target ? top_names(s->symbolizer, s->target, frames, count, out, max) : 0;
}

/* The function that a running thread is in. */
static void note_function(top_model_t *model, pid_t tid, const top_frame_t *names, int count) {
  top_thread_t *thread = top_threads_find(&model->threads, tid);
  int owner = top_owner(names, count);
  char text[1024];
  if (!thread || owner < 0 || !names[owner].function) return;
  if (thread->state == TOP_WAITING) return;
  snprintf(thread->call, sizeof thread->call, "%.*s", (int)sizeof thread->call - 1,
           short_name(names[owner].function, 60, text, sizeof text));
}

static void add_sample(top_sampler_t *s, top_model_t *model, pid_t tid, const thread_t *thread,
                       uint64_t weight_ns) {
  int count =
      top_names(s->symbolizer, s->target, thread->frames, thread->frame_count, s->names, NAMES_MAX);
  s->samples++;
  if (thread->ending == ENDING_BROKEN) s->doubts++;
  if (!count) return;
  note_function(model, tid, s->names, count);
  (void)top_functions_add(&model->functions, s->names, count, weight_ns);
}

typedef struct reading {
  top_sampler_t *sampler;
  top_model_t *model;
  watch_t *watch;
} reading_t;

static void take_tick(void *context, const perf_tick_t *tick) {
  reading_t *r = context;
  const stack_copy_t copy = {tick->regs, tick->stack, tick->stack_size};
  uint64_t weight_ns = tick->cpu_ns - r->watch->counted_ns;
  thread_t thread = {0};
  r->watch->counted_ns = tick->cpu_ns;
  stacks_of_copy(r->sampler->target, &copy, DEPTH_MAX, &thread);
  add_sample(r->sampler, r->model, r->watch->tid, &thread, weight_ns);
  free(thread.frames);
}

static bool is_busy(void *context, pid_t tid) {
  const top_sampler_t *s = context;
  size_t at = ARRAY_SEARCH(s->count, i, s->watches[i].tid < tid);
  return at < s->count && s->watches[at].tid == tid && s->watches[at].is_wanted;
}

/* Stops the busy threads that run now, each for some microseconds. */
static void stop_busy(top_sampler_t *s, top_model_t *model, uint64_t passed_ns) {
  problem_t problem;
  const stacks_options_t options = {
      .depth = DEPTH_MAX, .touch = TOUCH_ANY, .wanted = is_busy, .context = s, .interpreted = true};
  if (!stacks_capture(s->target, &options, &problem)) return;
  for (size_t i = 0; i < s->target->thread_count; i++) {
    const thread_t *thread = &s->target->threads[i];
    if (thread->stopped_ns && thread->frame_count)
      add_sample(s, model, thread->tid, thread, passed_ns);
  }
}

void top_sampler_step(top_sampler_t *s, top_model_t *model) {
  uint64_t now_ns = os_monotonic_ns(), before_ns = top_own_cpu_ns();
  uint32_t samples = s->samples;
  bool any = false;
  for (size_t i = 0; i < s->count; i++)
    any |= s->watches[i].is_wanted;
  if (s->target && (s->is_refused || s->is_interpreted) && any)
    stop_busy(s, model, now_ns - s->stepped_ns);
  for (size_t i = 0; s->target && i < s->count; i++) {
    reading_t reading = {s, model, &s->watches[i]};
    if (s->watches[i].is_sampled) perf_ticks_read(&s->watches[i].ticks, take_tick, &reading);
  }
  s->stepped_ns = now_ns;
  if (s->samples > samples)
    top_costs_add(&s->sample_costs, (top_own_cpu_ns() - before_ns) / (s->samples - samples));
}

/* ---- which threads are sampled ------------------------------------------------------------ */

static void start_ticks(top_sampler_t *s, watch_t *w) {
  if (w->is_sampled || s->is_refused || s->is_interpreted || s->sampled == TICKS_MAX) return;
  if (perf_ticks_open(&w->ticks, w->tid, s->interval_ns)) {
    w->is_sampled = true;
    w->counted_ns = 0;
    s->sampled++;
  } else if (errno == EACCES || errno == EPERM || errno == ENOSYS || errno == ENOENT ||
             errno == EOPNOTSUPP) {
    s->is_refused = s->sampled == 0;
  }
}

/* Samples the threads that use CPU time, until they have used none for a while. */
static void choose(top_sampler_t *s, watch_t *w, const top_thread_t *thread) {
  bool busy =
      thread->cpu > BUSY_SHARE || thread->state == TOP_RUNNING || thread->state == TOP_RUNNABLE;
  w->idle = busy ? 0 : w->idle + 1;
  w->is_wanted = busy || (w->is_wanted && w->idle < IDLE_READS);
  if (w->is_wanted) {
    start_ticks(s, w);
  } else if (w->is_sampled) {
    perf_ticks_close(&w->ticks);
    w->is_sampled = false;
    s->sampled--;
  }
}

static void set_interval(top_sampler_t *s, double cpus) {
  uint64_t interval_ns = top_interval_ns(cpus, top_costs_least(&s->sample_costs));
  if (interval_ns < s->interval_ns * 3 / 2 && interval_ns > s->interval_ns * 2 / 3) return;
  s->interval_ns = interval_ns;
  for (size_t i = 0; i < s->count; i++)
    if (s->watches[i].is_sampled) perf_ticks_set_interval(&s->watches[i].ticks, interval_ns);
}

/* ---- threads ------------------------------------------------------------------------------ */

/* NULL: out of memory. */
static watch_t *watch_of(top_sampler_t *s, pid_t tid) {
  size_t at = ARRAY_SEARCH(s->count, i, s->watches[i].tid < tid);
  if (at < s->count && s->watches[at].tid == tid) return &s->watches[at];
  if (!ARRAY_GROW(s->watches, s->count, s->capacity)) return NULL;
  memmove(&s->watches[at + 1], &s->watches[at], (s->count - at) * sizeof *s->watches);
  s->count++;
  s->watches[at] = (watch_t){.tid = tid};
  thread_stats_open(&s->watches[at].files, s->pid, tid);
  return &s->watches[at];
}

static void read_thread(top_sampler_t *s, top_model_t *model, pid_t tid, uint64_t now_ns) {
  thread_stats_t stats;
  watch_t *w = watch_of(s, tid);
  if (!w || !thread_stats_read(&w->files, &stats)) return;
  w->is_seen = true;
  const top_reading_t reading = {.tid = tid,
                                 .state = stats.state,
                                 .run_ns = stats.run_ns,
                                 .queued_ns = stats.runq_ns,
                                 .slices = stats.slices};
  top_thread_t *thread = top_threads_read(&model->threads, &reading, now_ns);
  if (!thread) return;
  if (w->reads++ % NAME_READS == 0) thread_file_name(s->pid, tid, thread->name);
  const char *call = stats.call >= 0 ? syscall_name(s->target->machine, stats.call) : NULL;
  if (thread->state == TOP_WAITING && !thread->is_call_current)
    snprintf(thread->call, sizeof thread->call, "%s", call ? call : "");
  choose(s, w, thread);
}

static void drop_ended(top_sampler_t *s) {
  size_t kept = 0;
  for (size_t i = 0; i < s->count; i++) {
    if (s->watches[i].is_seen) {
      s->watches[kept] = s->watches[i];
      s->watches[kept++].is_seen = false;
    } else {
      close_watch(s, &s->watches[i]);
    }
  }
  s->count = kept;
}

static bool read_threads(top_sampler_t *s, top_model_t *model, uint64_t now_ns) {
  if (!process_list_threads(s->target)) return false;
  for (size_t i = 0; i < s->target->thread_count; i++)
    read_thread(s, model, s->target->threads[i].tid, now_ns);
  drop_ended(s);
  top_threads_end(&model->threads);
  return true;
}

/* ---- blocked threads ---------------------------------------------------------------------- */

typedef struct blocked {
  const top_sampler_t *sampler;
  const top_threads_t *threads;
  pid_t tids[BLOCKED_MAX]; /* sorted */
  size_t count;
} blocked_t;

static bool is_blocked(void *context, pid_t tid) {
  const blocked_t *b = context;
  size_t at = ARRAY_SEARCH(b->count, i, b->tids[i] < tid);
  return at < b->count && b->tids[at] == tid;
}

/* The next threads whose wait is not read yet. */
static void choose_blocked(top_sampler_t *s, const top_threads_t *threads, blocked_t *out) {
  for (size_t i = 0; i < threads->count && out->count < BLOCKED_MAX; i++) {
    const top_thread_t *thread = &threads->items[i];
    if (thread->tid > s->next_blocked && thread->state == TOP_WAITING && !thread->is_call_current)
      out->tids[out->count++] = thread->tid;
  }
  s->next_blocked = out->count == BLOCKED_MAX ? out->tids[BLOCKED_MAX - 1] : 0;
}

static void read_blocked(top_sampler_t *s, top_model_t *model) {
  blocked_t blocked = {.sampler = s, .threads = &model->threads};
  problem_t problem;
  const stacks_options_t options = {.depth = DEPTH_MAX,
                                    .touch = TOUCH_NONE,
                                    .wanted = is_blocked,
                                    .context = &blocked,
                                    .interpreted = true};
  choose_blocked(s, &model->threads, &blocked);
  if (!blocked.count || !stacks_capture(s->target, &options, &problem)) return;
  for (size_t i = 0; i < s->target->thread_count; i++) {
    const thread_t *thread = &s->target->threads[i];
    top_thread_t *row = top_threads_find(&model->threads, thread->tid);
    if (!row || !thread->wait.syscall) continue;
    int count = top_names(s->symbolizer, s->target, thread->frames, thread->frame_count, s->names,
                          NAMES_MAX);
    top_call(s->symbolizer, s->target, thread, s->names, count, row->call);
    row->is_call_current = thread->ending != ENDING_BROKEN;
    s->samples++;
    if (!row->is_call_current) s->doubts++;
  }
}

void top_sampler_read_stack(top_sampler_t *s, top_model_t *model) {
  top_stack_t *stack = &model->stack;
  problem_t problem;
  const stacks_options_t options = {
      .depth = DEPTH_MAX, .touch = TOUCH_ANY, .tid = stack->tid, .interpreted = true};
  if (!s->target || !stacks_capture(s->target, &options, &problem)) {
    snprintf(stack->note, sizeof stack->note, "the thread has ended; this is its last stack");
    return;
  }
  const thread_t *thread = &s->target->threads[0];
  int count =
      top_names(s->symbolizer, s->target, thread->frames, thread->frame_count, s->names, NAMES_MAX);
  snprintf(stack->note, sizeof stack->note, "%s", thread->reason ? thread->reason : "");
  stack->count = 0;
  for (int i = 0; i < count; i++) {
    char text[1024];
    if (!ARRAY_GROW(stack->rows, stack->count, stack->capacity)) return;
    top_stack_row_t *row = &stack->rows[stack->count++];
    const char *name = s->names[i].function;
    snprintf(row->name, sizeof row->name, "%.190s",
             name ? short_name(name, 120, text, sizeof text) : "[no name]");
    top_place(&s->names[i], row->place, sizeof row->place);
  }
}

/* ---- the process -------------------------------------------------------------------------- */

static int64_t count_descriptors(pid_t pid) {
  char path[32];
  struct stat folder;
  snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
  if (stat(path, &folder) == 0 && folder.st_size > 0) return folder.st_size; /* since Linux 6.2 */
  DIR *directory = opendir(path);
  int64_t count = directory ? -2 : -1; /* without "." and ".." */
  while (directory && readdir(directory))
    count++;
  if (directory) closedir(directory);
  return count;
}

static uint64_t resident_bytes(pid_t pid) {
  char path[32];
  unsigned long long pages = 0;
  snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
  FILE *file = fopen(path, "re");
  if (!file) return 0;
  if (fscanf(file, "%*u %llu", &pages) != 1) pages = 0;
  fclose(file);
  return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t uptime_ns(uint64_t birth) {
  struct timespec boot;
  clock_gettime(CLOCK_BOOTTIME, &boot);
  uint64_t now_ns = (uint64_t)boot.tv_sec * 1000000000u + (uint64_t)boot.tv_nsec;
  uint64_t birth_ns = birth * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
  return now_ns > birth_ns ? now_ns - birth_ns : 0;
}

static uint64_t process_cpu_ns(pid_t pid) {
  clockid_t clock;
  struct timespec used;
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0) return 0;
  return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

static void read_process(top_sampler_t *s, top_model_t *model, uint64_t now_ns) {
  uint64_t cpu_ns = process_cpu_ns(s->pid);
  bool is_first = s->read_ns == 0 || cpu_ns < s->cpu_ns || now_ns == s->read_ns;
  model->cpu = is_first ? 0 : (double)(cpu_ns - s->cpu_ns) / (double)(now_ns - s->read_ns);
  s->cpu_ns = cpu_ns;
  s->read_ns = now_ns;
  model->uptime_ns = uptime_ns(s->birth);
  model->rss_bytes = resident_bytes(s->pid);
  model->descriptors = count_descriptors(s->pid);
  model->sampling = s->is_interpreted ? "interpreted program: running threads are stopped"
                    : s->is_refused   ? "perf is refused: running threads are stopped"
                                      : "running threads by perf";
}

static bool is_replaced(const top_sampler_t *s) {
  struct stat exe;
  char path[32];
  snprintf(path, sizeof path, "/proc/%d/exe", (int)s->pid);
  return stat(path, &exe) == 0 && (exe.st_dev != s->exe_device || exe.st_ino != s->exe_inode);
}

/* Whether many stacks of the last interval were broken: images may be new. */
static bool is_doubtful(top_sampler_t *s) {
  bool doubtful = s->doubts * 4 > s->samples;
  if (s->samples && !s->doubts) s->reopen_ns = REOPEN_NS;
  s->doubts = s->samples = 0;
  return doubtful;
}

/* Opens the target again after an exec, and if stacks are doubtful. Images that stay so are looked
 * at less and less often. */
static void reopen(top_sampler_t *s, top_model_t *model, uint64_t now_ns) {
  bool replaced = is_replaced(s), doubtful = is_doubtful(s);
  problem_t problem = {{0}};
  if (!replaced && ((s->target && !doubtful) || now_ns - s->opened_ns < s->reopen_ns)) return;
  s->reopen_ns = replaced ? REOPEN_NS : s->reopen_ns * 2;
  if (s->reopen_ns > REOPEN_MAX_NS) s->reopen_ns = REOPEN_MAX_NS;
  if (replaced) top_functions_free(&model->functions);
  for (size_t i = 0; replaced && i < s->count; i++)
    s->watches[i].reads = 0; /* exec renames threads */
  close_target(s);
  bool good = open_target(s, &problem);
  snprintf(model->problem, sizeof model->problem, "%.190s", good ? "" : problem.text);
  if (good && s->target->exe)
    snprintf(model->program, sizeof model->program, "%.255s", s->target->exe);
}

/* Whether the process has more threads than its first one, which has ended. */
static bool has_threads(const top_sampler_t *s) {
  return s->target && process_list_threads(s->target) && s->target->thread_count > 1;
}

bool top_sampler_read(top_sampler_t *s, top_model_t *model) {
  uint64_t now_ns = os_monotonic_ns();
  process_facts_t facts;
  if (!process_facts_read(s->pid, &facts) || facts.birth != s->birth || facts.state == 'X')
    return false;
  if (facts.state == 'Z' && !has_threads(s)) return false;
  reopen(s, model, now_ns);
  if (!*model->program && s->target && s->target->exe)
    snprintf(model->program, sizeof model->program, "%.255s", s->target->exe);
  model->pid = s->pid;
  read_process(s, model, now_ns);
  if (!s->target) return true;
  if (!read_threads(s, model, now_ns)) return false;
  set_interval(s, model->cpu);
  read_blocked(s, model);
  return true;
}
