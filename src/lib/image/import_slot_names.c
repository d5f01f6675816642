/* SPDX-License-Identifier: MIT */
#include "image/import_slot_names.h"
#include "image/import_slots.h"

bool import_slots_text_equal(const char *a, const char *b) {
  while (*a && *a == *b)
    a++, b++;
  return *a == *b;
}

static uint32_t hash_of_text(const char *name) {
  uint64_t length = 0;
  while (name[length] && length < 8)
    length++;
  return slot_name_hash(name, length);
}

bool slot_names_may_hold(const slot_names_t *names, const char *name) {
  uint32_t hash = hash_of_text(name);
  return load_relaxed(&names->bits[hash >> 6]) >> (hash & 63) & 1;
}

void slot_names_add(slot_names_t *names, const char *name) {
  uint32_t hash = hash_of_text(name);
  names->bits[hash >> 6] |= (uint64_t)1 << (hash & 63);
}
