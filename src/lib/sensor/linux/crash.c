/* SPDX-License-Identifier: MIT */
#include "sensor/crash.h"

#include <signal.h>

#include "arch/arch.h"
#include "arch/guarded.h"
#include "record/extended.h"
#include "sensor/linux/crash_cause.h"
#include "sensor/sensor.h"
#include "sonde/thread.h"
#include "capture/stack.h"

#define THREADS_MAX 512
#define DEPTH_MAX   256
#define TIMEOUT_NS  300000000u

#define SIGNALS                                                                                    \
  (1ull << SIGSEGV | 1ull << SIGBUS | 1ull << SIGILL | 1ull << SIGFPE | 1ull << SIGABRT |          \
   1ull << SIGTRAP | 1ull << SIGSYS)

const int crash_flags = SA_SIGINFO | SA_ONSTACK;

/* siginfo_t; the C library's header may declare fewer fields. */
typedef struct info {
  int32_t number, error, code, padding;
  uint64_t address;
} info_t;

typedef struct crash {
  const info_t *info;
  const void *context;
} crash_t;

/* Memory for a crash is mapped at the start: mapping may fail during a crash. */
static sonde_thread_stack_t *threads;
static uintptr_t *pcs;
static bool limited;      /* a handler could not end the program: see limit */
static uint32_t crashing; /* the tid of the thread that writes */

#define FAULTS (1ull << SIGSEGV | 1ull << SIGBUS)
static uint64_t handled; /* signals that crash_handler handles, as bits */

bool crash_catches_faults(void) { return (load_relaxed(&handled) & FAULTS) == FAULTS; }

void crash_set_handled(int number, bool is_handled) {
  if (number <= 0 || number >= 64) return;
  if (is_handled)
    (void)__atomic_or_fetch(&handled, 1ull << number, __ATOMIC_RELAXED);
  else
    (void)__atomic_and_fetch(&handled, ~(1ull << number), __ATOMIC_RELAXED);
}

/* A thread that starts with other handlers keeps its alternate stack as it is. So does each thread
 * under an attached agent, which could not take the stacks back. */
void crash_thread_starts(void) {
#if defined(SONDE_ATTACHED)
  return;
#endif
  if (crash_catches_faults()) os_fault_stack_give();
}

void crash_thread_ends(void) { os_fault_stack_take(); }

bool crash_wants(int number) {
  const shm_control_t *c = writer_control();
  return number > 0 && number < 64 && SIGNALS >> number & 1 && threads && !limited &&
         writer_is_of_process(c);
}

static void put_thread(stream_t *s, uint64_t time, const sonde_thread_t *t, uint32_t stack) {
  extended_body_t b;
  b.used = 0;
  uint64_t length = 0;
  while (length < sizeof t->name && t->name[length])
    length++;
  extended_number(&b, (uint64_t)t->tid);
  extended_number(&b, (uint8_t)t->state);
  extended_number(&b, stack);
  extended_string(&b, t->name, length);
  if (!extended_put(s, EXTENDED_THREAD, time, &b)) writer_lost_event(s->writer->control);
}

static void add_registers(extended_body_t *b, const void *context) {
  uint64_t registers[ARCH_DWARF_REGISTERS], known;
  (void)arch_context_registers(context, registers, &known);
  extended_number(b, ARCH_DWARF_REGISTERS);
  for (unsigned i = 0; i < ARCH_DWARF_REGISTERS; i++)
    extended_number(b, registers[i]);
}

static void add_mapping(extended_body_t *b, int maps, uint64_t address) {
  uint64_t start = 0, end = 0;
  int protection = maps < 0 ? -1 : os_mapping(maps, address, &start, &end);
  extended_number(b, protection < 0 ? 0 : start);
  extended_number(b, protection < 0 ? 0 : end);
  extended_number(b, protection < 0 ? 0 : (uint64_t)protection + 1);
}

/* The thread's stack, where it is mapped, and what is mapped at the address of the fault. */
static void add_mappings(extended_body_t *b, uint64_t address) {
  uint64_t low, high, start, end;
  int maps = os_mappings_open();
  bool known = os_thread_stack(&low, &high) && maps >= 0 &&
               os_mapping(maps, high - sizeof(uint64_t), &start, &end) >= 0;
  extended_number(b, known ? start : 0);
  extended_number(b, known ? high : 0);
  add_mapping(b, maps, address);
  if (maps >= 0) os_close(maps);
}

