/* SPDX-License-Identifier: MIT
 *
 * Seccomp filters: a program in a sandbox must not be ended for a system call that sonde makes.
 *
 * Before a filter is installed, it is evaluated for each system call of sonde
 * (os/linux/calls/forbidden.h). Sensors then stop what they could not stop later: timers, and
 * handlers of fatal signals. The calls that the filter forbids are not made from then on. Most of
 * them have a substitute: the thread's id is in the C library's structure; memory is tested with
 * another call; the recorder writes the chunks. The recording lists what has none. If the kernel
 * refuses the filter, everything is undone.
 *
 * A program that was executed under a filter cannot read it. The program that installed it passes
 * the forbidden calls on in the environment, with the number of filters. If that number is not the
 * kernel's, or there is none, another filter may be there and nothing is recorded. Filters that the
 * recorder has as well (containers) are not counted.
 *
 * Filters that are installed by an instruction in the program, not by prctl or syscall of the C
 * library, are seen by the recorder only (recorder/monitor/filters.c).
 */
#include "agent/seccomp.h"

#include <linux/filter.h>
#include <string.h>

#include "agent/agent.h"
#include "arch/arch.h"
#include "base/text.h"
#include "os/linux/calls/forbidden.h"
#include "os/linux/internal.h"
#include "os/os.h"
#include "record/extended.h"
#include "record/writer.h"
#include "sensor/sensor.h"
#include "sensor/trace/trace.h"

#define ROW_DIGITS ((CALL_ROWS + 3) / 4)

/* ---- effects -------------------------------------------------------------------------------- */

#define ROWS_MAX 5

/* What stops if any of these rows is forbidden. */
static const struct {
  uint16_t effect;
  uint8_t count;
  uint8_t rows[ROWS_MAX];
} effects[] = {
    {SECCOMP_STOPS_TICKS, 1, {CALL_rt_sigreturn}},
    {SECCOMP_STOPS_CRASH,
     4,
     {CALL_rt_sigaction, CALL_rt_tgsigqueueinfo, CALL_rt_sigprocmask, CALL_rt_sigreturn}},
    {SECCOMP_STOPS_THREADS, 2, {CALL_mmap, CALL_madvise_wipe}},
    {SECCOMP_STOPS_TIMERS, 1, {CALL_timer_create}},
    {SECCOMP_STOPS_NAMES, 1, {CALL_openat_read}},
    {SECCOMP_STOPS_LOOPS, 1, {CALL_futex_wake_shared}},
    {SECCOMP_STOPS_HOOKS, 2, {CALL_mprotect_data, CALL_mprotect_read}},
    {SECCOMP_STOPS_LEAKS, 2, {CALL_clone, CALL_rt_sigreturn}},
    {SECCOMP_STOPS_CHILDREN,
     4,
     {CALL_socket, CALL_openat_write, CALL_mmap_shared, CALL_madvise_hide}},
};

static bool forbids(const call_set_t *set, call_row_t row) {
  return set->has[row] || linux_calls_forbidden_row(row);
}

/* Without these nothing can be recorded: a way to test memory, the thread's id, the time. Returns
 * the forbidden row, or -1. */
static int essential_row(const call_set_t *set, bool tid_is_known) {
  const shm_control_t *c = writer_control();
  if (forbids(set, CALL_process_vm_readv) && forbids(set, CALL_sigprocmask_probe) &&
      forbids(set, CALL_futex_wait))
    return CALL_process_vm_readv;
  if (forbids(set, CALL_gettid) && !tid_is_known) return CALL_gettid;
  bool cycles = c && c->clock != RECORD_CLOCK_MONOTONIC;
  return forbids(set, CALL_clock_gettime) && !cycles ? CALL_clock_gettime : -1;
}

/* Effects on sensors that are off are left out. */
static uint32_t relevant_effects(void) {
  const shm_control_t *c = writer_control();
  uint32_t mode = c ? load_relaxed(&c->mode) : 0, left_out = 0;
  if (!(mode & RECORD_SAMPLES)) left_out |= SECCOMP_STOPS_TICKS | SECCOMP_STOPS_TIMERS;
  if (!(mode & RECORD_STALLS)) left_out |= SECCOMP_STOPS_LOOPS;
  if (!(mode & (RECORD_CALLS | RECORD_AUDIT))) left_out |= SECCOMP_STOPS_HOOKS;
  if (!follow_is_on()) left_out |= SECCOMP_STOPS_CHILDREN;
  return ~left_out;
}

