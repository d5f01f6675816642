/* SPDX-License-Identifier: MIT
 *
 * Reads little-endian words at any alignment, from a file or from another process. The machines
 * that sonde supports are little-endian themselves.
 */
#ifndef SONDE_BASE_LOAD_H
#define SONDE_BASE_LOAD_H

#include <stdint.h>
#include <string.h>

static inline uint32_t load32(const uint8_t *p) {
  uint32_t value;
  memcpy(&value, p, sizeof value);
  return value;
}

static inline uint64_t load64(const uint8_t *p) {
  uint64_t value;
  memcpy(&value, p, sizeof value);
  return value;
}

#endif