static void add_cause(extended_body_t *b, int number) {
  static crash_cause_t cause;
  crash_cause_read(number, &cause);
  extended_string(b, cause.message, cause.message_size);
  extended_string(b, cause.exception, cause.exception_size);
  extended_string(b, cause.what, cause.what_size);
}

static void put_crash(stream_t *s, uint64_t time, const crash_t *crash, pid_t tid, uint32_t stack) {
  const info_t *info = crash->info;
  static extended_body_t b; /* one thread records a crash */
  b.used = 0;
  extended_number(&b, (uint64_t)info->number);
  extended_number(&b, (uint32_t)info->code);
  extended_number(&b, info->code > 0 ? info->address : 0);
  extended_number(&b, (uint64_t)tid);
  extended_number(&b, stack);
  add_registers(&b, crash->context);
  extended_number(&b, (uint64_t)arch_context_access(crash->context));
  add_mappings(&b, info->code > 0 ? info->address : 0);
  add_cause(&b, info->number);
  if (!extended_put(s, EXTENDED_CRASH, time, &b)) writer_lost_event(s->writer->control);
}

static void put_others(stream_t *s, uint64_t time, pid_t own) {
  sonde_all_t all = {.threads = threads,
                     .max = THREADS_MAX,
                     .pcs = pcs,
                     .depth = DEPTH_MAX,
                     .options = {.timeout_ns = TIMEOUT_NS}};
  int count = sonde_capture_all(&all);
  for (int i = 0; i < count; i++) {
    const sonde_thread_stack_t *t = &threads[i];
    if (t->thread.tid == own) continue;
    uint32_t stack = stack_id_of_pcs(t->stack.pcs, t->stack.count, true,
                                     t->stack.status == SONDE_STACK_COMPLETE);
    put_thread(s, time, &t->thread, stack);
  }
}

static void record(void *argument) {
  const crash_t *crash = argument;
  stream_t *s = writer_enter(UINT32_MAX);
  if (!s) return;
  pid_t own = os_tid();
  uint32_t stack = 0;
  uint64_t time = writer_now(s->writer);
  if (stack_id_of_context(&stack, crash->context) < 0) stack = 0;
  put_crash(s, time, crash, own, stack);
  put_others(s, time, own);
  writer_leave(s);
}

void crash_handler(int number, void *information, void *context) {
  const info_t *info = information;
  if (1ull << number & FAULTS && info->code > 0 && arch_guarded_fault(context)) return;
  uint32_t none = 0, self = (uint32_t)os_tid();
  if (crash_wants(number)) {
    crash_t crash = {info, context};
    if (cas_acq_rel(&crashing, &none, self)) {
      (void)os_signals_block(); /* until the handler returns */
      os_run_on_handler_stack(record, &crash);
    } else if (none != self) /* another thread records the crash and then terminates the program */
      (void)os_futex_wait(&crashing, none, 4 * (uint64_t)TIMEOUT_NS);
  }
  os_signal_default(number);
  os_signal_again(number, information);
}

static void install(void) {
  for (int number = 1; number < 64; number++)
    if (crash_wants(number) && os_signal_has_handler(number, NULL)) {
      os_signal_handle(number, crash_handler);
      crash_set_handled(number, true);
    }
}

static void start(shm_control_t *control) {
  (void)control;
  if (!pcs) pcs = os_map((size_t)THREADS_MAX * DEPTH_MAX * sizeof *pcs);
  if (pcs && !threads) threads = os_map(THREADS_MAX * sizeof *threads);
  install();
  crash_cause_prepare();
  crash_thread_starts();
}

/* Without the calls that restore the default action and send the signal again, the program would
 * survive its own end. A child of fork has the handlers, too. A handler that the program installed
 * meanwhile by a raw system call stays. */
static void limit(uint32_t effects) {
  bool before = limited;
  limited = effects & SECCOMP_STOPS_CRASH;
  for (int number = 1; limited && number < 64; number++)
    if (load_relaxed(&handled) >> number & 1) {
      if (os_signal_has_handler(number, crash_handler)) os_signal_default(number);
      crash_set_handled(number, false);
    }
  if (before && !limited) install();
}

/* The program has the default actions again, unless it has replaced the handlers itself. */
static void leave(shm_control_t *control) {
  (void)control;
  for (int number = 1; number < 64; number++)
    if (load_relaxed(&handled) >> number & 1) {
      if (os_signal_has_handler(number, crash_handler)) os_signal_default(number);
      crash_set_handled(number, false);
    }
}

HIDDEN const sensor_t sensor_crash = {
    .start = start, .leave = leave, .after_fork = os_fault_stacks_forked, .limit = limit};
