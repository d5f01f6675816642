/* SPDX-License-Identifier: MIT
 *
 * A hash table in shards, each with a lock, a ring and a hand (second chance): an answer that was
 * found since the hand passed last is passed over once more. Answers are counted, so that one in
 * use outlives its place in the table. Locks are held for a search of one short chain.
 */
#include "symbol/name_table.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"

#define SHARDS  16
#define BUCKETS 1024 /* of a shard */

typedef struct entry {
  table_answer_t answer; /* first: an answer is its entry */
  uint64_t stack;
  struct entry *next;           /* in the bucket */
  struct entry *before, *after; /* in the ring */
  size_t bytes;
  const uint32_t *images;
  int image_count;
  uint32_t references; /* the table's own is one */
  bool found;          /* since the hand passed */
} entry_t;

typedef struct shard {
  pthread_mutex_t lock;
  entry_t *buckets[BUCKETS];
  entry_t *hand;
  size_t bytes;
} shard_t;

struct name_table {
  size_t shard_bytes_max;
  uint64_t epoch;
  shard_t shards[SHARDS];
};

name_table_t *name_table_new(size_t bytes_max) {
  name_table_t *table = calloc(1, sizeof *table);
  if (!table) return NULL;
  table->shard_bytes_max = bytes_max / SHARDS;
  for (int i = 0; i < SHARDS; i++)
    pthread_mutex_init(&table->shards[i].lock, NULL);
  return table;
}

static uint64_t mix(uint64_t stack) {
  stack *= 0x9e3779b97f4a7c15u;
  return stack ^ stack >> 32;
}

static shard_t *shard_of(name_table_t *table, uint64_t stack) {
  return &table->shards[mix(stack) % SHARDS];
}

static entry_t **place_of(shard_t *shard, uint64_t stack) {
  entry_t **place = &shard->buckets[mix(stack) / SHARDS % BUCKETS];
  while (*place && (*place)->stack != stack)
    place = &(*place)->next;
  return place;
}

void name_table_release(const table_answer_t *answer) {
  entry_t *entry = (entry_t *)(uintptr_t)answer;
  if (entry && __atomic_sub_fetch(&entry->references, 1, __ATOMIC_ACQ_REL) == 0) free(entry);
}

/* Takes the entry at PLACE out of the table. The shard is locked. */
static void take_out(shard_t *shard, entry_t **place) {
  entry_t *entry = *place;
  *place = entry->next;
  if (shard->hand == entry) shard->hand = entry->after == entry ? NULL : entry->after;
  entry->before->after = entry->after;
  entry->after->before = entry->before;
  shard->bytes -= entry->bytes;
  name_table_release(&entry->answer);
}

static void make_room(shard_t *shard, size_t bytes, size_t bytes_max) {
  while (shard->hand && shard->bytes + bytes > bytes_max) {
    entry_t *entry = shard->hand;
    shard->hand = entry->after;
    if (entry->found) {
      entry->found = false;
      continue;
    }
    entry_t **place = place_of(shard, entry->stack);
    assert(*place == entry); /* the ring holds what the buckets hold */
    take_out(shard, place);
  }
}

const table_answer_t *name_table_find(name_table_t *table, uint64_t stack) {
  shard_t *shard = shard_of(table, stack);
  pthread_mutex_lock(&shard->lock);
  entry_t *entry = *place_of(shard, stack);
  if (entry) {
    entry->found = true;
    add_relaxed(&entry->references, 1);
  }
  pthread_mutex_unlock(&shard->lock);
  return entry ? &entry->answer : NULL;
}

uint64_t name_table_epoch(name_table_t *table) { return load_acquire(&table->epoch); }

/* ---- adding ------------------------------------------------------------------------------- */

static size_t text_size(const char *text) { return text ? strlen(text) + 1 : 0; }

static const char *keep_text(const char *text, char **at) {
  if (!text) return NULL;
  char *kept = *at;
  *at = stpcpy(kept, text) + 1;
  return kept;
}

