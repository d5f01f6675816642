/* SPDX-License-Identifier: MIT
 *
 * The input of a fuzz target as a file, for parsers that open a path.
 */
#ifndef SONDE_FUZZ_FILE_H
#define SONDE_FUZZ_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define FUZZ_PATH_MAX 32u

/* Writes the input to a file in memory and its path to PATH. The file is the same at each call. */
static inline void fuzz_file(const uint8_t *data, size_t size, char path[FUZZ_PATH_MAX]) {
  static int fd = -1;
  if (fd < 0) fd = memfd_create("fuzz", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size) abort();
  (void)snprintf(path, FUZZ_PATH_MAX, "/proc/self/fd/%d", fd);
}

#endif
