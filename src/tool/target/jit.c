/* SPDX-License-Identifier: MIT
 *
 * Formats: a perf map has lines "START SIZE name", both numbers hexadecimal (linux
 * tools/perf/Documentation/jit-interface.txt). A jitdump is a header, whose first word shows the
 * byte order, and records with their lengths (…/jitdump-specification.txt). This file uses records
 * of loaded code (0) and moved code (1).
 *
 * JIT compilers reuse addresses; the latest entry is valid. Entries are sorted by address, the
 * later one first among equals. A search resolves overlaps by age.
 */
#define _GNU_SOURCE
#include "target/jit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/load.h"
#include "target/modules.h"
#include "target/process.h"

#define FILE_BYTES_MAX ((uint64_t)1 << 30)
#define JITDUMP_MAGIC  0x4a695444u
#define JITDUMP_LOAD   0
#define JITDUMP_MOVE   1

typedef struct entry {
  jit_symbol_t symbol;
  /* larger is later */
  uint64_t age;
  /* of a jitdump: the number of the code */
  uint64_t index;
  /* after sorting: the highest end of this and all previous entries */
  uint64_t reach;
} entry_t;

struct jit {
  char *source;
  entry_t *entries;
  size_t count, capacity;
  char **names; /* owned */
  size_t name_count, name_capacity;
};

jit_t *jit_new(const char *source) {
  jit_t *jit = calloc(1, sizeof *jit);
  if (jit) jit->source = strdup(source);
  return jit;
}

void jit_close(jit_t *jit) {
  if (!jit) return;
  for (size_t i = 0; i < jit->name_count; i++)
    free(jit->names[i]);
  free(jit->names);
  free(jit->entries);
  free(jit->source);
  free(jit);
}

const char *jit_source(const jit_t *jit) { return jit->source; }

static const char *keep_name(jit_t *jit, const char *name, size_t length) {
  if (!ARRAY_GROW(jit->names, jit->name_count, jit->name_capacity)) return NULL;
  char *copy = strndup(name, length);
  if (copy) jit->names[jit->name_count++] = copy;
  return copy;
}

static bool add(jit_t *jit, uint64_t address, uint64_t size, uint64_t index, const char *name) {
  if (!ARRAY_GROW(jit->entries, jit->count, jit->capacity)) return false;
  jit->entries[jit->count] = (entry_t){{address, size, name}, jit->count, index, 0};
  jit->count++;
  return true;
}

/* ---- perf map ----------------------------------------------------------------------------- */

/* Reads a hexadecimal number at *P that ends before END; false if there is none. */
static bool hex(const char **p, const char *end, uint64_t *out) {
  const char *start = *p;
  uint64_t value = 0;
  for (; *p < end; ++*p) {
    char c = **p;
    unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                     : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                     : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                            : 16;
    if (digit == 16) break;
    value = value << 4 | digit;
  }
  *out = value;
  return *p > start && *p - start <= 16;
}

static void skip_0x(const char **p, const char *end) {
  if (end - *p > 2 && (*p)[0] == '0' && (*p)[1] == 'x') *p += 2;
}

bool jit_parse_perf_map(jit_t *jit, const char *text, size_t size) {
  const char *end = text + size;
  for (const char *line = text; line < end;) {
    const char *stop = memchr(line, '\n', (size_t)(end - line)), *p = line;
    if (!stop) break; /* still being written */
    uint64_t address, length;
    skip_0x(&p, stop);
    if (hex(&p, stop, &address) && p < stop && *p++ == ' ') {
      skip_0x(&p, stop);
      if (hex(&p, stop, &length) && p < stop && *p++ == ' ' && p < stop && length > 0 &&
          address + length > address) {
        const char *name = keep_name(jit, p, (size_t)(stop - p));
        if (!name || !add(jit, address, length, 0, name)) return false;
      }
    }
    line = stop + 1;
  }
  return true;
}

/* ---- jitdump ------------------------------------------------------------------------------ */

/* Record head (16), pid and tid (8), vma, address, size, index (8 each), the name, the code. */
static bool take_load(jit_t *jit, const uint8_t *p, size_t size) {
  if (size < 57) return true;
  const uint8_t *name = p + 56, *end = memchr(name, 0, size - 56);
  uint64_t address = load64(p + 32), length = load64(p + 40);
  if (!end || length == 0 || address + length < address) return true;
  const char *kept = keep_name(jit, (const char *)name, (size_t)(end - name));
  return kept && add(jit, address, length, load64(p + 48), kept);
}

/* Record head (16), pid and tid (8), vma, old address, new address, size, index. */
static bool take_move(jit_t *jit, const uint8_t *p, size_t size) {
  if (size < 64) return true;
  uint64_t to = load64(p + 40), length = load64(p + 48), index = load64(p + 56);
  for (size_t i = jit->count; i-- > 0;)
    if (jit->entries[i].index == index)
      return to + length < to || add(jit, to, length, index, jit->entries[i].symbol.name);
  return true;
}

