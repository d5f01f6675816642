/* SPDX-License-Identifier: MIT
 *
 * The allocator's entry points, for the agent, which replaces them, and for the hooks of a program
 * that records itself. Some C libraries lack some of them.
 */
#ifndef SONDE_SENSOR_MALLOC_ALLOCATOR_H
#define SONDE_SENSOR_MALLOC_ALLOCATOR_H

#include <stddef.h>

/* X(name, result, parameters), in the order in which hooks are added: free and realloc first, so
 * that the free of each recorded block is recorded. */
#define ALLOCATOR_TABLE(X)                                                                         \
  X(free, void, (void *))                                                                          \
  X(realloc, void *, (void *, size_t))                                                             \
  X(reallocarray, void *, (void *, size_t, size_t))                                                \
  X(malloc, void *, (size_t))                                                                      \
  X(calloc, void *, (size_t, size_t))                                                              \
  X(posix_memalign, int, (void **, size_t, size_t))                                                \
  X(aligned_alloc, void *, (size_t, size_t))                                                       \
  X(memalign, void *, (size_t, size_t))                                                            \
  X(valloc, void *, (size_t))                                                                      \
  X(pvalloc, void *, (size_t))

/* The member of a structure that points to the function. */
#define ALLOCATOR_POINTER(name, result, parameters) result(*name) parameters;

#define ALLOCATOR_DECLARATION(name, result, parameters) result name parameters;

#define ALLOCATOR_NAME(name, result, parameters) #name,

#endif
