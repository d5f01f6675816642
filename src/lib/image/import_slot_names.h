/* SPDX-License-Identifier: MIT
 *
 * The hash behind slot_names_t (image/import_slots.h): of a name's first eight characters, read as
 * one word.
 */
#ifndef SONDE_IMAGE_IMPORT_SLOT_NAMES_H
#define SONDE_IMAGE_IMPORT_SLOT_NAMES_H

#include <stdint.h>

#include "base/bits.h"

#define SLOT_NAME_BITS 12

/* Of WORD, of which what follows the first 0 does not count. */
static ALWAYS_INLINE uint32_t slot_word_hash(uint64_t word) {
  uint64_t zeros = (word - 0x0101010101010101u) & ~word & 0x8080808080808080u;
  if (zeros) word &= (zeros & (0 - zeros)) - 1;
  /* The bit of the lowest 0 is its byte's highest: what is left of that byte is 0 anyhow. */
  return (uint32_t)(word * 0x9e3779b97f4a7c15u >> (64 - SLOT_NAME_BITS));
}

/* Of a NAME with ROOM bytes, which may end before. */
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
