/* SPDX-License-Identifier: MIT
 *
 * The import slots of a loaded ELF image: every word that the loader fills with the address of a
 * symbol. Calls to another image go through slots (JUMP_SLOT of the PLT; GLOB_DAT of -fno-plt and
 * of taken addresses), and function tables hold slots (R_X86_64_64, R_AARCH64_ABS64).
 *
 * Slots are read from the image's dynamic section, in place and without section headers. They are
 * found by walking the relocations, since GNU_HASH does not list undefined symbols. DT_RELR has no
 * symbols, and so no slots. If a table is not in the image's segments, or an index not in its
 * table, the image has no slots. The image must not be unloaded meanwhile (os_loader_hold).
 */
#ifndef SONDE_IMAGE_IMPORT_SLOTS_H
#define SONDE_IMAGE_IMPORT_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

#include "image/elf/format.h"
#include "image/image.h"
#include "os/os.h"

typedef enum slot_kind {
  SLOT_JUMP,     /* JUMP_SLOT */
  SLOT_GLOB_DAT, /* GLOB_DAT */
  SLOT_DATA,     /* R_X86_64_64, R_AARCH64_ABS64 with addend 0 */
} slot_kind_t;

/* A table of a live image; NULL and 0: none. */
typedef struct slot_table {
  const uint8_t *data;
  uint64_t count; /* entries */
} slot_table_t;

typedef struct slots {
  uint64_t slide, start, end;
  slot_table_t symbols; /* the count is an upper bound: as many as fit into the segment */
  const char *names;
  uint64_t names_size; /* the last byte is 0 */
  slot_table_t plt, rela;
  slot_table_t versions;           /* DT_VERSYM, one for each symbol */
  const uint8_t *needed, *defined; /* DT_VERNEED, DT_VERDEF */
  uint64_t needed_count, defined_count;
  slot_table_t gnu_hash, sysv_hash; /* in words, as many as fit */
  const uint8_t *dynamic;
  bool is_symbolic; /* linked with -Bsymbolic */
  segment_t segments[IMAGE_SEGMENTS_MAX];
  uint32_t segment_count;
  /* The pages that the loader makes read-only after relocation (PT_GNU_RELRO); equal: none. */
  uint64_t relro_start, relro_end;
} import_slots_t;

typedef struct slot {
  uint64_t address; /* run-time */
  slot_kind_t kind;
  uint32_t symbol; /* its index */
  const char *name;
} slot_t;

/* Reads the dynamic section of IMAGE. Returns false if it has none or an unusable one. */
bool import_slots_read(import_slots_t *out, const os_image_t *image);

/* A filter of wanted names, filled by slot_names_add. It has one bit for each value of a hash of
 * the first eight characters, so that most other names are rejected after one word. */
typedef struct slot_names {
  uint64_t bits[64];
} slot_names_t;
void slot_names_add(slot_names_t *names, const char *name);
bool slot_names_may_hold(const slot_names_t *names, const char *name);

/* Calls VISIT for each slot whose name may be in NAMES (NULL: for each slot), until it returns
 * false. */
void import_slots_each(const import_slots_t *slots, const slot_names_t *names,
                       bool (*visit)(const slot_t *slot, void *context), void *context);

/* Returns true if VALUE is that of a slot before its relocation: 0 or a link-time address. */
static inline bool import_slots_is_raw(const import_slots_t *slots, uint64_t value) {
  return slots->slide != 0 && value < slots->end - slots->slide;
}

/* Returns the version of SYMBOL ("GLIBC_2.2.5"), or NULL. Sets *HIDDEN, unless NULL, to true if it
 * is not the default version. */
const char *import_slots_version(const import_slots_t *slots, uint32_t symbol, bool *hidden);

/* Finds the definition of NAME in VERSION (NULL: the default version). Returns false if there is
 * none. */
bool import_slots_definition(const import_slots_t *slots, const char *name, const char *version,
                             uint32_t *symbol, elf_sym_t *out);

bool import_slots_text_equal(const char *a, const char *b);

#endif
