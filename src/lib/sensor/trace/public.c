/* SPDX-License-Identifier: MIT
 *
 * sonde/trace.h: a program that traces itself.
 *
 * A scope is a call of the address of its name. A small table holds the names that were recorded,
 * so a scope costs as much as a function. Names with the same hash are recorded repeatedly; readers
 * ignore duplicates.
 */
#include "sonde/trace.h"

#include "record/definitions.h"
#include "record/memory_recording.h"
#include "os/lock.h"
#include "sensor/trace/imports.h"
#include "sensor/trace/trace.h"
#include "sensor/trace/code.h"
#include "sensor/trace/print.h"
#include "capture/stack.h"

#define DEFAULT_LIMIT (UINT64_C(64) << 20)
#define LEAST_LIMIT   (UINT64_C(1) << 20)
#define NAMES_BITS    10
/* sonde_trace_print omits functions with less than this part of the time. */
#define PRINTED_SHARE 10000

static const char *names[1u << NAMES_BITS];
static lock_t lock;
static shm_call_filter_t filter;
static code_result_t patches; /* of sonde_trace_calls */

static int prepare(uint64_t limit_bytes) {
  if (writer_control()) return memory_recording_is_on() ? 0 : SONDE_EBUSY;
  if (!frame_table_init() || !stack_table_init()) return SONDE_ENOMEM;
  definitions_start();
  int status = memory_recording_begin(limit_bytes < LEAST_LIMIT ? LEAST_LIMIT : limit_bytes);
  if (status == 0) status = trace_prepare();
  memset((void *)names, 0, sizeof names);
  return status;
}

/* The functions that sonde_trace_calls has selected. */
static const char *functions(void) { return writer_control()->trace_pattern; }

/* Before the first call is recorded, since the limits are those of the whole recording. */
static void limit(void) {
  shm_control_t *control = writer_control();
  if (load_relaxed(&control->trace_generation)) return;
  control->trace_filter = filter;
  if (filter.least_ns) memory_recording_calibrate();
}

static int start(uint64_t limit_bytes) {
  int status = prepare(limit_bytes);
  if (status != 0) return status;
  limit();
  trace_switch(true);
  (void)code_switch(true, "", functions());
  return 0;
}

int sonde_trace_start(size_t limit_bytes) {
  if (!lock_take(&lock, 0)) return SONDE_EBUSY;
  int status = start(limit_bytes ? limit_bytes : DEFAULT_LIMIT);
  lock_release(&lock);
  return status;
}

int sonde_trace_filter(uint64_t least, uint32_t depth) {
  if (!lock_take(&lock, 0)) return SONDE_EBUSY;
  const shm_control_t *control = writer_control();
  bool is_late = control && (!memory_recording_is_on() || load_relaxed(&control->trace_generation));
  if (!is_late) filter = (shm_call_filter_t){least, depth};
  lock_release(&lock);
  return is_late ? SONDE_EBUSY : 0;
}

static int hook_imports(const char *pattern) {
  shm_control_t *control = writer_control();
  uint32_t length = 0;
  if (control->trace_pattern[0]) return SONDE_EBUSY;
  while (pattern[length])
    length++;
  if (!length || length >= sizeof control->trace_given) return SONDE_EINVAL;
  memcpy(control->trace_pattern, pattern, length + 1);
  int status = imports_start(NULL);
  if (status < 0) control->trace_pattern[0] = 0;
  return status;
}

/* At once, since other threads may run later. */
static int patch_functions(void) {
  patches = (code_result_t){0};
  functions_patch(functions(), false, &patches);
  return !patches.moved && patches.unmoved[MOVE_THREADS] ? SONDE_EBUSY : 0;
}

int sonde_trace_calls(const char *pattern) {
  if (!pattern) return SONDE_EINVAL;
  if (!lock_take(&lock, 0)) return SONDE_EBUSY;
  int status = prepare(DEFAULT_LIMIT);
  if (status == 0) status = hook_imports(pattern);
  if (status == 0) status = patch_functions();
  lock_release(&lock);
  return status;
}

int sonde_trace_patched(void (*visit)(int functions, const char *reason, void *context),
                        void *context) {
  for (uint32_t i = 1; visit && i < MOVE_FAULT_COUNT; i++)
    if (patches.unmoved[i]) visit((int)patches.unmoved[i], move_fault_texts[i], context);
  return (int)patches.moved;
}

int sonde_trace_stop(void) {
  if (!memory_recording_is_on()) return SONDE_EINVAL;
  if (!lock_take(&lock, 0)) return SONDE_EBUSY;
  trace_switch(false);
  (void)code_switch(false, "", "");
  lock_release(&lock);
  return 0;
}

int sonde_trace_save(const char *path) {
  if (!path || !memory_recording_is_on()) return SONDE_EINVAL;
  return memory_recording_save(path);
}

static int print(int fd, const print_filter_t *shown) {
  return memory_recording_is_on() ? trace_print(fd, shown) : SONDE_EINVAL;
}

int sonde_trace_print(int fd) { return print(fd, &(print_filter_t){.share = PRINTED_SHARE}); }

int sonde_trace_print_filtered(int fd, uint64_t least, uint32_t depth) {
  return print(fd, &(print_filter_t){.least_ns = least, .depth = depth});
}

static const char **entry_of(const char *name) {
  uint64_t hash = (uint64_t)(uintptr_t)name * UINT64_C(0x9e3779b97f4a7c15);
  return &names[hash >> (64 - NAMES_BITS)];
}

const char *trace_scope_name(uint64_t address) {
  const char *name = load_relaxed(entry_of((const char *)(uintptr_t)address));
  return (uintptr_t)name == address ? name : NULL;
}

static NOINLINE void record_name(const char *name) {
  trace_name((uintptr_t)name, name);
  store_relaxed(entry_of(name), name);
}

void sonde_trace_begin(const char *name) {
  uint32_t generation = trace_on();
  if (!generation || !name) return;
  if (UNLIKELY(load_relaxed(entry_of(name)) != name)) record_name(name);
  trace_enter(generation, (uintptr_t)name, (uintptr_t)__builtin_dwarf_cfa(), 0, 0);
}

void sonde_trace_end(const char *name) {
  uint32_t generation = trace_on();
  if (generation && name)
    trace_exit(generation, (uintptr_t)name, (uintptr_t)__builtin_dwarf_cfa(), false);
}
