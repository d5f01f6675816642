/* SPDX-License-Identifier: MIT
 *
 * Pointers of which each thread has its own. On Linux they are initial-exec variables: a load. On
 * Apple's systems a thread's first use of a variable allocates (dyld's tlv_bootstrap), which must
 * not happen inside malloc or between a call and its target; there they are values of pthread keys,
 * which lie in the thread's own memory from the start.
 *
 * A header declares one in both forms, OWN_HERE defines it in one file; it is read by its name and
 * set by OWN_SET.
 */
#ifndef SONDE_OS_THREAD_SLOT_H
#define SONDE_OS_THREAD_SLOT_H

typedef enum os_own { OWN_WRITER, OWN_SELF, OWN_TRACE, OWN_CALLS, OWN_TURN, OWN_COUNT } os_own_t;

#if defined(__APPLE__)
/* NULL before libsonde's constructors, and where the keys could not be had. Leave the vector
 * registers alone as far as pthread_getspecific does, which is a load. */
__attribute__((visibility("hidden"))) void *os_own(os_own_t which);
__attribute__((visibility("hidden"))) void os_set_own(os_own_t which, void *value);
#define OWN_SET(name, which, value) os_set_own(which, value)
#define OWN_HERE(type, name)        _Static_assert(sizeof(type), "a key instead")
#else
#define OWN_MODEL                   __attribute__((visibility("hidden"), tls_model("initial-exec")))
#define OWN_SET(name, which, value) ((name) = (value))
#define OWN_HERE(type, name)        __thread type *name OWN_MODEL
#endif

#endif