/* The first forbidden row that causes effect number I; -1: none. */
static int cause_of(uint32_t i, const call_set_t *set) {
  for (uint32_t k = 0; k < effects[i].count; k++)
    if (forbids(set, (call_row_t)effects[i].rows[k])) return effects[i].rows[k];
  return -1;
}

static uint32_t effects_of(const call_set_t *set, bool tid_is_known) {
  if (essential_row(set, tid_is_known) >= 0)
    return SECCOMP_STOPS_ALL | SECCOMP_STOPS_TICKS | SECCOMP_STOPS_CRASH;
  uint32_t found = 0;
  for (uint32_t i = 0; i < ARRAY_COUNT(effects); i++)
    if (cause_of(i, set) >= 0) found |= effects[i].effect;
  return found;
}

/* ---- the record ----------------------------------------------------------------------------- */

static void put_call(extended_body_t *b, int row) {
  const char *name = row < 0 ? "" : linux_call_name((call_row_t)row);
  extended_string(b, name, text_length(name));
}

/* Each effect's value and the call that causes it; a 0; the forbidden calls. */
static void put_effects(extended_body_t *b, const call_set_t *set, uint32_t found) {
  if (found & SECCOMP_STOPS_ALL) {
    extended_number(b, SECCOMP_STOPS_ALL);
    put_call(b, essential_row(set, linux_calls_prepare()));
  }
  for (uint32_t i = 0; i < ARRAY_COUNT(effects) && !(found & SECCOMP_STOPS_ALL); i++) {
    if (!(found & effects[i].effect & relevant_effects())) continue;
    extended_number(b, effects[i].effect);
    put_call(b, cause_of(i, set));
  }
  extended_number(b, 0);
  const char *last = "";
  for (uint32_t row = 0; row < CALL_ROWS; row++) {
    const char *name = linux_call_name((call_row_t)row);
    if (!forbids(set, (call_row_t)row) || text_equal(name, last)) continue;
    put_call(b, (int)row);
    last = name;
  }
}

static void record_change(void *argument) {
  const seccomp_change_t *change = argument;
  const shm_control_t *c = writer_control();
  if (!c) return;
  uint64_t ticks = c->clock == RECORD_CLOCK_MONOTONIC ? os_monotonic_ns() : arch_cycles();
  extended_body_t b;
  b.used = 0;
  extended_number(&b, ticks >> c->clock_shift);
  extended_number(&b, load_relaxed(&c->seccomp_known));
  put_effects(&b, change->forbids, change->effects);
  (void)writer_record(TABLE_SECCOMP, b.bytes, b.used);
}

/* ---- installation by this program --------------------------------------------------------- */

static uint32_t known; /* filters that were evaluated, or were there before sonde */

/* The set, then a copy of the program. */
typedef struct work {
  call_set_t set;
  uint16_t count;
  struct sock_filter program[BPF_MAXINSNS];
} work_t;

/* Copies the program's filter. Returns false if the kernel will refuse it. */
static bool copy_program(work_t *w, const void *from) {
  struct sock_fprog p;
  if (os_read_memory((uintptr_t)from, &p, sizeof p) != sizeof p) return false;
  if (p.len == 0 || p.len > BPF_MAXINSNS) return false;
  size_t size = p.len * sizeof *p.filter;
  w->count = p.len;
  return os_read_memory((uintptr_t)p.filter, w->program, size) == (ssize_t)size;
}

static void count_filter(int by) {
  shm_control_t *c = writer_control();
  known += (uint32_t)by;
  if (c) store_release(&c->seccomp_known, known);
}

static void hand_over(const call_set_t *set) {
  if (forbids(set, CALL_pwrite64) || forbids(set, CALL_statx) || forbids(set, CALL_prlimit64))
    writer_hand_over();
}

static void prepare(void *argument) {
  seccomp_change_t *change = argument;
  work_t *w = (work_t *)(void *)change->forbids;
  if (w->count)
    linux_calls_of_filter(&w->set, w->program, w->count);
  else
    linux_calls_of_strict_mode(&w->set);
  stream_t *s = writer_enter(UINT32_MAX); /* makes the thread's state */
  if (s) writer_leave(s);
  change->effects = effects_of(&w->set, linux_calls_prepare());
  sensor_limit(change->effects);
  hand_over(&w->set);
  if (forbids(&w->set, CALL_clock_gettime) && change->effects & SECCOMP_STOPS_ALL)
    linux_clock_forget();
}

