/* SPDX-License-Identifier: MIT
 *
 * Thread-local pointers. On Linux they are initial-exec variables, which cost one load. On Apple's
 * systems a thread's first use of a thread-local variable allocates memory (dyld's tlv_bootstrap).
 * That must not happen inside malloc or between a call and its target. So there the pointers are
 * values of pthread keys, which are part of the thread's memory from the start.
 *
 * A header declares a slot in both forms, and SLOT_HERE defines it in one file. Code reads a slot
 * by its name and writes it with SLOT_SET.
 */
#ifndef SONDE_OS_THREAD_SLOT_H
#define SONDE_OS_THREAD_SLOT_H

typedef enum os_thread_slot {
  SLOT_WRITER,
  SLOT_THREAD_STATE,
  SLOT_TRACE,
  SLOT_CALL_STACK,
  SLOT_ITERATION,
  SLOT_COUNT
} os_thread_slot_t;

#if defined(__APPLE__)
/* NULL before libsonde's constructors, and when no keys are available. The cost is that of
 * pthread_getspecific, a load that changes no vector register. */
__attribute__((visibility("hidden"))) void *os_thread_slot(os_thread_slot_t which);
__attribute__((visibility("hidden"))) void os_set_thread_slot(os_thread_slot_t which, void *value);
#define SLOT_SET(name, which, value) os_set_thread_slot(which, value)
#define SLOT_HERE(type, name)        _Static_assert(sizeof(type), "a pthread key replaces it")
#else
#define SLOT_MODEL                   __attribute__((visibility("hidden"), tls_model("initial-exec")))
#define SLOT_SET(name, which, value) ((name) = (value))
#define SLOT_HERE(type, name)        __thread type *name SLOT_MODEL
#endif

#endif
