/* SPDX-License-Identifier: MIT
 *
 * Reads of memory that may disappear meanwhile: another thread may unload a live image, and the
 * owner of a mapped file may truncate it. A guarded read is a system call, and most reads continue
 * where the last one ended. So this reader fetches a window of bytes at once.
 */
#ifndef SONDE_IMAGE_WINDOW_H
#define SONDE_IMAGE_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "os/os.h"

typedef struct window {
  uint64_t address, size;
  uint8_t bytes[1024];
} window_t;

/* Copies SIZE bytes from ADDRESS. Pass a window unless the memory is known to stay mapped. */
static inline bool window_copy(window_t *w, uint64_t address, void *out, size_t size) {
  if (!w) {
    __builtin_memcpy(out, (const void *)(uintptr_t)address, size);
    return true;
  }
  if (size > sizeof w->bytes) return os_read_memory(address, out, size) == (ssize_t)size;
  if (address < w->address || address - w->address > w->size ||
      size > w->size - (address - w->address)) {
    ssize_t got = os_read_memory(address, w->bytes, sizeof w->bytes);
    w->address = address;
    w->size = got > 0 ? (uint64_t)got : 0;
    if (w->size < size) return false;
  }
  __builtin_memcpy(out, w->bytes + (address - w->address), size);
  return true;
}

#endif
