/* SPDX-License-Identifier: MIT */
#include "sensor/malloc/sampled.h"

#include "capture/leveled_table.h"
#include "record/event.h"

#define BUCKET_BITS 14 /* log2 of the buckets of level 0 */
#define BUCKET      8

static uint64_t table[1u << BUCKET_BITS][BUCKET] __attribute__((aligned(64)));

HIDDEN uint8_t sampled_filter[1u << SAMPLED_FILTER_BITS];

/* The levels (capture/leveled_table.h). In level 0, each 64 KB of addresses have a bucket, so that
 * a program with few sampled blocks touches few pages. Each level has a filter. That of a larger
 * level counts how many addresses of a bucket are in this level or a larger one. So a level is read
 * only for addresses that did not fit before. */
static void *levels[LEVELED_MAX] = {table};
static void *filters[LEVELED_MAX] = {sampled_filter};

static unsigned bits_of(unsigned level) { return leveled_bits(BUCKET_BITS, level); }

static uint64_t index_at(unsigned level, uint64_t address) {
  if (level == 0) return sampled_near(address, 16, BUCKET_BITS);
  return leveled_hash(address >> 4) >> (64 - bits_of(level));
}

static uint64_t *bucket_at(unsigned level, uint64_t address) {
  return (uint64_t *)load_acquire(&levels[level]) + index_at(level, address) * BUCKET;
}

/* False if mapping fails. */
static bool make(unsigned level) {
  if (level == 0) return true;
  return leveled_map(&levels[level], bits_of(level), sizeof table[0]) &&
         leveled_map(&filters[level], bits_of(level), 1);
}

/* The count of ADDRESS in the filter of LEVEL, which exists. */
static uint8_t *count_at(unsigned level, uint64_t address) {
  if (level == 0) return sampled_count(address);
  return (uint8_t *)load_acquire(&filters[level]) + index_at(level, address);
}

static bool may_be_at(unsigned level, uint64_t address) {
  return load_acquire(&filters[level]) && load_relaxed(count_at(level, address)) != 0;
}

static void count(unsigned level, uint64_t address, int by) {
  uint8_t *place = count_at(level, address);
  uint8_t old = load_relaxed(place);
  do
    if (old == SAMPLED_FILTER_FULL) return;
  while (!cas_acq_rel(place, &old, (uint8_t)(old + by)));
}

/* ADDRESS no longer counts in the levels below END. */
static void discount(unsigned end, uint64_t address) {
  while (end-- > 0)
    count(end, address, -1);
}

static bool bucket_add(uint64_t *bucket, uint64_t address) {
  for (int i = 0; i < BUCKET; i++) {
    uint64_t none = 0;
    if (load_relaxed(&bucket[i]) == 0 && cas_acq_rel(&bucket[i], &none, address)) return true;
  }
  return false;
}

static ALWAYS_INLINE bool bucket_remove(uint64_t *bucket, uint64_t address) {
  for (int i = 0; i < BUCKET; i++) {
    uint64_t there = address;
    if (load_relaxed(&bucket[i]) == address && cas_acq_rel(&bucket[i], &there, (uint64_t)0))
      return true;
  }
  return false;
}

static bool add(uint64_t address) {
  unsigned level = 0;
  for (; level < LEVELED_MAX && make(level); level++) {
    count(level, address, 1); /* before a free can find it */
    if (bucket_add(bucket_at(level, address), address)) return true;
  }
  discount(level, address);
  return false;
}

static NOINLINE bool forget_in_larger_levels(uint64_t address) {
  for (unsigned level = 1; level < LEVELED_MAX && may_be_at(level, address); level++)
    if (bucket_remove(bucket_at(level, address), address)) {
      discount(level + 1, address);
      return true;
    }
  return false;
}

bool sampled_forget(uint64_t address) {
  if (!sampled_may_be(address)) return false;
  if (bucket_remove(table[index_at(0, address)], address)) {
    discount(1, address);
    return true;
  }
  return UNLIKELY(load_relaxed(&filters[1]) != NULL) && forget_in_larger_levels(address);
}

void sampled_restore(uint64_t address) { (void)add(address); }

/* x = m * 2^e with m in [0.7, 1.4]; ln m by the series of the inverse hyperbolic tangent. */
double sampled_log(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  int64_t exponent = (int64_t)(bits >> 52 & 0x7ff) - 1023;
  bits = (bits & UINT64_C(0xfffffffffffff)) | UINT64_C(0x3ff) << 52;
  double m;
  memcpy(&m, &bits, sizeof m);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    exponent++;
  }
  double t = (m - 1) / (m + 1), t2 = t * t;
  double series = 2 * t * (1 + t2 * (1.0 / 3 + t2 * (1.0 / 5 + t2 * (1.0 / 7 + t2 / 9))));
  return (double)exponent * 0.69314718055994531 + series;
}

static uint64_t next_random(uint64_t *state) {
  uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

/* Bytes to the next sampled one. */
static int64_t draw(writer_t *w) {
  double uniform = ((double)(next_random(&w->random) >> 11) + 1) / 9007199254740993.0;
  double distance = -sampled_log(uniform) * (double)w->sample_bytes;
  return distance < 4e18 ? (int64_t)distance + 1 : INT64_MAX;
}

static void begin(writer_t *w, uint64_t sample_bytes) {
  w->sample_bytes = sample_bytes;
  w->random = writer_now(w) ^ (uint64_t)w->tid << 32 ^ (uint64_t)(uintptr_t)w;
  w->until_sample = draw(w);
}

void sampled_prepare(writer_t *w) {
  /* The word first: the rate may be newer, but not older. */
  uint64_t word = load_acquire(&w->control->mode_word);
  uint64_t rate = load_relaxed(&w->control->sample_bytes);
  if (UNLIKELY(w->sample_bytes != rate)) begin(w, rate);
  w->sampled_as = (word & RECORD_ANY_BLOCKS) == RECORD_SAMPLED_BLOCKS ? word : 0;
}

bool sampled_choose(stream_t *s, uint64_t address, uint64_t size) {
  writer_t *w = s->writer;
  sampled_prepare(w);
  if (sampled_passes(w, size)) return false;
  w->until_sample = draw(w);
  if (!add(address)) {
    writer_lost_event(w->control);
    return false;
  }
  add_relaxed(&w->control->blocks_chosen, 1);
  return true;
}

/* 1 - e^-x for x >= 0, to about 1e-15: by the series near 0; otherwise e^-x is (e^-(x/64))^64. */
static double chance(double x) {
  bool near = x < 0.25;
  double y = near ? x : x / 64, term = y, sum = y;
  if (x > 40) return 1;
  for (int i = 2; i < 16; i++) {
    term *= -y / i;
    sum += term;
  }
  if (near) return sum;
  double power = 1 - sum;
  for (int i = 0; i < 6; i++)
    power *= power;
  return 1 - power;
}

uint64_t sampled_weight(uint64_t size, uint64_t sample_bytes) {
  double bytes = (double)(size ? size : 1);
  if (!sample_bytes) return size;
  return (uint64_t)(bytes / chance(bytes / (double)sample_bytes) + 0.5);
}