/* The work needs more stack than a thread may have. */
static void run_on_own_stack(void (*run)(void *), void *argument) {
  uint64_t mask = os_signals_block();
  os_run_on_handler_stack(run, argument);
  os_signals_restore(mask);
}

/* Ends the recording before the filter is installed: in strict mode even reading the cycle counter
 * ends the program. */
static void end_recording(seccomp_change_t *change) {
  const shm_control_t *c = writer_control();
  if (!c || load_relaxed(&c->stop_reason) != RECORD_STOP_NONE) return;
  change->mode = load_relaxed(&c->mode);
  run_on_own_stack(record_change, change);
  change->traced = load_relaxed(&c->trace_generation) & 1;
  trace_switch(false);
  writer_stop(RECORD_STOP_SECCOMP);
}

static void resume_recording(seccomp_change_t *change) {
  shm_control_t *c = writer_control();
  if (!c || load_relaxed(&c->stop_reason) != RECORD_STOP_SECCOMP || !change->mode) return;
  store_release(&c->stop_reason, (uint32_t)RECORD_STOP_NONE);
  store_release(&c->mode, change->mode);
  if (change->traced) trace_switch(true);
  const call_set_t none = {0};
  memcpy(change->forbids, &none, sizeof none);
  change->effects = effects_of(&none, linux_calls_prepare());
  run_on_own_stack(record_change, change);
}

void seccomp_before(seccomp_change_t *change, const void *program) {
  *change = (seccomp_change_t){0};
  work_t *w = os_map(sizeof *w);
  if (!w) return; /* only if an earlier filter forbids it, or without memory */
  if (program && !copy_program(w, program)) {
    os_unmap(w, sizeof *w);
    return;
  }
  change->forbids = &w->set;
  count_filter(1);
  run_on_own_stack(prepare, change);
  if (change->effects & SECCOMP_STOPS_ALL) end_recording(change);
  linux_calls_forbid(change->forbids); /* last: signals are unblocked by a call, too */
}

void seccomp_after(seccomp_change_t *change, bool installed) {
  if (!change->forbids) return;
  if (installed) {
    if (!(change->effects & SECCOMP_STOPS_ALL)) run_on_own_stack(record_change, change);
  } else {
    const call_set_t none = {0};
    linux_calls_permit(change->forbids);
    count_filter(-1);
    sensor_limit(effects_of(&none, linux_calls_prepare()));
    if (change->effects & SECCOMP_STOPS_ALL) resume_recording(change);
  }
  os_unmap(change->forbids, sizeof(work_t));
}

void seccomp_attached(void) {
  call_set_t none = {0};
  bool any = false;
  count_filter(0);
  for (uint32_t row = 0; row < CALL_ROWS; row++)
    any |= linux_calls_forbidden_row((call_row_t)row);
  if (!any) return;
  seccomp_change_t change = {.forbids = &none, .effects = effects_of(&none, linux_calls_prepare())};
  sensor_limit(change.effects);
  hand_over(&none);
  run_on_own_stack(record_change, &change);
  if (change.effects & SECCOMP_STOPS_ALL) writer_stop(RECORD_STOP_SECCOMP);
}

/* ---- filters from before the program -------------------------------------------------------- */

#define ENVIRONMENT_MAX (1u << 20)

static bool unknown;

/* The number behind LABEL in a file of /proc; ABSENT: none, or UNREADABLE. */
enum { ABSENT = -1, UNREADABLE = -2 };

static int64_t number_in(const char *path, const char *label) {
  char text[4096];
  if (os_read_file(path, text, sizeof text) <= 0) return UNREADABLE;
  for (const char *at = text; *at; at++) {
    const char *a = at, *l = label;
    while (*l && *a == *l)
      a++, l++;
    if (!*l) return (int64_t)decimal_read(&a);
  }
  return ABSENT;
}

#define MODE_LABEL  "\nSeccomp:\t"
#define COUNT_LABEL "\nSeccomp_filters:\t"

/* Copies the value of NAME in this process's initial environment to OUT. */
static void initial_variable(const char *environment, uint64_t size, const char *name, char *out,
                             uint32_t room) {
  uint64_t n = text_length(name);
  out[0] = 0;
  for (uint64_t at = 0; at + n < size;) {
    const char *variable = environment + at;
    uint64_t all = text_length(variable);
    if (all > n && variable[n] == '=' && memcmp(variable, name, n) == 0 && all - n < room)
      memcpy(out, variable + n + 1, all - n);
    at += all + 1;
  }
}