/* One block: the entry, its frames, its images, their strings. */
static entry_t *new_entry(uint64_t stack, const symbol_frame_t *frames, int count,
                          const uint32_t *images, int image_count) {
  size_t frames_at = ALIGN_UP(sizeof(entry_t), _Alignof(symbol_frame_t));
  size_t images_at = frames_at + (size_t)count * sizeof *frames;
  size_t bytes = images_at + (size_t)image_count * sizeof *images;
  char *at = NULL;
  size_t texts_at = bytes;
  for (int i = 0; i < count; i++)
    bytes += text_size(frames[i].function) + text_size(frames[i].raw) + text_size(frames[i].file);
  char *block = malloc(bytes);
  if (!block) return NULL;
  entry_t *entry = (entry_t *)(void *)block;
  symbol_frame_t *kept = (symbol_frame_t *)(void *)(block + frames_at);
  *entry = (entry_t){.answer = {kept, count},
                     .stack = stack,
                     .bytes = bytes,
                     .references = 1,
                     .images = (const uint32_t *)(void *)(block + images_at),
                     .image_count = image_count};
  if (image_count) memcpy(block + images_at, images, (size_t)image_count * sizeof *images);
  at = block + texts_at;
  for (int i = 0; i < count; i++) {
    kept[i] = frames[i];
    kept[i].function = keep_text(frames[i].function, &at);
    kept[i].raw = keep_text(frames[i].raw, &at);
    kept[i].file = keep_text(frames[i].file, &at);
  }
  return entry;
}

static void put_in(shard_t *shard, entry_t **place, entry_t *entry) {
  *place = entry;
  if (!shard->hand) shard->hand = entry->before = entry->after = entry;
  entry->before = shard->hand->before; /* just behind the hand: it comes here last */
  entry->after = shard->hand;
  entry->before->after = entry;
  entry->after->before = entry;
  shard->bytes += entry->bytes;
}

bool name_table_add(name_table_t *table, uint64_t epoch, uint64_t stack,
                    const symbol_frame_t *frames, int count, const uint32_t *images,
                    int image_count) {
  shard_t *shard = shard_of(table, stack);
  entry_t *entry = new_entry(stack, frames, count, images, image_count);
  if (!entry) return false;
  bool kept = false;
  pthread_mutex_lock(&shard->lock);
  if (entry->bytes <= table->shard_bytes_max && load_acquire(&table->epoch) == epoch) {
    entry_t **place = place_of(shard, stack);
    if (*place) take_out(shard, place);
    make_room(shard, entry->bytes, table->shard_bytes_max);
    put_in(shard, place_of(shard, stack), entry);
    kept = true;
  }
  pthread_mutex_unlock(&shard->lock);
  if (!kept) free(entry);
  return kept;
}

/* ---- dropping ----------------------------------------------------------------------------- */

static bool passes_through(const entry_t *entry, uint32_t image) {
  for (int i = 0; i < entry->image_count; i++)
    if (entry->images[i] == image) return true;
  return false;
}

/* The epoch changes first: whoever adds later with the old one finds that out under the lock. */
void name_table_drop(name_table_t *table, uint32_t image) {
  __atomic_add_fetch(&table->epoch, 1, __ATOMIC_ACQ_REL);
  for (int i = 0; i < SHARDS; i++) {
    shard_t *shard = &table->shards[i];
    pthread_mutex_lock(&shard->lock);
    for (int k = 0; k < BUCKETS; k++)
      for (entry_t **place = &shard->buckets[k]; *place;)
        if (passes_through(*place, image))
          take_out(shard, place);
        else
          place = &(*place)->next;
    pthread_mutex_unlock(&shard->lock);
  }
}

size_t name_table_bytes(name_table_t *table) {
  size_t bytes = 0;
  for (int i = 0; i < SHARDS; i++) {
    pthread_mutex_lock(&table->shards[i].lock);
    bytes += table->shards[i].bytes;
    pthread_mutex_unlock(&table->shards[i].lock);
  }
  return bytes;
}

void name_table_free(name_table_t *table) {
  if (!table) return;
  for (int i = 0; i < SHARDS; i++) {
    for (int k = 0; k < BUCKETS; k++)
      while (table->shards[i].buckets[k])
        take_out(&table->shards[i], &table->shards[i].buckets[k]);
    pthread_mutex_destroy(&table->shards[i].lock);
  }
  free(table);
}
