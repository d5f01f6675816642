/* SPDX-License-Identifier: MIT
 *
 * A set of ids, and the hash that makes ids of contents. The hash is part of the format of a store:
 * equal contents have equal ids in every store and on every machine.
 */
#ifndef SONDE_STORE_ID_SET_H
#define SONDE_STORE_ID_SET_H

#include "base/array.h"
#include "base/hash.h"

/* Continues HASH with WORD: the finalizer of SplitMix64, in which every bit depends on all. */
static inline uint64_t id_mix(uint64_t hash, uint64_t word) {
  uint64_t x = (hash ^ word) + UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

static inline uint64_t id_text(uint64_t hash, const char *text) {
  return id_mix(hash, hash_text(HASH_START, text));
}

/* 0 stands for "none". */
static inline uint64_t id_not_zero(uint64_t id) { return id ? id : 1; }

typedef struct id_set {
  ARRAY(uint64_t) ids;
  hash_index_t index;
} id_set_t;

static inline uint64_t id_set_hash(const void *set, size_t i) {
  return hash_number(((const id_set_t *)set)->ids.items[i]);
}

/* The number of ID in the set, from 0 in the order of addition, which is added if it is new; -1:
 * out of memory. */
static inline int64_t id_set_number(id_set_t *set, uint64_t id) {
  uint32_t *slot;
  if (!hash_reserve(&set->index, set->ids.count, id_set_hash, set)) return -1;
  HASH_FIND(&set->index, hash_number(id), slot) {
    if (set->ids.items[*slot - 1] == id) return *slot - 1;
  }
  uint64_t *added = ARRAY_ADD(set->ids);
  if (!added) return -1;
  *added = id;
  *slot = (uint32_t)set->ids.count;
  return *slot - 1;
}

/* Adds ID. 1: it is new, 0: it was there, -1: out of memory. */
static inline int id_set_add(id_set_t *set, uint64_t id) {
  size_t count = set->ids.count;
  int64_t number = id_set_number(set, id);
  return number < 0 ? -1 : (size_t)number == count;
}

/* The number of ID in the set; -1: it is not there. */
static inline int64_t id_set_find(const id_set_t *set, uint64_t id) {
  uint32_t *slot;
  if (!set->ids.count) return -1;
  HASH_FIND(&set->index, hash_number(id), slot) {
    if (set->ids.items[*slot - 1] == id) return *slot - 1;
  }
  return -1;
}

static inline bool id_set_has(const id_set_t *set, uint64_t id) {
  return id_set_find(set, id) >= 0;
}

static inline void id_set_free(id_set_t *set) {
  free(set->ids.items);
  hash_free(&set->index);
  *set = (id_set_t){0};
}

#endif
