/* SPDX-License-Identifier: MIT
 *
 * The hash of slot_names_t (image/import_slots.h): of the first eight characters of a name, read as
 * one word.
 */
#ifndef SONDE_IMAGE_IMPORT_SLOT_NAMES_H
#define SONDE_IMAGE_IMPORT_SLOT_NAMES_H

#include <stdint.h>

#include "base/bits.h"

#define SLOT_NAME_BITS 12

/* The hash of WORD, ignoring the bytes after the first 0. */
static ALWAYS_INLINE uint32_t slot_word_hash(uint64_t word) {
  uint64_t zeros = (word - 0x0101010101010101u) & ~word & 0x8080808080808080u;
  if (zeros) word &= (zeros & (0 - zeros)) - 1;
  /* The mask ends below the highest bit of the first 0 byte; the rest of that byte is 0 anyway. */
  return (uint32_t)(word * 0x9e3779b97f4a7c15u >> (64 - SLOT_NAME_BITS));
}

/* The hash of NAME, which ends at its first 0 or after ROOM bytes. */
static ALWAYS_INLINE uint32_t slot_name_hash(const char *name, uint64_t room) {
  uint64_t word = 0;
  if (room >= 8) {
    __builtin_memcpy(&word, name, 8);
  } else {
    for (uint64_t i = 0; i < room && name[i]; i++)
      word |= (uint64_t)(uint8_t)name[i] << 8 * i;
  }
  return slot_word_hash(word);
}

#endif
