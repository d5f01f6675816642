/* SPDX-License-Identifier: MIT
 *
 * Apple's malloc log as its published functions show it: libmalloc's malloc_logger and libsyscall's
 * __syscall_logger are set, and each event is kept with its stack. Declarations are those of
 * libmalloc 283 to 521 (private/stack_logging.h); with FRAMEWORK_NAMES the functions have the names
 * of the framework that libmalloc forwards to. The file has the name of Apple's and no content.
 */
#include <fcntl.h>
#include <mach/mach.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(FRAMEWORK_NAMES)
#define turn_on_stack_logging                          msl_turn_on_stack_logging
#define turn_off_stack_logging                         msl_turn_off_stack_logging
#define __mach_stack_logging_start_reading             msl_start_reading
#define __mach_stack_logging_stop_reading              msl_stop_reading
#define __mach_stack_logging_enumerate_records         msl_disk_stack_logs_enumerate_from_task
#define __mach_stack_logging_copy_uniquing_table       msl_uniquing_table_copy_from_task
#define __mach_stack_logging_uniquing_table_read_stack msl_uniquing_table_read_stack
#define __mach_stack_logging_uniquing_table_release    msl_uniquing_table_release
#endif

#define EXPORT      __attribute__((visibility("default")))
#define RECORDS_MAX 1024u
#define STACKS_MAX  256u
#define DEPTH_MAX   48u
#define FIRST_ID    0x500000000ull /* more than 32 bits, and no index */
#define NO_STACK    UINT64_MAX

typedef void logger_t(uint32_t type, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t result,
                      uint32_t skip);
void mac_set_loggers(logger_t *of_blocks, logger_t *of_regions);

typedef struct record {
  uint32_t type_flags;
  uint64_t stack_identifier, argument, address;
} record_t;

typedef struct stack {
  uint32_t count;
  uint64_t pcs[DEPTH_MAX]; /* innermost first; the last one is the thread */
} known_stack_t;

static record_t records[RECORDS_MAX];
static known_stack_t stacks[STACKS_MAX];
static uint32_t record_count, stack_count, reading;
static volatile int lock;
static int mode, file = -1;
EXPORT uint64_t __mach_stack_logging_shared_memory_address;

static void take(void) {
  while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE)) {
  }
}
static void give(void) { __atomic_store_n(&lock, 0, __ATOMIC_RELEASE); }

/* The id of the stack that FRAME's caller has, with the thread as its last frame. */
static uint64_t id_of(const uintptr_t *frame) {
  known_stack_t *s = &stacks[stack_count];
  uintptr_t top = (uintptr_t)pthread_get_stackaddr_np(pthread_self());
  if (stack_count == STACKS_MAX) return NO_STACK;
  s->count = 0;
  while (s->count < DEPTH_MAX - 1 && (uintptr_t)frame < top && frame[1]) {
    s->pcs[s->count++] = frame[1];
    if (frame[0] <= (uintptr_t)frame) break;
    frame = (const uintptr_t *)frame[0];
  }
  s->pcs[s->count++] = (uintptr_t)pthread_self() + 1;
  for (uint32_t i = 0; i < stack_count; i++)
    if (stacks[i].count == s->count && !memcmp(stacks[i].pcs, s->pcs, 8 * s->count))
      return FIRST_ID + i;
  return FIRST_ID + stack_count++;
}

static void add(uint32_t type, uint64_t address, uint64_t argument, const uintptr_t *frame) {
  take();
  uint64_t id = id_of(frame);
  if (record_count < RECORDS_MAX) records[record_count++] = (record_t){type, id, argument, address};
  give();
}

static void on_malloc(uint32_t type, uintptr_t zone, uintptr_t b, uintptr_t c, uintptr_t result,
                      uint32_t skip) {
  const uintptr_t *frame = __builtin_frame_address(0);
  (void)zone, (void)skip;
  bool allocates = type & 2, frees = type & 4;
  if (frees && b) add(4, b, 0, frame);
  if (allocates && result) add(2, result, frees ? c : b, frame);
}

