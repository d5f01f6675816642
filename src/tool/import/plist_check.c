/* SPDX-License-Identifier: MIT
 *
 * Binary property lists, as written by CFBinaryPList.c of Apple's published CoreFoundation:
 * "bplist00", objects, a table of the objects' offsets, a trailer of 32 bytes. An object begins
 * with a byte of kind and size; an array, a set or a dictionary contains numbers of other objects.
 * In XML, which has no references, the tags are counted. See plist_check.h.
 */
#include "import/plist_check.h"

#include <stdlib.h>
#include <string.h>

/* Nodes of the tree; libplist uses about 110 bytes for each. */
#define NODES_MAX (1u << 20)

/* libplist compares every node with all nodes around it. */
#define DEPTH_MAX 64u

/* Bytes that strings with several references may add. */
#define SPARE_BYTES ((uint64_t)64 << 20)

#define TRAILER_SIZE 32u

static const char *const damaged = "the property list is damaged or truncated";
static const char *const too_large =
    "the property list is nested too deeply, has a cycle, or refers to its objects too often";

bool plist_is(const uint8_t *data, uint64_t size) {
  static const char *const beginnings[] = {"bplist00", "<?xml", "<!DOCTYPE plist", "<plist"};
  for (unsigned i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
    if (size >= strlen(beginnings[i]) && !memcmp(data, beginnings[i], strlen(beginnings[i])))
      return true;
  return false;
}

/* ---- binary ------------------------------------------------------------------------------- */

typedef struct plist_object {
  uint32_t nodes; /* of the tree below it, with itself; 0: not yet known */
  uint16_t depth;
  bool is_open;   /* being counted: another reference to it is a cycle */
  uint64_t bytes; /* of the strings and data below it */
} plist_object_t;

typedef struct plist_objects {
  const uint8_t *data;
  uint64_t end; /* of the objects: where the table of offsets begins */
  unsigned offset_size, reference_size;
  uint64_t count;
  plist_object_t *objects;
} plist_objects_t;

/* One object: its references to others, or the bytes it takes. */
typedef struct content {
  uint64_t references, reference_count, bytes;
} content_t;

typedef struct step {
  uint64_t object, next;
  content_t content;
} step_t;

static uint64_t big_endian(const uint8_t *at, unsigned size) {
  uint64_t value = 0;
  for (unsigned i = 0; i < size; i++)
    value = value << 8 | at[i];
  return value;
}

static bool read_trailer(plist_objects_t *list, const uint8_t *data, uint64_t size, uint64_t *top) {
  if (size < 8 + TRAILER_SIZE + 2) return false;
  const uint8_t *trailer = data + size - TRAILER_SIZE;
  *list = (plist_objects_t){.data = data,
                            .end = big_endian(trailer + 24, 8),
                            .offset_size = trailer[6],
                            .reference_size = trailer[7],
                            .count = big_endian(trailer + 8, 8)};
  *top = big_endian(trailer + 16, 8);
  uint64_t table_end = size - TRAILER_SIZE;
  if (list->offset_size < 1 || list->offset_size > 8 || list->reference_size < 1 ||
      list->reference_size > 8 || list->end < 9 || list->end > table_end)
    return false;
  return list->count > *top && list->count <= (table_end - list->end) / list->offset_size;
}

/* Reads the size after the first byte if it does not fit in that byte's four bits. */
static bool read_size(const plist_objects_t *list, uint64_t *at, uint64_t *size) {
  if (*size != 15) return true;
  if (*at >= list->end || list->data[*at] >> 4 != 1 || (list->data[*at] & 15) > 3) return false;
  unsigned bytes = 1u << (list->data[*at] & 15);
  if (list->end - *at <= bytes) return false;
  *size = big_endian(list->data + *at + 1, bytes);
  *at += 1 + bytes;
  return true;
}

static bool read_object(const plist_objects_t *list, uint64_t number, content_t *out) {
  uint64_t at = big_endian(list->data + list->end + number * list->offset_size, list->offset_size);
  if (at < 8 || at >= list->end) return false;
  unsigned kind = list->data[at] >> 4;
  uint64_t size = list->data[at++] & 15, width = 1;
  *out = (content_t){0};
  switch (kind) {
  case 0: return size == 0 || size == 8 || size == 9;
  case 1: /* numbers, dates, UIDs: two to the size bytes; a UID has one more than its size */
  case 2:
  case 3: size = size > 4 ? UINT64_MAX : (uint64_t)1 << size; break;
  case 8: size += 1; break;
  case 6: width = 2; /* UTF-16 */ /* fall through */
  case 4:
  case 5:
    if (!read_size(list, &at, &size)) return false;
    out->bytes = size;
    break;
  case 13: width = 2; /* keys, then values */ /* fall through */
  case 10:
  case 12:
    if (!read_size(list, &at, &size)) return false;
    width *= list->reference_size;
    out->references = at;
    out->reference_count = size * (kind == 13 ? 2 : 1);
    break;
  default: return false;
  }
  return size <= (list->end - at) / width;
}

/* Counts the tree below the objects of the steps, depth first, until a sum is too large. */
static const char *count_tree(const plist_objects_t *list, step_t *steps, uint64_t most_bytes) {
  unsigned depth = 1;
  while (depth) {
    step_t *step = &steps[depth - 1];
    plist_object_t *object = &list->objects[step->object];
    if (step->next == step->content.reference_count) {
      object->is_open = false;
      depth--;
      continue;
    }
    uint64_t child =
        big_endian(list->data + step->content.references + step->next * list->reference_size,
                   list->reference_size);
    if (child >= list->count) return damaged;
    plist_object_t *below = &list->objects[child];
    if (below->is_open) return too_large;
    if (below->nodes) { /* already counted */
      step->next++;
      object->nodes += below->nodes;
      object->bytes += below->bytes;
      if (object->depth <= below->depth) object->depth = (uint16_t)(below->depth + 1);
      if (object->nodes > NODES_MAX || object->bytes > most_bytes ||
          object->depth + depth > DEPTH_MAX)
        return too_large;
      continue;
    }
    steps[depth] = (step_t){.object = child};
    if (!read_object(list, child, &steps[depth].content)) return damaged;
    *below = (plist_object_t){.nodes = 1, .is_open = true, .bytes = steps[depth].content.bytes};
    if (++depth == DEPTH_MAX) return too_large;
  }
  return NULL;
}

static const char *check_binary(const uint8_t *data, uint64_t size, uint64_t *nodes) {
  plist_objects_t list;
  step_t steps[DEPTH_MAX + 1] = {{0}};
  if (!read_trailer(&list, data, size, &steps[0].object)) return damaged;
  if (!read_object(&list, steps[0].object, &steps[0].content)) return damaged;
  list.objects = calloc(list.count, sizeof *list.objects);
  if (!list.objects) return "out of memory";
  list.objects[steps[0].object] =
      (plist_object_t){.nodes = 1, .is_open = true, .bytes = steps[0].content.bytes};
  const char *wrong = count_tree(&list, steps, 2 * size + SPARE_BYTES);
  *nodes = list.objects[steps[0].object].nodes;
  free(list.objects);
  return wrong;
}

/* ---- XML ---------------------------------------------------------------------------------- */

static bool names_container(const uint8_t *tag, uint64_t capacity) {
  return (capacity > 4 && !memcmp(tag, "dict", 4)) || (capacity > 5 && !memcmp(tag, "array", 5));
}

static const char *check_xml(const uint8_t *data, uint64_t size, uint64_t *nodes) {
  unsigned depth = 0;
  const uint8_t *end = data + size, *at = data;
  while ((at = memchr(at, '<', (size_t)(end - at))) != NULL) {
    bool closes = ++at < end && *at == '/';
    if (closes) at++;
    if (!closes && ++*nodes > NODES_MAX) return too_large;
    if (!names_container(at, (uint64_t)(end - at))) continue;
    if (closes) depth -= depth > 0;
    if (!closes && ++depth > DEPTH_MAX) return too_large;
  }
  return NULL;
}

const char *plist_check(const uint8_t *data, uint64_t size, uint64_t *budget) {
  if (size > UINT32_MAX) return "the property list is larger than 4 GB";
  uint64_t nodes = 0;
  bool is_binary = size >= 8 && !memcmp(data, "bplist00", 8);
  const char *wrong = is_binary ? check_binary(data, size, &nodes) : check_xml(data, size, &nodes);
  if (!wrong && nodes > *budget) wrong = too_large;
  if (!wrong) *budget -= nodes;
  return wrong;
}