bool jit_parse_dump(jit_t *jit, const uint8_t *data, size_t size) {
  if (size < 40 || load32(data) != JITDUMP_MAGIC) return true; /* another byte order or format */
  for (size_t at = load32(data + 8); at <= size && size - at >= 16;) {
    uint32_t kind = load32(data + at);
    size_t length = load32(data + at + 4);
    if (length < 16) break;
    if (length > size - at) length = size - at; /* still being written; the name may be complete */
    if (kind == JITDUMP_LOAD && !take_load(jit, data + at, length)) return false;
    if (kind == JITDUMP_MOVE && !take_move(jit, data + at, length)) return false;
    at += length;
  }
  return true;
}

/* ---- look-up ------------------------------------------------------------------------------ */

static int by_address(const void *a, const void *b) {
  const entry_t *x = a, *y = b;
  if (x->symbol.address != y->symbol.address) return x->symbol.address < y->symbol.address ? -1 : 1;
  return x->age < y->age ? -1 : x->age > y->age;
}

void jit_sort(jit_t *jit) {
  uint64_t reach = 0;
  if (jit->count) qsort(jit->entries, jit->count, sizeof *jit->entries, by_address);
  for (size_t i = 0; i < jit->count; i++) {
    entry_t *entry = &jit->entries[i];
    uint64_t end = entry->symbol.address + entry->symbol.size;
    entry->reach = reach = end > reach ? end : reach;
  }
}

const jit_symbol_t *jit_find(const jit_t *jit, uint64_t address) {
  size_t low = 0, high = jit->count;
  while (low < high) { /* the first entry above ADDRESS */
    size_t middle = low + (high - low) / 2;
    if (jit->entries[middle].symbol.address <= address)
      low = middle + 1;
    else
      high = middle;
  }
  const entry_t *found = NULL;
  for (size_t i = low; i > 0 && jit->entries[i - 1].reach > address; i--) {
    const entry_t *entry = &jit->entries[i - 1];
    if (address - entry->symbol.address < entry->symbol.size && (!found || entry->age > found->age))
      found = entry;
  }
  return found ? &found->symbol : NULL;
}

/* ---- files -------------------------------------------------------------------------------- */

/* Reads at most SIZE bytes of FD. It does not map them, because the writer may truncate the file
 * meanwhile. */
static uint8_t *read_bytes(int fd, size_t *size) {
  uint8_t *bytes = malloc(*size);
  size_t done = 0;
  while (bytes && done < *size) {
    ssize_t n = read(fd, bytes + done, *size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += (size_t)n;
  }
  *size = done;
  return bytes;
}

static uint8_t *load_file(const char *path, size_t *size) {
  struct stat st;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  uint8_t *bytes = NULL;
  if (fd < 0) return NULL;
  if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 &&
      (uint64_t)st.st_size <= FILE_BYTES_MAX) {
    *size = (size_t)st.st_size;
    bytes = read_bytes(fd, size);
  }
  close(fd);
  return bytes;
}

static bool read_file(jit_t *jit, const char *path, bool is_dump) {
  size_t size = 0;
  uint8_t *data = load_file(path, &size);
  if (!data) return false;
  bool good =
      is_dump ? jit_parse_dump(jit, data, size) : jit_parse_perf_map(jit, (const char *)data, size);
  free(data);
  return good && jit->count > 0;
}

static const char *mapped_dump(target_t *target) {
  for (size_t i = 0; i < target->modules.count; i++) {
    module_t *module = &target->modules.items[i];
    const char *slash = strrchr(module->path, '/');
    size_t length = strlen(module->path);
    if (!slash || strncmp(slash, "/jit-", 5) != 0 || length < 5 ||
        strcmp(module->path + length - 5, ".dump") != 0)
      continue;
    modules_ready(target, module); /* sets open_path, although this is not an ELF image */
    if (module->open_path) return module->open_path;
  }
  return NULL;
}

jit_t *jit_open(target_t *target) {
  if (!target->live) return NULL;
  char path[128];
  const char *dump = mapped_dump(target);
  pid_t inner = process_inner_tid(process_of(target), target->pid);
  snprintf(path, sizeof path, "/proc/%d/root/tmp/perf-%d.map", target->reader,
           inner > 0 ? inner : target->pid);
  jit_t *jit = jit_new(dump ? dump : strstr(path, "/tmp/"));
  if (!jit) return NULL;
  if ((dump && read_file(jit, dump, true)) || (!dump && read_file(jit, path, false))) {
    jit_sort(jit);
    return jit;
  }
  jit_close(jit);
  return NULL;
}
