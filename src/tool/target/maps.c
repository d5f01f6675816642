/* SPDX-License-Identifier: MIT
 *
 * Reads a memory map. The kernel writes the text, but others choose the paths in it. So this file
 * trusts neither the length of a line nor its numbers nor the order of lines.
 */
#include "target/maps.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "target/target.h"

bool maps_add(maps_t *maps, const mapping_t *mapping) {
  if (!ARRAY_GROW(maps->items, maps->count, maps->capacity)) return false;
  maps->items[maps->count++] = *mapping;
  return true;
}

static int by_start(const void *a, const void *b) {
  const mapping_t *x = a, *y = b;
  return x->start < y->start ? -1 : x->start > y->start;
}

void maps_sort(maps_t *maps) {
  for (size_t i = 1; i < maps->count; i++) {
    if (maps->items[i - 1].start > maps->items[i].start) {
      qsort(maps->items, maps->count, sizeof *maps->items, by_start);
      return;
    }
  }
}

void maps_free(maps_t *maps) {
  free(maps->items);
  free(maps->text);
  memset(maps, 0, sizeof *maps);
}

mapping_t *maps_find(const maps_t *maps, uint64_t address) {
  size_t i = ARRAY_SEARCH(maps->count, k, maps->items[k].end <= address);
  return i < maps->count && maps->items[i].start <= address ? &maps->items[i] : NULL;
}

static bool number(char **at, unsigned base, uint64_t *out) {
  char *p = *at;
  uint64_t value = 0;
  while (true) {
    unsigned digit;
    if (*p >= '0' && *p <= '9')
      digit = (unsigned)(*p - '0');
    else if (*p >= 'a' && *p <= 'f')
      digit = (unsigned)(*p - 'a') + 10;
    else
      break;
    if (digit >= base) break;
    if (value > (UINT64_MAX - digit) / base) return false;
    value = value * base + digit;
    p++;
  }
  if (p == *at) return false;
  *at = p;
  *out = value;
  return true;
}

static bool expect(char **at, char c) {
  if (**at != c) return false;
  ++*at;
  return true;
}

static uint32_t access_of(const char *p) {
  return (p[0] == 'r' ? MAP_READ : 0) | (p[1] == 'w' ? MAP_WRITE : 0) |
         (p[2] == 'x' ? MAP_EXEC : 0);
}

/* The kernel writes a newline in a path as \012, but does not escape a backslash. */
static void unescape(char *path) {
  char *out = path;
  for (char *in = path; *in; out++) {
    if (strncmp(in, "\\012", 4) == 0)
      *out = '\n', in += 4;
    else
      *out = *in++;
  }
  *out = 0;
}

static bool cut_suffix(char *path, const char *suffix) {
  size_t n = strlen(path), k = strlen(suffix);
  if (n <= k || strcmp(path + n - k, suffix) != 0) return false;
  path[n - k] = 0;
  return true;
}

/* "start-end rwxp offset major:minor inode   path" */
static bool parse_line(char *line, mapping_t *m) {
  uint64_t major, minor;
  char *at = line;
  memset(m, 0, sizeof *m);
  if (!number(&at, 16, &m->start) || !expect(&at, '-') || !number(&at, 16, &m->end) ||
      !expect(&at, ' ') || m->start >= m->end)
    return false;
  if (strnlen(at, 5) < 5 || at[4] != ' ') return false;
  m->access = access_of(at);
  at += 5;
  if (!number(&at, 16, &m->offset) || !expect(&at, ' ') || !number(&at, 16, &major) ||
      !expect(&at, ':') || !number(&at, 16, &minor) || !expect(&at, ' ') ||
      !number(&at, 10, &m->inode))
    return false;
  m->dev_major = (uint32_t)major;
  m->dev_minor = (uint32_t)minor;
  m->module = MODULE_NONE;
  while (*at == ' ')
    at++;
  unescape(at);
  m->deleted = cut_suffix(at, " (deleted)");
  m->path = at;
  return true;
}

bool maps_parse(maps_t *maps, char *text, size_t size) {
  memset(maps, 0, sizeof *maps);
  maps->text = text;
  char *end = text + size;
  for (char *line = text; line < end;) {
    char *stop = memchr(line, '\n', (size_t)(end - line));
    if (!stop) stop = end;
    *stop = 0;
    mapping_t mapping;
    if (parse_line(line, &mapping) && !maps_add(maps, &mapping)) return false;
    line = stop + 1;
  }
  maps_sort(maps);
  return true;
}
