/* SPDX-License-Identifier: MIT
 *
 * A block is added to the newest level or the one before it; if its buckets there are full, to a
 * new level. A look-up goes from the newest level to older ones. So short-lived blocks stay in the
 * two newest levels, and blocks added while the table was small stay in their level.
 *
 * The level is predicted first: a byte for every 256 bytes of the program's memory records the
 * level of the last block added there. Neighboring blocks usually have one age, and the predictions
 * of 16 KB of heap share a cache line. So a free touches that line and the bucket, instead of a
 * cold bucket per newer level. A wrong prediction, or one shared with another address, costs
 * reading as many buckets per level as the level has ever used for a block. That number is one
 * until the level fills up.
 *
 * The memory of a level is populated 2 MB at a time, when an entry in it is first used. So lack of
 * memory is an error code and never a SIGBUS, and a stall is short.
 */
#include "sensor/malloc/live.h"

#define PIECE_BYTES   (UINT64_C(2) << 20)
#define PIECE_BUCKETS (PIECE_BYTES / sizeof(live_bucket_t))
#define PIECES        (8192u + LIVE_LEVELS) /* of all levels */

/* For a heap of 256 MB; addresses of a larger heap share predictions. */
#define PREDICTIONS (UINT64_C(1) << 20)

static live_bucket_t *levels[LIVE_LEVELS];
static uint8_t *predictions;   /* level + 1; 0: none */
static uint8_t pieces[PIECES]; /* 1: its memory is populated */
/* How many of the possible buckets of a block were ever used. */
static uint8_t choices[LIVE_LEVELS];

void live_table_forget(void) {
  memset(levels, 0, sizeof levels);
  memset(pieces, 0, sizeof pieces);
  memset(choices, 0, sizeof choices);
}

void live_table_unmap(void) {
  for (uint32_t level = 0; level < LIVE_LEVELS; level++)
    if (levels[level]) os_unmap(levels[level], live_level_bytes(level));
  live_table_forget();
}

static live_bucket_t *map_level(const shm_control_t *c, uint32_t level) {
  int fd = writer_open_of_recorder(c, c->live_fd);
  if (fd < 0) return NULL;
  uint64_t size = live_level_bytes(level);
  live_bucket_t *map = os_map_shared(fd, live_level_offset(level), size), *there = NULL;
  os_close(fd);
  if (!map) return NULL;
  if (os_hide_from_fork(map, size) && cas_acq_rel(&levels[level], &there, map)) return map;
  os_unmap(map, size);
  return there;
}

/* The flag of the 2 MB that contain bucket INDEX of LEVEL. Small levels have one flag; flags are
 * ordered by level. */
static uint8_t *piece_of(uint32_t level, uint64_t index) {
  return &pieces[level + (live_level_offset(level) / PIECE_BYTES) + index / PIECE_BUCKETS];
}

static bool populate(live_bucket_t *map, uint32_t level, uint64_t index) {
  uint64_t bytes = live_level_bytes(level), at = ALIGN_DOWN(index, PIECE_BUCKETS);
  return os_populate(map + at, bytes < PIECE_BYTES ? bytes : PIECE_BYTES);
}

/* NULL if its memory is not populated and, with MAKE, cannot be. */
static ALWAYS_INLINE live_bucket_t *bucket_of(const shm_control_t *c, uint64_t address,
                                              uint32_t level, unsigned choice, bool make) {
  live_bucket_t *map = load_acquire(&levels[level]);
  uint64_t index = live_bucket_index(address, level, choice);
  uint8_t *piece = piece_of(level, index);
  if (LIKELY(load_acquire(piece))) return &map[index];
  if (!make || (!map && !(map = map_level(c, level))) || !populate(map, level, index)) return NULL;
  store_release(piece, (uint8_t)1);
  return &map[index];
}

static bool bucket_add(live_bucket_t *bucket, uint64_t address, const live_detail_t *block) {
  for (unsigned i = 0; bucket && i < LIVE_BUCKET; i++) {
    uint64_t none = 0;
    if (load_relaxed(&bucket->address[i]) ||
        !cas_acq_rel(&bucket->address[i], &none, address | LIVE_RESERVED))
      continue;
    bucket->detail[i] = *block;
    store_release(&bucket->address[i], address);
    return true;
  }
  return false;
}

/* A block of LEVEL is added to its bucket number CHOICE: look-ups must read that far. */
static void reach_choice(uint32_t level, unsigned choice) {
  uint8_t reached = load_relaxed(&choices[level]);
  while (UNLIKELY(reached <= choice))
    if (cas_acq_rel(&choices[level], &reached, (uint8_t)(choice + 1))) return;
}

static bool put_at_level(const shm_control_t *c, uint32_t level, uint64_t address,
                         const live_detail_t *block) {
  for (unsigned choice = 0; choice < LIVE_CHOICES; choice++) {
    reach_choice(level, choice); /* before the block can be looked up */
    if (bucket_add(bucket_of(c, address, level, choice, true), address, block)) return true;
  }
  return false;
}

/* NULL without memory; then nothing is predicted. */
static uint8_t *prediction_of(uint64_t address) {
  uint8_t *all = load_acquire(&predictions), *none = NULL;
  if (UNLIKELY(!all)) {
    if (!(all = os_map(PREDICTIONS))) return NULL;
    if (!cas_acq_rel(&predictions, &none, all)) {
      os_unmap(all, PREDICTIONS);
      all = none;
    }
  }
  return &all[(address >> 8) % PREDICTIONS];
}

static void set_prediction(uint64_t address, uint32_t level) {
  uint8_t *prediction = prediction_of(address);
  if (prediction && load_relaxed(prediction) != level + 1)
    store_relaxed(prediction, (uint8_t)(level + 1));
}

