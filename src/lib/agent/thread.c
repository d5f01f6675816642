/* SPDX-License-Identifier: MIT
 *
 * The start and the end of threads and of the process, for the table of threads
 * (record/thread_table.h).
 *
 * A thread starts in `begin`, which enters it into the table and jumps to the program's function,
 * so it leaves no frame on the stack. The thread's CPU time at its end comes from a destructor of
 * thread-specific data. The destructor sets its value again, so the C library calls it in each of
 * its rounds; the last call is behind the destructors of the program.
 */
#include "agent/agent.h"

#include <errno.h>
#include <stddef.h>

#include "os/os.h"
#include "record/writer.h"
#include "sensor/crash.h"
#include "sensor/sample.h"

#define EXPORT __attribute__((visibility("default")))

typedef void *function_t(void *);

static struct {
  int (*create)(void **, const void *, function_t *, void *);
  int (*key_create)(uint32_t *, void (*)(void *));
  int (*setspecific)(uint32_t, const void *);
  void (*exit_now)(int);
  void (*exit_now_too)(int);
} real;

/* ---- the table ---------------------------------------------------------------------------- */

void thread_started(void) {
  shm_control_t *control = writer_control();
  if (agent_in_recorded_process()) (void)thread_table_claim(&control->threads, (uint32_t)os_tid());
}

static void note_end(shm_thread_t *thread) {
  int64_t now = os_thread_cpu_ns((pid_t)load_relaxed(&thread->tid));
  if (now > 0) store_release(&thread->end_ns, (uint64_t)now);
}

void threads_end(void) {
  shm_threads_t *threads = &writer_control()->threads;
  for (uint32_t i = 0; i < SHM_THREADS; i++)
    if (thread_table_has(threads, i) && load_acquire(&threads->items[i].tid))
      note_end(&threads->items[i]);
  store_release(&threads->process_ns, os_process_cpu_ns());
}

/* ---- a thread ----------------------------------------------------------------------------- */

/* Thread-specific data for a key below this is in the thread's own structure in every C library;
 * for others glibc would call the program's malloc. */
#define KEYS_INSIDE 32u

static uint32_t key, key_state; /* of key_state: 0 none yet, 1 being created, 2 usable, 3 not */

/* In a child of fork, ENTRY is of the parent's table, which is not mapped. */
static bool is_entry(const shm_thread_t *entry) {
  const shm_threads_t *threads = &writer_control()->threads;
  return entry >= threads->items && entry < threads->items + SHM_THREADS;
}

static void at_thread_end(void *entry) {
  shm_thread_t *thread = entry;
  if (!agent_in_recorded_process() || !is_entry(thread)) return;
  if (load_acquire(&thread->tid) == (uint32_t)os_tid()) note_end(thread);
  crash_thread_ends();
  (void)real.setspecific(key, entry);
}

static bool has_key(void) {
  uint32_t none = 0;
  if (load_acquire(&key_state) == 0 && cas_acq_rel(&key_state, &none, 1u)) {
    bool usable = real.key_create && real.setspecific && real.key_create(&key, at_thread_end) == 0;
    store_release(&key_state, usable && key < KEYS_INSIDE ? 2u : 3u);
  }
  return load_acquire(&key_state) == 2;
}

/* What a new thread is to run. */
typedef struct start {
  uint32_t used;
  function_t *function;
  void *argument;
} start_t;

static start_t starts[64];

static void *begin(void *start) {
  start_t own = *(start_t *)start;
  store_release(&((start_t *)start)->used, 0u);
  shm_control_t *control = writer_control();
  shm_thread_t *thread = control ? thread_table_claim(&control->threads, (uint32_t)os_tid()) : NULL;
  if (thread)
    (void)real.setspecific(key, thread);
  else if (control)
    add_relaxed(&control->threads.started, 1u); /* the table is full: it only counts */
  if (control) crash_thread_starts();
  return own.function(own.argument); /* a jump */
}

/* NULL: the thread starts without `begin`, because as many others are about to start. */
static start_t *make_start(function_t *function, void *argument) {
  if (!agent_in_recorded_process() || !has_key()) return NULL;
  for (uint32_t i = 0; i < ARRAY_COUNT(starts); i++) {
    uint32_t unused = 0;
    if (!cas_acq_rel(&starts[i].used, &unused, 1u)) continue;
    starts[i].function = function;
    starts[i].argument = argument;
    return &starts[i];
  }
  return NULL;
}

/* A pthread_t is a word in every C library for Linux. */
EXPORT int pthread_create(void **made, const void *attributes, function_t *function,
                          void *argument);

int pthread_create(void **made, const void *attributes, function_t *function, void *argument) {
  agent_enter();
  if (!real.create) return EAGAIN;
  start_t *start = make_start(function, argument);
  int status = start ? real.create(made, attributes, begin, start)
                     : real.create(made, attributes, function, argument);
  if (status != 0 && start) store_release(&start->used, 0u);
  uint64_t handle = 0; /* the thread may already have unmapped the memory of *MADE */
  if (status == 0 &&
      os_read_memory((uint64_t)(uintptr_t)made, &handle, sizeof handle) == sizeof handle)
    sample_thread_created(handle);
  return status;
}

/* ---- the process -------------------------------------------------------------------------- */

/* Without the destructors, which exit(3) runs. A child of vfork ends here, too. */
static void end_process(void) {
  agent_enter();
  if (!agent_in_recorded_process()) return;
  threads_end();
  agent_finish();
}

EXPORT __attribute__((noreturn)) void _exit(int status);
EXPORT __attribute__((noreturn)) void _Exit(int status);

void _exit(int status) {
  end_process();
  if (real.exit_now) real.exit_now(status);
  os_exit(status);
}

void _Exit(int status) {
  end_process();
  if (real.exit_now_too) real.exit_now_too(status);
  os_exit(status);
}

void thread_find_real(void) {
  static const char *const names[] = {"pthread_create", "pthread_key_create", "pthread_setspecific",
                                      "_exit", "_Exit"};
  _Static_assert(sizeof real == sizeof(uint64_t) * ARRAY_COUNT(names), "one name a function");
  agent_real(names, (uint64_t *)&real, ARRAY_COUNT(names));
}
