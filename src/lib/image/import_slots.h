/* SPDX-License-Identifier: MIT
 *
 * The import slots of a loaded ELF image: every word that the loader has filled, or will fill, with
 * the address of a symbol. That is what a call to another image goes through (JUMP_SLOT from the
 * PLT, GLOB_DAT from -fno-plt and where the address is taken) and what tables of functions hold
 * (R_X86_64_64, R_AARCH64_ABS64).
 *
 * Read from the image's dynamic section alone, in place, with no section headers: relocations are
 * walked, since GNU_HASH does not list what is undefined. DT_RELR has no symbols, and so no slots.
 * Every table must lie in the image's segments and every index in its table, or the image has none.
 * The image must not be unloaded meanwhile (os_loader_hold).
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

/* A table of a live image. NULL and 0 where the image has none. */
typedef struct slot_table {
  const uint8_t *data;
  uint64_t count; /* entries */
} slot_table_t;

typedef struct slots {
  uint64_t slide, start, end;
  slot_table_t symbols; /* the count is a bound: as many as fit into the segment */
  const char *names;
  uint64_t names_size; /* the last byte is 0 */
  slot_table_t plt, rela;
  slot_table_t versions;           /* DT_VERSYM, one a symbol */
  const uint8_t *needed, *defined; /* DT_VERNEED, DT_VERDEF */
  uint64_t needed_count, defined_count;
  slot_table_t gnu_hash, sysv_hash; /* in words, as many as fit */
  const uint8_t *dynamic;
  bool is_symbolic; /* linked with -Bsymbolic */
  segment_t segments[IMAGE_SEGMENTS_MAX];
  uint32_t segment_count;
  uint64_t relro_start, relro_end; /* whole pages: what the loader makes read-only when it is done
                                      with the image; equal where there is nothing */
} import_slots_t;

typedef struct slot {
  uint64_t address; /* run-time */
  slot_kind_t kind;
  uint32_t symbol; /* its index */
  const char *name;
} slot_t;

/* Reads the dynamic section of IMAGE. False when it has none, or one that cannot be used. */
bool import_slots_read(import_slots_t *out, const os_image_t *image);

/* A set of names to look for, made by slot_names_add: one bit for each value of a hash of the first
 * eight characters, so that most other names are passed over without reading on. */
typedef struct slot_names {
  uint64_t bits[64];
} slot_names_t;
void slot_names_add(slot_names_t *names, const char *name);
bool slot_names_may_hold(const slot_names_t *names, const char *name);

/* Calls VISIT for each slot whose name may be among NAMES (NULL: for each), until it returns
 * false. */
void import_slots_each(const import_slots_t *slots, const slot_names_t *names,
                       bool (*visit)(const slot_t *slot, void *context), void *context);

/* Before its relocation a slot holds 0 or an address as linked. */
static inline bool import_slots_is_raw(const import_slots_t *slots, uint64_t value) {
  return slots->slide != 0 && value < slots->end - slots->slide;
}

/* The version that SYMBOL is of ("GLIBC_2.2.5"); NULL when it has none. *HIDDEN, unless NULL: it is
 * not the default one. */
const char *import_slots_version(const import_slots_t *slots, uint32_t symbol, bool *hidden);

/* The definition of NAME, of VERSION or (NULL) of the default one. False when the image has none.
 */
bool import_slots_definition(const import_slots_t *slots, const char *name, const char *version,
                             uint32_t *symbol, elf_sym_t *out);

bool import_slots_text_equal(const char *a, const char *b);

#endif
