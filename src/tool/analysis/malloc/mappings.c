/* SPDX-License-Identifier: MIT */
#include "analysis/malloc/mappings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/varint.h"
#include "reader/body.h"

/* Bytes of the text of a checkpoint. */
#define MAPS_MAX (64u << 20)

/* ---- the array ---------------------------------------------------------------------------- */

/* The index of the first mapping that ends after ADDRESS. */
static size_t first_after(const mappings_t *m, uint64_t address) {
  return ARRAY_SEARCH(m->count, i, m->items[i].end <= address);
}

static bool insert(mappings_t *m, size_t at, const mapped_range_t *range) {
  if (!ARRAY_GROW(m->items, m->count, m->capacity)) return false;
  memmove(m->items + at + 1, m->items + at, (m->count - at) * sizeof *m->items);
  m->items[at] = *range;
  m->count++;
  return true;
}

/* Unmaps [START, END). False when memory runs out. */
static bool unmap(mappings_t *m, uint64_t start, uint64_t end) {
  for (size_t i = first_after(m, start); i < m->count && m->items[i].start < end;) {
    mapped_range_t *range = &m->items[i];
    uint64_t from = range->start > start ? range->start : start,
             to = range->end < end ? range->end : end;
    m->bytes -= to - from;
    if (range->start < start && range->end > end) {
      mapped_range_t rest = *range;
      rest.start = end;
      range->end = start;
      return insert(m, i + 1, &rest);
    }
    if (range->start < start) {
      range->end = start;
      i++;
    } else if (range->end > end) {
      range->start = end;
      return true;
    } else {
      memmove(range, range + 1, (m->count - i - 1) * sizeof *range);
      m->count--;
    }
  }
  return true;
}

static stack_mappings_t *stack_of(mappings_t *m, uint32_t stack) {
  for (size_t i = m->stack_count; i-- > 0;)
    if (m->stacks[i].stack == stack) return &m->stacks[i];
  if (!ARRAY_GROW(m->stacks, m->stack_count, m->stack_capacity)) return NULL;
  m->stacks[m->stack_count] = (stack_mappings_t){.stack = stack};
  return &m->stacks[m->stack_count++];
}

/* Sets *OUT to the tag of the mapping of E, 0 if it has none. False when memory runs out. The text
 * of a mapping is the path of its file, or a tag in brackets. */
static bool tag_of(mappings_t *m, const record_event_t *e, uint32_t *out) {
  enum { NUMBERS_BEFORE_TEXT = 9 };
  const char *text;
  char tag[sizeof m->tags->tag];
  size_t size = body_text_after(e, NUMBERS_BEFORE_TEXT, &text);
  *out = 0;
  if (size < 2 || text[0] != '[' || text[size - 1] != ']') return true;
  snprintf(tag, sizeof tag, "%.*s", (int)size - 2, text + 1);
  for (*out = 1; *out <= m->tag_count; ++*out)
    if (!strcmp(m->tags[*out - 1].tag, tag)) return true;
  if (!ARRAY_GROW(m->tags, m->tag_count, m->tag_capacity)) return false;
  m->tags[m->tag_count] = (tag_mappings_t){0};
  memcpy(m->tags[m->tag_count++].tag, tag, sizeof tag);
  return true;
}

/* ---- events ------------------------------------------------------------------------------- */

enum { CALL, ADDRESS, SIZE, STACK, OLD_ADDRESS, OLD_SIZE, NUMBERS };

static uint64_t pages(uint64_t size) { return ALIGN_UP(size, UINT64_C(4096)); }

static bool add_mapping(mappings_t *m, const record_event_t *e, const uint64_t *n) {
  stack_mappings_t *s = stack_of(m, (uint32_t)n[STACK]);
  uint64_t size = pages(n[SIZE]), start = n[ADDRESS], end = start + size;
  mapped_range_t range = {start, end, e->time, 0, e->stream, 0};
  if (!s || !tag_of(m, e, &range.tag)) return false;
  if (end <= start) return true;
  range.stack = s->stack;
  s->calls++;
  s->bytes += size;
  if (range.tag) {
    m->tags[range.tag - 1].calls++;
    m->tags[range.tag - 1].bytes += size;
  }
  if (!unmap(m, start, end) || !insert(m, first_after(m, start), &range)) return false;
  m->bytes += size;
  if (m->bytes > m->peak_bytes) {
    m->peak_bytes = m->bytes;
    m->peak_time = e->time;
  }
  return true;
}

static bool add_call(mappings_t *m, const record_event_t *e) {
  uint64_t n[NUMBERS];
  if (!body_numbers(e, n, NUMBERS)) return true;
  switch (n[CALL]) {
  case MAPPING_CREATED: m->mapped++; return add_mapping(m, e, n);
  case MAPPING_REMOVED: m->unmapped++; return unmap(m, n[ADDRESS], n[ADDRESS] + pages(n[SIZE]));
  case MAPPING_MOVED:
    m->moved++;
    return unmap(m, n[OLD_ADDRESS], n[OLD_ADDRESS] + pages(n[OLD_SIZE])) && add_mapping(m, e, n);
  default: return true;
  }
}

static bool add_maps(mappings_t *m, const record_event_t *e) {
  const uint8_t *p = e->body, *end = p + e->body_size;
  uint64_t first = 0, size = 0;
  if (!varint_get(&p, end, &first) || !varint_get(&p, end, &size)) return true;
  if (size > (uint64_t)(end - p)) size = (uint64_t)(end - p);
  if (first) {
    m->maps_size = 0;
    m->checkpoints++;
    m->checkpoint_time = e->time;
  }
  if (m->maps_size + size > MAPS_MAX) return true;
  char *grown = realloc(m->maps, m->maps_size + size + 1);
  if (!grown) return false;
  m->maps = grown;
  memcpy(m->maps + m->maps_size, p, size);
  m->maps_size += size;
  m->maps[m->maps_size] = 0;
  return true;
}