static void on_syscall(uint32_t type, uintptr_t task, uintptr_t b, uintptr_t c, uintptr_t result,
                       uint32_t skip) {
  const uintptr_t *frame = __builtin_frame_address(0);
  (void)task, (void)skip;
  if (type & 16)
    add(type, result, b, frame);
  else
    add(type, b, c, frame);
}

EXPORT boolean_t malloc_register_stack_logger(void);
EXPORT boolean_t malloc_register_stack_logger(void) { return true; }

EXPORT boolean_t turn_on_stack_logging(int wanted);
EXPORT boolean_t turn_on_stack_logging(int wanted) {
  char path[1024];
  const char *folder = getenv("MallocStackLoggingDirectory");
  if (mode) return false;
  mode = wanted;
  snprintf(path, sizeof path, "%s/stack-logs.%d.105c1000.subject.x1Yz2q.index",
           folder ? folder : "/tmp", (int)getpid());
  file = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
  mac_set_loggers(wanted != 3 ? on_malloc : NULL, wanted != 2 ? on_syscall : NULL);
  return true;
}

EXPORT void turn_off_stack_logging(void);
EXPORT void turn_off_stack_logging(void) { mac_set_loggers(NULL, NULL); }

EXPORT kern_return_t __mach_stack_logging_start_reading(task_t task, vm_address_t shared,
                                                        boolean_t *is_lite);
EXPORT kern_return_t __mach_stack_logging_start_reading(task_t task, vm_address_t shared,
                                                        boolean_t *is_lite) {
  (void)shared;
  if (!mode || reading || task != mach_task_self()) return KERN_FAILURE;
  *is_lite = false;
  reading = 1;
  return KERN_SUCCESS;
}

EXPORT kern_return_t __mach_stack_logging_stop_reading(task_t task);
EXPORT kern_return_t __mach_stack_logging_stop_reading(task_t task) {
  if (!reading || task != mach_task_self()) return KERN_FAILURE;
  reading = 0;
  return KERN_SUCCESS;
}

EXPORT kern_return_t __mach_stack_logging_enumerate_records(task_t task, mach_vm_address_t address,
                                                            void (*visit)(record_t, void *),
                                                            void *context);
EXPORT kern_return_t __mach_stack_logging_enumerate_records(task_t task, mach_vm_address_t address,
                                                            void (*visit)(record_t, void *),
                                                            void *context) {
  if (!reading || task != mach_task_self()) return KERN_FAILURE;
  for (uint32_t i = 0, count = record_count; i < count; i++)
    if (!address || records[i].address == address) visit(records[i], context);
  return KERN_SUCCESS;
}

/* A copy: what is logged later is not in it. */
typedef struct table {
  uint32_t count;
} table_t;
static table_t copied;

EXPORT table_t *__mach_stack_logging_copy_uniquing_table(task_t task);
EXPORT table_t *__mach_stack_logging_copy_uniquing_table(task_t task) {
  if (!reading || task != mach_task_self()) return NULL;
  copied.count = stack_count;
  return &copied;
}

EXPORT kern_return_t __mach_stack_logging_uniquing_table_read_stack(table_t *table, uint64_t id,
                                                                    mach_vm_address_t *out,
                                                                    uint32_t *count, uint32_t max);
EXPORT kern_return_t __mach_stack_logging_uniquing_table_read_stack(table_t *table, uint64_t id,
                                                                    mach_vm_address_t *out,
                                                                    uint32_t *count, uint32_t max) {
  *count = 0;
  if (id < FIRST_ID || id - FIRST_ID >= table->count) return KERN_FAILURE;
  const known_stack_t *s = &stacks[id - FIRST_ID];
  if (s->count > max) return KERN_FAILURE;
  memcpy(out, s->pcs, 8 * s->count);
  *count = s->count;
  return KERN_SUCCESS;
}

EXPORT void __mach_stack_logging_uniquing_table_release(table_t *table);
EXPORT void __mach_stack_logging_uniquing_table_release(table_t *table) { table->count = 0; }
