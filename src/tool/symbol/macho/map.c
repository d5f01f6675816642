/* SPDX-License-Identifier: MIT
 *
 * Reads the debug map. See map.h.
 *
 * Stabs have this order: N_SO folder, N_SO file, N_OSO (path of the object; the value is the
 * object's modification time), then for each function N_FUN with name and address and N_FUN without
 * a name and with the size as value, then N_SO without a name.
 *
 * The DWARF of an object has the object's own addresses, so it can be read without relocation. A
 * function is found in the object by its name.
 */
#include "symbol/macho/map.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "image/macho/format.h"
#include "symbol/dwarf/dwarf.h"
#include "symbol/macho/file.h"
#include "symbol/macho/symtab.h"
#include "symbol/index/coding.h"

/* One function: SIZE bytes at FROM in the object, at TO in the image. */
typedef struct map_function {
  const char *name; /* as the linker writes it */
  uint64_t from, to, size;
} map_function_t;

typedef struct debug_object {
  const char *path;
  uint64_t time;
  map_function_t *functions;
  size_t count, capacity;
} debug_object_t;

/* ---- the stabs ---------------------------------------------------------------------------- */

/* Calls VISIT for each object with its functions, until it returns false. */
static bool each_object(const image_t *image, bool (*visit)(debug_object_t *object, void *context),
                        void *context) {
  elf_shape_t shape = macho_shape(image->is_64bit, image->is_big_endian);
  unsigned entry = macho_nlist_size(shape);
  debug_object_t object = {0};
  bool more = true;
  for (size_t i = 0; more && i < image->symtab.size / entry; i++) {
    macho_nlist_t n = macho_nlist(shape, image->symtab.data + i * entry);
    if (n.type != MACHO_N_SO && n.type != MACHO_N_OSO && n.type != MACHO_N_FUN) continue;
    const char *name = macho_symtab_name(image, n.name);
    if (!name) continue;
    if (n.type != MACHO_N_FUN && object.path) {
      more = visit(&object, context);
      object.path = NULL;
      object.count = 0;
    }
    if (n.type == MACHO_N_OSO) {
      object.path = name;
      object.time = n.value;
    } else if (n.type == MACHO_N_FUN && *name && object.path) {
      if (!ARRAY_GROW(object.functions, object.count, object.capacity)) break;
      object.functions[object.count++] = (map_function_t){.name = name, .to = n.value};
    } else if (n.type == MACHO_N_FUN && !*name && object.count) {
      object.functions[object.count - 1].size = n.value;
    }
  }
  if (more && object.path) more = visit(&object, context);
  free(object.functions);
  return more;
}

static bool count_object(debug_object_t *object, void *context) {
  (void)object;
  ++*(size_t *)context;
  return true;
}

size_t macho_map_objects(const image_t *image) {
  size_t count = 0;
  each_object(image, count_object, &count);
  return count;
}

/* The status of an object's file; for a member, of its archive. */
static bool object_status(const debug_object_t *object, struct stat *status) {
  char path[4096];
  if (stat(object->path, status) == 0) return true;
  const char *paren = strrchr(object->path, '(');
  size_t length = paren ? (size_t)(paren - object->path) : 0;
  if (!length || length >= sizeof path) return false;
  memcpy(path, object->path, length);
  path[length] = 0;
  return stat(path, status) == 0;
}

static bool mix_object(debug_object_t *object, void *context) {
  struct stat status = {0};
  uint64_t *sum = context;
  bool there = object_status(object, &status);
  uint64_t facts[] = {*sum, there, (uint64_t)status.st_mtim.tv_sec, (uint64_t)status.st_size};
  *sum = coding_checksum((const uint8_t *)facts, sizeof facts);
  return true;
}

uint64_t macho_map_fingerprint(const image_t *image) {
  uint64_t sum = 1;
  each_object(image, mix_object, &sum);
  return sum;
}

/* ---- one object --------------------------------------------------------------------------- */

static int compare_names(const void *left, const void *right) {
  const map_function_t *a = left, *b = right;
  return strcmp(a->name, b->name);
}

static int compare_from(const void *left, const void *right) {
  const map_function_t *a = left, *b = right;
  return a->from < b->from ? -1 : a->from > b->from;
}

/* Finds each function in the object. Drops missing functions. */
static void find_functions(debug_object_t *object, const image_t *image) {
  elf_shape_t shape = macho_shape(image->is_64bit, image->is_big_endian);
  unsigned entry = macho_nlist_size(shape);
  size_t kept = 0;
  for (size_t i = 0; i < object->count; i++)
    object->functions[i].from = UINT64_MAX;
  if (object->count) qsort(object->functions, object->count, sizeof(map_function_t), compare_names);
  for (size_t i = 0; i < image->symtab.size / entry; i++) {
    macho_nlist_t n = macho_nlist(shape, image->symtab.data + i * entry);
    map_function_t wanted = {.name = macho_symtab_name(image, n.name)};
    if (!macho_nlist_is_defined(&n) || !wanted.name) continue;
    map_function_t *f =
        bsearch(&wanted, object->functions, object->count, sizeof wanted, compare_names);
    if (f) f->from = n.value;
  }
  for (size_t i = 0; i < object->count; i++)
    if (object->functions[i].from != UINT64_MAX && object->functions[i].size)
      object->functions[kept++] = object->functions[i];
  object->count = kept;
  if (kept) qsort(object->functions, kept, sizeof(map_function_t), compare_from);
}

