/* SPDX-License-Identifier: MIT
 *
 * Where each thread keeps its value of a pthread key, so that it is read by one load.
 *
 * glibc keeps the first 32 values of a thread in the thread's structure (struct pthread,
 * nptl/descr.h): an array of pairs of a sequence number and a value. After the array is a list of
 * arrays, of which the first entry points to this array. That pointer to a place 512 bytes before
 * itself shows where the array is.
 *
 * The value is that of pthread_getspecific while the key is not deleted. A deleted and newly
 * created key leaves the value of the former one in threads that have not set it.
 * Async-signal-safe.
 */
#ifndef SONDE_OS_KEY_PLACE_H
#define SONDE_OS_KEY_PLACE_H

#include <stdint.h>

#include "arch/arch.h"

/* The distance from the thread pointer to the value of KEY, which is VALUE in the calling thread;
 * 0: unknown. */
__attribute__((visibility("hidden"))) int64_t os_key_place(uint32_t key, uint64_t value);

/* The address of the calling thread's value. PLACE is a result of os_key_place, not 0. */
static inline uint64_t os_key_address(int64_t place) {
#if defined(__APPLE__)
  return (uint64_t)place; /* never called: os_key_place finds none */
#else
  return arch_thread_pointer() + (uint64_t)place;
#endif
}

#endif
