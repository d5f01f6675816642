/* SPDX-License-Identifier: MIT */
#include "analysis/malloc/mappings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/varint.h"

#define MAPS_MAX (64u << 20) /* of the text of a checkpoint */

/* ---- the array ---------------------------------------------------------------------------- */

/* The first region that ends behind ADDRESS. */
static size_t first_behind(const mappings_t *r, uint64_t address) {
  size_t low = 0, high = r->count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (r->items[middle].end > address)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

static bool insert(mappings_t *r, size_t at, const mapped_range_t *region) {
  if (r->count == r->room) {
    size_t room = r->room ? 2 * r->room : 64;
    mapped_range_t *grown = realloc(r->items, room * sizeof *grown);
    if (!grown) return false;
    r->items = grown;
    r->room = room;
  }
  memmove(r->items + at + 1, r->items + at, (r->count - at) * sizeof *r->items);
  r->items[at] = *region;
  r->count++;
  return true;
}

/* Takes [START, END) away from whatever lies there. */
static bool carve(mappings_t *r, uint64_t start, uint64_t end) {
  for (size_t i = first_behind(r, start); i < r->count && r->items[i].start < end;) {
    mapped_range_t *m = &r->items[i];
    uint64_t from = m->start > start ? m->start : start, to = m->end < end ? m->end : end;
    r->bytes -= to - from;
    if (m->start < start && m->end > end) {
      mapped_range_t rest = *m;
      rest.start = end;
      m->end = start;
      return insert(r, i + 1, &rest);
    }
    if (m->start < start) {
      m->end = start;
      i++;
    } else if (m->end > end) {
      m->start = end;
      return true;
    } else {
      memmove(m, m + 1, (r->count - i - 1) * sizeof *m);
      r->count--;
    }
  }
  return true;
}

static stack_mappings_t *stack_of(mappings_t *r, uint32_t stack) {
  for (size_t i = r->stack_count; i-- > 0;)
    if (r->stacks[i].stack == stack) return &r->stacks[i];
  if (r->stack_count == r->stack_room) {
    size_t room = r->stack_room ? 2 * r->stack_room : 64;
    stack_mappings_t *grown = realloc(r->stacks, room * sizeof *grown);
    if (!grown) return NULL;
    r->stacks = grown;
    r->stack_room = room;
  }
  r->stacks[r->stack_count] = (stack_mappings_t){.stack = stack};
  return &r->stacks[r->stack_count++];
}

/* ---- events ------------------------------------------------------------------------------- */

enum { CALL, ADDRESS, SIZE, STACK, OLD_ADDRESS, OLD_SIZE, NUMBERS };

static uint64_t pages(uint64_t size) { return ALIGN_UP(size, UINT64_C(4096)); }

static bool add(mappings_t *r, const record_event_t *e, const uint64_t *n) {
  stack_mappings_t *s = stack_of(r, (uint32_t)n[STACK]);
  uint64_t size = pages(n[SIZE]), start = n[ADDRESS], end = start + size;
  if (!s) return false;
  if (end <= start) return true;
  s->calls++;
  s->bytes += size;
  const mapped_range_t m = {start, end, e->time, s->stack, e->stream};
  if (!carve(r, start, end) || !insert(r, first_behind(r, start), &m)) return false;
  r->bytes += size;
  if (r->bytes > r->peak_bytes) {
    r->peak_bytes = r->bytes;
    r->peak_time = e->time;
  }
  return true;
}

static bool take_call(mappings_t *r, const record_event_t *e) {
  uint64_t n[NUMBERS];
  if (!record_numbers(e, n, NUMBERS)) return true;
  switch (n[CALL]) {
  case MAPPING_CREATED: r->mapped++; return add(r, e, n);
  case MAPPING_REMOVED: r->unmapped++; return carve(r, n[ADDRESS], n[ADDRESS] + pages(n[SIZE]));
  case MAPPING_MOVED:
    r->moved++;
    return carve(r, n[OLD_ADDRESS], n[OLD_ADDRESS] + pages(n[OLD_SIZE])) && add(r, e, n);
  default: return true;
  }
}

static bool take_maps(mappings_t *r, const record_event_t *e) {
  const uint8_t *p = e->body, *end = p + e->body_size;
  uint64_t first = 0, size = 0;
  if (!varint_get(&p, end, &first) || !varint_get(&p, end, &size)) return true;
  if (size > (uint64_t)(end - p)) size = (uint64_t)(end - p);
  if (first) {
    r->maps_size = 0;
    r->checkpoints++;
    r->checkpoint_time = e->time;
  }
  if (r->maps_size + size > MAPS_MAX) return true;
  char *grown = realloc(r->maps, r->maps_size + size + 1);
  if (!grown) return false;
  r->maps = grown;
  memcpy(r->maps + r->maps_size, p, size);
  r->maps_size += size;
  r->maps[r->maps_size] = 0;
  return true;
}

bool mappings_event(mappings_t *r, const record_event_t *e) {
  if (e->kind != EVENT_EXTENDED) return true;
  if (e->subtype == EXTENDED_MAPPING) return take_call(r, e);
  return e->subtype != EXTENDED_MAPS || take_maps(r, e);
}

void mappings_free(mappings_t *r) {
  free(r->items);
  free(r->stacks);
  free(r->maps);
  memset(r, 0, sizeof *r);
}

/* ---- asking ------------------------------------------------------------------------------- */

static bool begins(const char *text, const char *with) {
  return !strncmp(text, with, strlen(with));
}

/* ACCESS is "rwxp"; CODE tells that some part of the file is mapped to be executed. */
static mapping_kind_t kind_of(const char *path, const char *access, bool code) {
  if (!strcmp(path, "[heap]")) return MAPPING_KIND_HEAP;
  if (begins(path, "[stack")) return MAPPING_KIND_STACK;
  if (begins(path, "[anon")) return MAPPING_KIND_NAMED;
  if (path[0] == '[') return MAPPING_KIND_KERNEL;
  if (begins(path, "/memfd:sonde-")) return MAPPING_KIND_SONDE;
  if (begins(path, "/dev/shm/") || begins(path, "/memfd:") || begins(path, "/SYSV") ||
      begins(path, "/dev/zero"))
    return MAPPING_KIND_SHARED;
  if (path[0]) return code ? MAPPING_KIND_CODE : MAPPING_KIND_FILE;
  return access[3] == 's' ? MAPPING_KIND_SHARED : MAPPING_KIND_ANONYMOUS;
}

typedef struct line {
  uint64_t start, end;
  char access[5];
  const char *path;
  size_t path_size;
} line_t;

static const char *parse_line(const char *p, line_t *out) {
  const char *end = strchr(p, '\n');
  int path_at = 0;
  unsigned long long from, to;
  *out = (line_t){.path = ""};
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

/* How much of [START, END) recorded calls have mapped. */
static uint64_t known_of(const mappings_t *r, uint64_t start, uint64_t end) {
  uint64_t known = 0;
  for (size_t i = first_behind(r, start); i < r->count && r->items[i].start < end; i++) {
    uint64_t from = r->items[i].start > start ? r->items[i].start : start;
    known += (r->items[i].end < end ? r->items[i].end : end) - from;
  }
  return known;
}

/* The segments of an image follow one another in the text; one of them is executed. */
static bool runs(const char *text, const line_t *line) {
  for (int i = 0; i < 8 && *text; i++) {
    line_t other;
    text = parse_line(text, &other);
    if (other.path_size != line->path_size || memcmp(other.path, line->path, line->path_size))
      return false;
    if (other.access[2] == 'x') return true;
  }
  return false;
}

bool mappings_kinds(const mappings_t *r, mapping_totals_t out[MAPPING_KINDS]) {
  memset(out, 0, MAPPING_KINDS * sizeof *out);
  bool last_code = false;
  char path[1024], last[1024] = "";
  for (const char *p = r->maps ? r->maps : ""; *p;) {
    line_t line;
    const char *here = p;
    p = parse_line(p, &line);
    if (!line.end) continue;
    snprintf(path, sizeof path, "%.*s", (int)line.path_size, line.path);
    if (strcmp(path, last)) last_code = path[0] == '/' && runs(here, &line);
    memcpy(last, path, sizeof last);
    mapping_totals_t *t = &out[kind_of(path, line.access, last_code)];
    t->count++;
    t->bytes += line.end - line.start;
    t->with_stack += known_of(r, line.start, line.end);
  }
  return true;
}

static int by_live(const void *left, const void *right) {
  const stack_mappings_t *a = left, *b = right;
  if (a->live != b->live) return a->live < b->live ? 1 : -1;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
  return a->stack < b->stack ? -1 : a->stack > b->stack;
}

void mappings_rank(mappings_t *r) {
  for (size_t i = 0; i < r->stack_count; i++)
    r->stacks[i].live = 0;
  for (size_t i = 0; i < r->count; i++)
    stack_of(r, r->items[i].stack)->live += r->items[i].end - r->items[i].start;
  if (r->stack_count) qsort(r->stacks, r->stack_count, sizeof *r->stacks, by_live);
}
