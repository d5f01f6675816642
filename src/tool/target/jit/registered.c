/* SPDX-License-Identifier: MIT
 *
 * Source: GDB's manual, "JIT Compilation Interface", of 64-bit programs. The descriptor has two
 * 32-bit words, the version and an action, and the pointers to the entry of the action and to the
 * first entry. An entry has pointers to the next entry, to the previous one and to its file, and
 * the file's size.
 */
#include "target/jit/registered.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "image/exported.h"
#include "os/os.h"
#include "target/jit/symfile.h"
#include "target/modules.h"
#include "target/process.h"

#define VERSION       1u
#define FILES_MAX     65536u
#define FILE_MAX      (UINT64_C(64) << 20)
#define ALL_FILES_MAX (UINT64_C(256) << 20)

typedef struct descriptor {
  uint32_t version, action;
  uint64_t acted, first;
} descriptor_t;

typedef struct entry {
  uint64_t next, previous, address, size;
} entry_t;

static bool read_target(memory_t *self, uint64_t address, void *out, size_t size) {
  target_t *target = ((jit_reader_t *)self)->target;
  if (target->live) return process_read(&process_of(target)->memory, address, out, size);
  return target->memory->read(target->memory, address, out, size);
}

jit_reader_t jit_reader(target_t *target) {
  return (jit_reader_t){.memory.read = read_target, .target = target};
}

/* ---- the lists ------------------------------------------------------------------------------ */

void jit_registered_find(jit_registered_t *r, target_t *target) {
  r->list_count = 0;
  for (size_t i = 0; i < target->modules.count && r->list_count < JIT_LISTS_MAX; i++) {
    const module_t *module = &target->modules.items[i];
    exported_t found = {.name = "__jit_debug_descriptor"};
    if (!target_module(target, module->start) || module->state != MODULE_READY) continue;
    if (!image_find_exported(&module->image, &found, 1) || !found.address)
      (void)image_find_defined(&module->image, &found, 1);
    modules_trim(module);
    if (found.address) r->lists[r->list_count++] = found.address;
  }
}

static bool read_list(memory_t *memory, uint64_t list, jit_file_places_t *out) {
  descriptor_t descriptor;
  if (!memory->read(memory, list, &descriptor, sizeof descriptor) || descriptor.version != VERSION)
    return true;
  uint64_t passed = 0; /* an entry that is met again if the list is a cycle (Brent) */
  size_t read = 0;
  for (uint64_t at = descriptor.first; at && at != passed;) {
    entry_t entry;
    if ((read & (read - 1)) == 0) passed = at;
    if (read++ == FILES_MAX || !memory->read(memory, at, &entry, sizeof entry)) break;
    jit_file_place_t *place = ARRAY_ADD(*out);
    if (!place) return false;
    *place = (jit_file_place_t){.entry = at, .address = entry.address, .size = entry.size};
    at = entry.next;
  }
  return true;
}

static bool read_lists(const jit_registered_t *r, memory_t *memory, jit_file_places_t *out) {
  out->count = 0;
  for (size_t i = 0; i < r->list_count; i++)
    if (!read_list(memory, r->lists[i], out)) return false;
  return true;
}

/* ---- the files ------------------------------------------------------------------------------ */

/* The copy of the file at PLACE, or NULL. Sets the hash. */
static uint8_t *copy_file(memory_t *memory, jit_file_place_t *place) {
  uint8_t *data = malloc((size_t)place->size);
  if (!data || !memory->read(memory, place->address, data, (size_t)place->size)) {
    free(data);
    return NULL;
  }
  uint64_t hash = hash_bytes(HASH_START, data, (size_t)place->size);
  place->hash = hash ? hash : 1;
  return data;
}

static int by_place(const void *a, const void *b) {
  return memcmp(a, b, offsetof(jit_file_place_t, hash));
}

/* PLACE among PLACES, which are sorted; NULL: it is not there. */
static const jit_file_place_t *find_place(const jit_file_places_t *places,
                                          const jit_file_place_t *place) {
  if (!places->count) return NULL;
  return bsearch(place, places->items, places->count, sizeof *place, by_place);
}

static void sort_places(jit_file_places_t *places) {
  if (places->count) qsort(places->items, places->count, sizeof *places->items, by_place);
}

/* ---- a reading ------------------------------------------------------------------------------ */

typedef struct reading {
  memory_t *memory;
  /* the lists before and after the files were copied, and those of the reading before */
  jit_file_places_t now, after, before;
  /* the copies, by the index in NOW */
  uint8_t **copies;
} reading_t;

/* Copies the files that are not known. */
static void copy_files(jit_registered_t *r, reading_t *reading) {
  uint64_t copied = 0;
  for (size_t i = 0; i < reading->now.count; i++) {
    jit_file_place_t *place = &reading->now.items[i];
    if (!place->size) continue;
    if (place->size > FILE_MAX || copied + place->size > ALL_FILES_MAX) {
      r->lost++;
      continue;
    }
    copied += place->size;
    uint8_t *copy = copy_file(reading->memory, place);
    const jit_file_place_t *known = copy ? find_place(&reading->before, place) : NULL;
    if (known && known->hash == place->hash) {
      free(copy);
      copy = NULL;
    }
    reading->copies[i] = copy;
  }
}

/* Uses the files that were in the lists all the time. */
static void use_files(reading_t *reading, jit_file_visit_t *visit, void *context) {
  for (size_t i = reading->now.count; i-- > 0;) { /* the newest is the first of its list */
    jit_file_place_t *place = &reading->now.items[i];
    if (!reading->copies[i]) continue;
    if (find_place(&reading->after, place))
      visit(context, reading->copies[i], (size_t)place->size);
    else
      place->hash = 0;
  }
}

static void free_reading(reading_t *reading) {
  for (size_t i = 0; reading->copies && i < reading->now.count; i++)
    free(reading->copies[i]);
  free(reading->copies);
  free(reading->after.items);
  free(reading->before.items);
}

bool jit_registered_read(jit_registered_t *r, memory_t *memory, jit_file_visit_t *visit,
                         void *context) {
  reading_t reading = {.memory = memory, .before = r->files};
  bool is_complete = read_lists(r, memory, &reading.now);
  r->lost = 0;
  reading.copies = calloc(reading.now.count + 1, sizeof *reading.copies);
  if (is_complete && reading.copies) {
    copy_files(r, &reading);
    is_complete = read_lists(r, memory, &reading.after);
    sort_places(&reading.after);
    if (is_complete) use_files(&reading, visit, context);
  }
  free_reading(&reading);
  sort_places(&reading.now);
  r->files = reading.now;
  return r->files.count > 0;
}

typedef struct adding {
  jit_t *jit;
  uint64_t earliest_ns;
} adding_t;

/* The code is there by now. */
static void add_functions(void *context, const uint8_t *data, size_t size) {
  adding_t *a = context;
  jit_set_times(a->jit, a->earliest_ns, os_monotonic_ns());
  jit_symfile_read(a->jit, data, size);
}

bool jit_registered_add(jit_registered_t *r, memory_t *memory, uint64_t earliest_ns, jit_t *jit) {
  return jit_registered_read(r, memory, add_functions, &(adding_t){jit, earliest_ns});
}

void jit_registered_free(jit_registered_t *r) {
  free(r->files.items);
  *r = (jit_registered_t){0};
}
