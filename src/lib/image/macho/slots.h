/* SPDX-License-Identifier: MIT
 *
 * The import slots of a Mach-O image: every word that dyld fills with the address of a symbol.
 *
 * Three encodings describe slots, and each one omits some:
 *   - indirect symbols: the slots of sections of lazy and non-lazy pointers, which calls use. They
 *     omit slots in data;
 *   - bind opcodes (LC_DYLD_INFO), with lazy and weak ones: also words of data, such as function
 *     tables;
 *   - chained fixups (LC_DYLD_CHAINED_FIXUPS): the same, as chains through the words themselves.
 * dyld overwrites the words, so only a file has the chains; for a live image its file is read. The
 * result is one list with one entry for each slot, which records the encodings that describe it.
 */
#ifndef SONDE_IMAGE_MACHO_SLOTS_H
#define SONDE_IMAGE_MACHO_SLOTS_H

#include "image/macho/macho.h"

/* The encodings that describe a slot; a set of bits. */
#define MACHO_SLOT_LAZY      1u /* indirect, of a section of lazy pointers */
#define MACHO_SLOT_NON_LAZY  2u /* indirect, of a section of non-lazy pointers */
#define MACHO_SLOT_BIND      4u /* opcodes: bound at load */
#define MACHO_SLOT_LAZY_BIND 8u /* opcodes: bound at the first call */
#define MACHO_SLOT_WEAK_BIND 16u
#define MACHO_SLOT_CHAINED   32u

#define MACHO_LIBRARY_SELF    0
#define MACHO_LIBRARY_UNKNOWN INT32_MIN

typedef struct macho_slot {
  uint64_t address;   /* as linked */
  const char *name;   /* in the image's bytes, with the linker's underscore */
  int64_t addend;     /* dyld adds it to the symbol's address */
  int32_t library;    /* of LC_LOAD_DYLIB, from 1; 0 the image itself, negative: a search rule */
  uint8_t found;      /* MACHO_SLOT_… */
  bool is_weak;       /* stays 0 if no image defines the symbol */
  bool is_signed;     /* arm64e: holds an authenticated pointer, which only dyld can create */
  bool is_defined;    /* the image defines the symbol itself */
  uint16_t diversity; /* of a signed pointer; with `by_address` combined with the slot's address */
  bool by_address;
  uint8_t key;
} macho_slot_t;

typedef struct macho_slot_list {
  macho_slot_t *items; /* ascending by address */
  uint32_t count, room;
  uint32_t broken;   /* unreadable entries; the rest of their table is skipped */
  bool needs_file;   /* the image is live and has chained fixups: only its file lists all slots */
  bool has_threaded; /* has bind opcodes of early arm64e, which are not supported */
  image_t const *image;
  uint64_t segment_address[32], segment_size[32];
  uint32_t segment_count;
} macho_slot_list_t;

/* Lists the slots of IMAGE, which must not change meanwhile. Returns false if memory is exhausted.
 * Release the list with macho_slots_free. */
bool macho_slots_read(const image_t *image, macho_slot_list_t *list);
void macho_slots_free(macho_slot_list_t *list);

/* Returns the slot at ADDRESS (as linked), or NULL. */
const macho_slot_t *macho_slot_at(const macho_slot_list_t *list, uint64_t address);

/* ---- for the readers of the encodings ---------------------------------------------- */

/* Adds SLOT if it lies inside the segments. Returns false if memory is exhausted or the list is
 * full. */
bool macho_slots_add(macho_slot_list_t *list, const macho_slot_t *slot);
bool macho_slots_read_binds(macho_slot_list_t *list);
bool macho_slots_read_chains(macho_slot_list_t *list);

/* Returns TEXT up to its last 0, so that every string that begins in it ends in it. */
section_t macho_text(section_t text);
static inline const char *macho_text_at(const section_t *text, uint64_t offset) {
  return offset < text->size ? (const char *)text->data + offset : NULL;
}

#endif
