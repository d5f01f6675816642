/* SPDX-License-Identifier: MIT
 *
 * Pointers of which each thread has its own. On Linux they are initial-exec variables: a load. On
 * Apple's systems a thread's first use of a variable allocates (dyld's tlv_bootstrap), which must
 * not happen inside malloc or between a call and its target; there they are values of pthread keys,
 * which lie in the thread's own memory from the start.
 *
 * A header declares one in both forms, SLOT_HERE defines it in one file; it is read by its name and
 * set by SLOT_SET.
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
/* NULL before libsonde's constructors, and where the keys could not be had. Leave the vector
 * registers alone as far as pthread_getspecific does, which is a load. */
__attribute__((visibility("hidden"))) void *os_thread_slot(os_thread_slot_t which);
__attribute__((visibility("hidden"))) void os_set_thread_slot(os_thread_slot_t which, void *value);
#define SLOT_SET(name, which, value) os_set_thread_slot(which, value)
#define SLOT_HERE(type, name)        _Static_assert(sizeof(type), "a key instead")
#else
#define SLOT_MODEL                   __attribute__((visibility("hidden"), tls_model("initial-exec")))
#define SLOT_SET(name, which, value) ((name) = (value))
#define SLOT_HERE(type, name)        __thread type *name SLOT_MODEL
#endif

#endif
