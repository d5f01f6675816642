/* SPDX-License-Identifier: MIT
 *
 * The memory that a walk reads: this process, another process or a core file. Reads never fault.
 */
#ifndef SONDE_UNWIND_MEMORY_H
#define SONDE_UNWIND_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct memory memory_t;
struct memory {
  /* Copies exactly SIZE bytes at ADDRESS to OUT; or returns false and leaves OUT undefined. */
  bool (*read)(memory_t *self, uint64_t address, void *out, size_t size);
};

#endif