/* True if the recorder has as many filters: this process inherited them. Before Linux 5.9 the
 * kernel does not count them. */
static bool are_the_recorders(const char *settings, int64_t count) {
  char path[48], *p = text_append(path, "/proc/");
  p = decimal_append(p, (uint32_t)decimal_read(&settings));
  *text_append(p, "/status") = 0;
  return number_in(path, MODE_LABEL) > 0 && number_in(path, COUNT_LABEL) == count;
}

/* HINT: the number of filters, a colon, and the forbidden rows as hexadecimal digits. */
static bool take_hint(const char *hint, int64_t count, call_set_t *set) {
  if ((int64_t)decimal_read(&hint) != count || *hint++ != ':') return false;
  for (uint32_t i = 0; i < ROW_DIGITS; i++, hint++) {
    bool letter = *hint >= 'a' && *hint <= 'f';
    if (!letter && !(*hint >= '0' && *hint <= '9')) return false;
    uint32_t digit = (uint32_t)(letter ? *hint - 'a' + 10 : *hint - '0');
    for (uint32_t bit = 0; bit < 4 && 4 * i + bit < CALL_ROWS; bit++)
      set->has[4 * i + bit] = digit >> bit & 1;
  }
  return *hint == 0;
}

/* Sets the rows that the process's COUNT filters forbid. False: they are unknown. */
static bool read_filters(int64_t count, call_set_t *set) {
  char settings[256], hint[64];
  char *environment = os_map(ENVIRONMENT_MAX);
  if (!environment) return false;
  ssize_t size = os_read_file("/proc/self/environ", environment, ENVIRONMENT_MAX);
  uint64_t bytes = size > 0 ? (uint64_t)size : 0;
  initial_variable(environment, bytes, AGENT_SETTINGS, settings, sizeof settings);
  initial_variable(environment, bytes, AGENT_SECCOMP, hint, sizeof hint);
  os_unmap(environment, ENVIRONMENT_MAX);
  if (take_hint(hint, count, set)) return true;
  memset(set, 0, sizeof *set);
  return are_the_recorders(settings, count);
}

void os_before_start(void) {
  static bool started;
  call_set_t unread, set;
  if (started) return;
  started = true;
  linux_calls_of_unknown_filter(&unread);
  linux_calls_forbid(&unread);
  int64_t mode = number_in("/proc/self/status", MODE_LABEL), count = 0;
  bool filtered = mode > 0 || mode == UNREADABLE;
  if (filtered) count = number_in("/proc/self/status", COUNT_LABEL);
  known = count > 0 ? (uint32_t)count : 0;
  unknown = filtered && !read_filters(count, &set);
  linux_memory_is_trusted = unknown;
  if (unknown) return;
  linux_calls_permit(&unread);
  if (!filtered) return;
  linux_calls_set_pid((pid_t)number_in("/proc/self/status", "\nPid:\t"));
  linux_calls_forbid(&set);
}

void seccomp_take(uint32_t count, const uint8_t *forbidden) {
  static call_set_t taken;
  call_set_t unread, set;
  if (unknown && count) {
    linux_calls_of_unknown_filter(&unread);
    linux_calls_permit(&unread);
    linux_memory_is_trusted = unknown = false;
    linux_calls_set_pid((pid_t)number_in("/proc/self/status", "\nPid:\t"));
  }
  for (uint32_t row = 0; row < CALL_ROWS; row++)
    set.has[row] = forbidden[row];
  linux_calls_forbid(&set);
  linux_calls_permit(&taken);
  taken = set;
  if (count > known) known = count;
}

bool seccomp_is_unknown(void) { return unknown; }

/* Written anew by each exec, since filters may have been added. */
const char *seccomp_hint(void) {
  static char hint[64];
  bool any = false;
  char *p = decimal_append(hint, known);
  *p++ = ':';
  for (uint32_t i = 0; i < ROW_DIGITS; i++) {
    uint32_t digit = 0;
    for (uint32_t bit = 0; bit < 4 && 4 * i + bit < CALL_ROWS; bit++)
      digit |= (uint32_t)linux_calls_forbidden_row((call_row_t)(4 * i + bit)) << bit;
    any |= digit != 0;
    *p++ = "0123456789abcdef"[digit];
  }
  *p = 0;
  return any && !unknown ? hint : "";
}