bool mappings_event(mappings_t *m, const record_event_t *e) {
  if (e->kind != EVENT_EXTENDED) return true;
  if (e->subtype == EXTENDED_MAPPING) return add_call(m, e);
  return e->subtype != EXTENDED_MAPS || add_maps(m, e);
}

void mappings_free(mappings_t *m) {
  free(m->items);
  free(m->stacks);
  free(m->tags);
  free(m->maps);
  memset(m, 0, sizeof *m);
}

/* ---- results ------------------------------------------------------------------------------ */

static bool starts_with(const char *text, const char *with) {
  return !strncmp(text, with, strlen(with));
}

/* ACCESS is as in "r-xp". CODE: a part of the file is mapped executable. */
static mapping_kind_t kind_of(const char *path, const char *access, bool code) {
  if (!strcmp(path, "[heap]")) return MAPPING_KIND_HEAP;
  if (starts_with(path, "[stack")) return MAPPING_KIND_STACK;
  if (starts_with(path, "[anon")) return MAPPING_KIND_NAMED;
  if (path[0] == '[') return MAPPING_KIND_KERNEL;
  if (starts_with(path, "/memfd:sonde-")) return MAPPING_KIND_SONDE;
  if (starts_with(path, "/dev/shm/") || starts_with(path, "/memfd:") ||
      starts_with(path, "/SYSV") || starts_with(path, "/dev/zero"))
    return MAPPING_KIND_SHARED;
  if (path[0]) return code ? MAPPING_KIND_CODE : MAPPING_KIND_FILE;
  return access[3] == 's' ? MAPPING_KIND_SHARED : MAPPING_KIND_ANONYMOUS;
}

/* A line of /proc/PID/maps. */
typedef struct line {
  uint64_t start, end;
  char access[5];
  const char *path;
  size_t path_size;
} maps_line_t;

static const char *parse_line(const char *p, maps_line_t *out) {
  const char *end = strchr(p, '\n');
  int path_at = 0;
  unsigned long long from, to;
  *out = (maps_line_t){.path = ""};
  if (!end) end = p + strlen(p);
  if (sscanf(p, "%llx-%llx %4s %*x %*x:%*x %*u %n", &from, &to, out->access, &path_at) >= 3 &&
      path_at && strlen(out->access) == 4 && to > from) {
    out->start = from;
    out->end = to;
    if (p + path_at < end) {
      out->path = p + path_at;
      out->path_size = (size_t)(end - out->path);
    }
  }
  return *end ? end + 1 : end;
}

/* The bytes of [START, END) that recorded calls mapped. */
static uint64_t recorded_bytes(const mappings_t *m, uint64_t start, uint64_t end) {
  uint64_t known = 0;
  for (size_t i = first_after(m, start); i < m->count && m->items[i].start < end; i++) {
    uint64_t from = m->items[i].start > start ? m->items[i].start : start;
    known += (m->items[i].end < end ? m->items[i].end : end) - from;
  }
  return known;
}

/* Returns whether one of the consecutive lines of LINE's file is executable. */
static bool has_code(const char *text, const maps_line_t *line) {
  for (int i = 0; i < 8 && *text; i++) {
    maps_line_t other;
    text = parse_line(text, &other);
    if (other.path_size != line->path_size || memcmp(other.path, line->path, line->path_size))
      return false;
    if (other.access[2] == 'x') return true;
  }
  return false;
}

void mappings_kinds(const mappings_t *m, mapping_totals_t out[MAPPING_KINDS]) {
  memset(out, 0, MAPPING_KINDS * sizeof *out);
  bool last_code = false;
  char path[1024], last[1024] = "";
  for (const char *p = m->maps ? m->maps : ""; *p;) {
    maps_line_t line;
    const char *here = p;
    p = parse_line(p, &line);
    if (!line.end) continue;
    snprintf(path, sizeof path, "%.*s", (int)line.path_size, line.path);
    if (strcmp(path, last)) last_code = path[0] == '/' && has_code(here, &line);
    memcpy(last, path, sizeof last);
    mapping_totals_t *t = &out[kind_of(path, line.access, last_code)];
    t->count++;
    t->bytes += line.end - line.start;
    t->with_stack += recorded_bytes(m, line.start, line.end);
  }
}

static int by_live(const void *left, const void *right) {
  const stack_mappings_t *a = left, *b = right;
  if (a->live != b->live) return a->live < b->live ? 1 : -1;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
  return a->stack < b->stack ? -1 : a->stack > b->stack;
}

static int by_live_bytes(const void *left, const void *right) {
  const tag_mappings_t *a = left, *b = right;
  if (a->live != b->live) return a->live < b->live ? 1 : -1;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
  return strcmp(a->tag, b->tag);
}

void mappings_rank(mappings_t *m) {
  if (m->is_ranked) return;
  m->is_ranked = true;
  for (size_t i = 0; i < m->stack_count; i++)
    m->stacks[i].live = 0;
  for (size_t i = 0; i < m->count; i++) {
    const mapped_range_t *range = &m->items[i];
    stack_of(m, range->stack)->live += range->end - range->start;
    if (range->tag) m->tags[range->tag - 1].live += range->end - range->start;
  }
  if (m->tag_count) qsort(m->tags, m->tag_count, sizeof *m->tags, by_live_bytes);
  if (m->stack_count) qsort(m->stacks, m->stack_count, sizeof *m->stacks, by_live);
}