/* The function that contains ADDRESS of the object. */
static const map_function_t *function_at(const debug_object_t *object, uint64_t address) {
  size_t low = ARRAY_SEARCH(object->count, i, object->functions[i].from <= address);
  const map_function_t *f = low ? &object->functions[low - 1] : NULL;
  return f && address - f->from < f->size ? f : NULL;
}

/* The rows of one sequence cover several functions, which the linker may place anywhere. So the
 * rows of each function become a separate sequence. */
static bool translate_rows(const debug_object_t *object, facts_t *facts) {
  line_row_t *rows = facts->rows;
  size_t count = facts->row_count;
  facts->rows = NULL;
  facts->row_count = facts->row_capacity = 0;
  bool good = true;
  for (size_t i = 0; good && i + 1 < count; i++) {
    uint64_t at = rows[i].address, end = rows[i + 1].address;
    while (!rows[i].end && at < end && good) {
      const map_function_t *f = function_at(object, at);
      if (!f) break;
      uint64_t stop = f->from + f->size;
      if (stop > end) stop = end;
      line_row_t row = rows[i], last = rows[i];
      row.address = f->to + (at - f->from);
      last.address = f->to + (stop - f->from);
      last.end = 1;
      good = facts_row(facts, &row) && facts_row(facts, &last);
      at = stop;
    }
  }
  free(rows);
  return good;
}

static void translate_scopes(const debug_object_t *object, facts_t *facts) {
  size_t kept = 0;
  for (size_t i = 0; i < facts->range_count; i++) {
    scope_range_t range = facts->ranges[i];
    const map_function_t *f = function_at(object, range.low);
    if (!f || range.high - f->from > f->size) continue;
    range.low += f->to - f->from;
    range.high += f->to - f->from;
    facts->ranges[kept++] = range;
  }
  facts->range_count = kept;
  for (size_t i = 0; i < facts->scope_count; i++) {
    const map_function_t *f = function_at(object, facts->scopes[i].entry);
    if (f) facts->scopes[i].entry += f->to - f->from;
  }
}

typedef struct map_job {
  image_machine_t machine;
  const uint64_t *only;
  facts_t *facts;
  uint32_t units; /* read so far, of all objects */
  bool found, failed;
} map_job_t;

/* Units of different objects must not share an ordinal. */
static void number_units(facts_t *facts, uint32_t first) {
  for (size_t i = 0; i < facts->row_count; i++)
    facts->rows[i].unit = (facts->rows[i].unit + first) & 0x7fffffff;
  for (size_t i = 0; i < facts->scope_count; i++)
    facts->scopes[i].unit += first;
}

static void read_object(map_job_t *job, debug_object_t *object, const macho_file_t *file) {
  const uint8_t *bytes;
  size_t size;
  facts_t facts;
  code_range_t code = {.high = UINT64_MAX};
  find_functions(object, &file->image);
  if (!object->count || !macho_file_elf(file, &bytes, &size)) return;
  debug_info_t *info = debug_info_open_bytes(bytes, size, code);
  if (!info) return;
  job->failed = !facts_init(&facts);
  for (size_t i = 0; !job->failed && i < debug_info_units(info); i++)
    job->failed = !debug_info_read(info, i, NULL, &facts);
  if (!job->failed) {
    number_units(&facts, job->units);
    job->units += (uint32_t)debug_info_units(info);
    translate_scopes(object, &facts);
    job->failed = !translate_rows(object, &facts) || !facts_merge(job->facts, &facts);
    job->found = true;
  }
  facts_free(&facts);
  debug_info_close(info);
}

static bool contains(const debug_object_t *object, uint64_t address) {
  for (size_t i = 0; i < object->count; i++)
    if (address >= object->functions[i].to &&
        address - object->functions[i].to < object->functions[i].size)
      return true;
  return false;
}

static bool visit_object(debug_object_t *object, void *context) {
  map_job_t *job = context;
  macho_file_t file;
  struct stat status;
  if (job->only && !contains(object, *job->only)) return true;
  bool is_member = object->path[0] && object->path[strlen(object->path) - 1] == ')';
  if (!object_status(object, &status) ||
      (object->time && !is_member && (uint64_t)status.st_mtim.tv_sec != object->time) ||
      macho_object_open(&file, object->path, job->machine) != SYMBOL_NAMED)
    return true;
  read_object(job, object, &file);
  macho_file_close(&file);
  return !job->failed;
}

bool macho_map_read(const image_t *image, const uint64_t *only, facts_t *facts, bool *found) {
  map_job_t job = {.machine = image->machine, .only = only, .facts = facts};
  each_object(image, visit_object, &job);
  *found |= job.found;
  return !job.failed;
}
