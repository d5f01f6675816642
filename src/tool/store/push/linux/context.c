/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "store/push/context.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report/exports/profile/otlp.pb-c.h"

enum { VERSION = 2, PAYLOAD_MAX = 64 * 1024, TRIES = 3, ATTRIBUTES_MAX = 256 };

static const char signature[8] = {'O', 'T', 'E', 'L', '_', 'C', 'T', 'X'};

/* As in the program's memory; 64-bit programs of this machine's byte order. */
typedef struct header {
  char signature[sizeof signature];
  uint32_t version, payload_size;
  uint64_t published_at_ns; /* 0: it is being changed */
  uint64_t payload;         /* its address */
} header_t;

/* ---- the message -------------------------------------------------------------------------- */

static bool add(push_target_t *t, const Sonde__Otlp__KeyValue *from) {
  char number[24];
  const char *text = NULL;
  if (!from->key || !*from->key || !from->value) return true;
  if (from->value->value_case == SONDE__OTLP__VALUE__VALUE_TEXT) text = from->value->text;
  if (from->value->value_case == SONDE__OTLP__VALUE__VALUE_NUMBER) {
    snprintf(number, sizeof number, "%" PRId64, from->value->number);
    text = number;
  }
  if (!text) return true;
  const push_label_t label = {pool_text(&t->context_pool, from->key),
                              pool_text(&t->context_pool, text)};
  push_label_t *added = label.name && label.value ? ARRAY_ADD(t->context) : NULL;
  if (added) *added = label;
  return added != NULL;
}

bool push_context_decode(push_target_t *t, const uint8_t *message, size_t size) {
  Sonde__Otlp__Resource *r = sonde__otlp__resource__unpack(NULL, size, message);
  if (!r) return false;
  pool_free(&t->context_pool);
  t->context_pool = (pool_t){0};
  t->context.count = 0;
  bool good = r->n_attributes <= ATTRIBUTES_MAX;
  for (size_t i = 0; good && i < r->n_attributes; i++)
    good = add(t, r->attributes[i]);
  sonde__otlp__resource__free_unpacked(r, NULL);
  return good;
}

/* ---- the program's memory ----------------------------------------------------------------- */

static bool read_at(int memory, uint64_t address, void *out, size_t size) {
  return address <= INT64_MAX && pread(memory, out, size, (off_t)address) == (ssize_t)size;
}

static bool is_valid(const header_t *h) {
  return !memcmp(h->signature, signature, sizeof signature) && h->version == VERSION &&
         h->payload_size <= PAYLOAD_MAX;
}

static bool read_mapping(push_target_t *t, int memory, uint64_t address) {
  static uint8_t payload[PAYLOAD_MAX];
  header_t before, after;
  for (int i = 0; i < TRIES; i++) {
    if (!read_at(memory, address, &before, sizeof before) || !is_valid(&before)) return false;
    if (!before.published_at_ns || !read_at(memory, before.payload, payload, before.payload_size) ||
        !read_at(memory, address, &after, sizeof after) ||
        memcmp(&before, &after, sizeof before) != 0)
      continue;
    return push_context_decode(t, payload, before.payload_size);
  }
  return false;
}

/* "7f…-7f… rw-p 00000000 00:01 1026 /memfd:OTEL_CTX (deleted)" */
static bool is_context(const char *line) {
  return strstr(line, "/memfd:OTEL_CTX") || strstr(line, "[anon_shmem:OTEL_CTX]") ||
         strstr(line, "[anon:OTEL_CTX]");
}

bool push_context_read(push_target_t *t, pid_t pid) {
  char path[48], *line = NULL;
  size_t capacity = 0;
  bool found = false;
  snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
  FILE *maps = fopen(path, "re");
  snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
  int memory = maps ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  while (memory >= 0 && !found && getline(&line, &capacity, maps) > 0)
    if (is_context(line)) found = read_mapping(t, memory, strtoull(line, NULL, 16));
  free(line);
  if (memory >= 0) close(memory);
  if (maps) fclose(maps);
  return found;
}
