/* SPDX-License-Identifier: MIT
 *
 * Thread-local pointers. On Linux they are initial-exec variables, which cost one load. On Apple's
 * systems a thread's first use of a thread-local variable allocates memory (dyld's tlv_bootstrap).
 * That must not happen inside malloc or between a call and its target. So there the pointers are
 * values of pthread keys, which are part of the thread's memory from the start. An agent that is
 * attached to a running program (SONDE_ATTACHED) has no thread-local storage in the program's
 * threads. There the pointers are in a table of its own (os/linux/pthread/thread_slots.c).
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
#define SLOT_BY_CALL
#endif

#if defined(SONDE_ATTACHED)
/* NULL before os_thread_slots_init, and for a thread that os_thread_slots_claim has refused. */
__attribute__((visibility("hidden"))) void *os_thread_slot(os_thread_slot_t which);
__attribute__((visibility("hidden"))) void os_set_thread_slot(os_thread_slot_t which, void *value);

/* Call it before the first use, in any thread of the C library. Returns false if the place of the
 * thread's id in this C library's structure is unknown. */
__attribute__((visibility("hidden"))) _Bool os_thread_slots_init(void);

/* Makes sure that the calling thread has slots, as the first os_set_thread_slot does. Returns false
 * if the table is full, or if the thread cannot be identified: it is not a thread of the C library.
 */
__attribute__((visibility("hidden"))) _Bool os_thread_slots_claim(void);
#define SLOT_BY_CALL
#endif

#if defined(SLOT_BY_CALL)
#define SLOT_SET(name, which, value) os_set_thread_slot(which, value)
#define SLOT_HERE(type, name)        _Static_assert(sizeof(type), "a call replaces it")
#else
#define SLOT_MODEL                   __attribute__((visibility("hidden"), tls_model("initial-exec")))
#define SLOT_SET(name, which, value) ((name) = (value))
#define SLOT_HERE(type, name)        __thread type *name SLOT_MODEL
#endif

#endif