#if defined(SONDE_DEBUG)
/* Each level is mapped before `live_levels` counts it, an entry's bucket is one that look-ups read,
 * and a prediction names a level. */
static bool live_table_is_valid(const shm_control_t *c, uint64_t address, uint32_t level) {
  uint32_t count = load_acquire(&c->live_levels);
  const uint8_t *prediction = prediction_of(address);
  return level < count && count <= LIVE_LEVELS && load_acquire(&levels[level]) &&
         load_relaxed(&choices[level]) && load_relaxed(&choices[level]) <= LIVE_CHOICES &&
         (!prediction || load_relaxed(prediction) <= LIVE_LEVELS);
}
#endif

void live_table_prefetch(const shm_control_t *c, uint64_t address) {
  uint32_t count = load_relaxed(&c->live_levels);
  live_bucket_t *bucket = count ? bucket_of(c, address, count - 1, 0, false) : NULL;
  if (bucket) __builtin_prefetch(bucket, 1);
}

bool live_table_put(shm_control_t *c, uint64_t address, const live_detail_t *block) {
  for (;;) {
    uint32_t count = load_acquire(&c->live_levels);
    for (uint32_t level = count; level-- > 0 && level + 2 >= count;)
      if (put_at_level(c, level, address, block)) {
        set_prediction(address, level);
        SONDE_ASSERT(live_table_is_valid(c, address, level));
        return true;
      }
    if (count == LIVE_LEVELS) return false;
    /* Its memory first: a level without memory is useless. */
    if (!bucket_of(c, address, count, 0, true)) return false;
    cas_acq_rel(&c->live_levels, &count, count + 1);
  }
}

static uint64_t *entry_in(live_bucket_t *bucket, uint64_t address) {
  for (unsigned i = 0; bucket && i < LIVE_BUCKET; i++)
    if (load_relaxed(&bucket->address[i]) == address) return &bucket->address[i];
  return NULL;
}

static live_bucket_t *find_at_level(const shm_control_t *c, uint64_t address, uint32_t level,
                                    uint64_t **entry) {
  for (unsigned choice = 0; choice < load_relaxed(&choices[level]); choice++) {
    live_bucket_t *bucket = bucket_of(c, address, level, choice, false);
    if ((*entry = entry_in(bucket, address))) return bucket;
  }
  return NULL;
}

static live_bucket_t *find_bucket(const shm_control_t *c, uint64_t address, uint64_t **entry) {
  uint32_t count = load_acquire(&c->live_levels);
  const uint8_t *prediction = prediction_of(address);
  uint32_t predicted = prediction ? load_relaxed(prediction) : 0; /* its level + 1 */
  live_bucket_t *bucket;
  if (predicted && predicted <= count && (bucket = find_at_level(c, address, predicted - 1, entry)))
    return bucket;
  for (uint32_t level = count; level-- > 0;)
    if (level + 1 != predicted && (bucket = find_at_level(c, address, level, entry))) return bucket;
  return NULL;
}

bool live_table_take(shm_control_t *c, uint64_t address, live_detail_t *out) {
  uint64_t *entry;
  live_bucket_t *bucket = find_bucket(c, address, &entry);
  if (!bucket) return false;
  if (out) *out = bucket->detail[entry - bucket->address];
  store_release(entry, (uint64_t)0);
  return true;
}

/* Copies an entry; false if it changes during the copy. */
static bool read_entry(const live_bucket_t *bucket, unsigned i, uint64_t *address,
                       live_detail_t *out) {
  *address = load_acquire(&bucket->address[i]);
  if (!*address || *address & LIVE_RESERVED) return false;
  *out = bucket->detail[i];
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  return load_relaxed(&bucket->address[i]) == *address;
}

void live_table_each(shm_control_t *c, live_visit_t *visit, void *context) {
  for (uint32_t level = 0; level < load_acquire(&c->live_levels); level++) {
    const live_bucket_t *map = load_acquire(&levels[level]);
    uint64_t count = live_level_bytes(level) / sizeof *map, address;
    live_detail_t block;
    for (uint64_t b = 0; map && b < count; b++) {
      if (!load_acquire(piece_of(level, b))) {
        b = ALIGN_DOWN(b, PIECE_BUCKETS) + PIECE_BUCKETS - 1;
        continue;
      }
      for (unsigned i = 0; i < LIVE_BUCKET; i++)
        if (read_entry(&map[b], i, &address, &block) && !visit(context, address, &block)) return;
    }
  }
}

typedef struct search {
  uint64_t address, start;
  live_detail_t block;
} address_search_t;

static bool visit_search(void *context, uint64_t start, const live_detail_t *block) {
  address_search_t *s = context;
  if (s->address - start >= block->size) return true;
  s->start = start;
  s->block = *block;
  return false;
}

bool live_table_find(shm_control_t *c, uint64_t address, uint64_t *start, live_detail_t *out) {
  uint64_t *entry, found;
  live_bucket_t *bucket = find_bucket(c, address, &entry);
  address_search_t s = {.address = address};
  if (bucket && read_entry(bucket, (unsigned)(entry - bucket->address), &found, &s.block))
    s.start = found == address ? address : 0;
  if (!s.start) live_table_each(c, visit_search, &s);
  *start = s.start;
  *out = s.block;
  return s.start != 0;
}

static bool take_visited(void *context, uint64_t address, const live_detail_t *block) {
  (void)block;
  (void)live_table_take(context, address, NULL);
  return true;
}

void live_table_empty(shm_control_t *c) { live_table_each(c, take_visited, c); }
