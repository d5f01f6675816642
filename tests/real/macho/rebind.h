/* SPDX-License-Identifier: MIT
 *
 * Rebinds an imported symbol in one Mach-O image in memory, for the tests of its slots.
 *
 * Slots that dyld made read-only after binding (__DATA_CONST) are opened for the store and closed
 * again. An authenticated slot (arm64e) is left unchanged and counted: its content must be signed
 * for its address, which ordinary code cannot do. Called under the lock of hook.c, or before other
 * threads exist.
 */
#ifndef SONDE_TESTS_MACHO_REBIND_H
#define SONDE_TESTS_MACHO_REBIND_H

#include "image/macho/slots.h"

/* One slot that was changed. */
typedef struct macho_patch {
  uint64_t address, old; /* at run time; the old content */
} macho_patch_t;

typedef struct macho_rebound {
  uint32_t count;   /* slots changed */
  uint32_t refused; /* could not be written, or other code changed them at that time */
  uint32_t skipped; /* authenticated, with an addend, or beyond the capacity */
} macho_rebound_t;

/* Stores VALUE in every slot of SLOTS for the symbol NAME (without the linker's underscore), in the
 * image mapped with SLIDE. Saves the old contents in PATCHES, which has CAPACITY entries. SLOTS may
 * come from the image's file. An unbound slot, such as a lazy one before its first call, contains
 * an address of the image itself: look the original up instead of using the old content. */
macho_rebound_t macho_rebind(const macho_slot_list_t *slots, uint64_t slide, const char *name,
                             uint64_t value, macho_patch_t *patches, uint32_t capacity);

/* Puts back what stood in COUNT slots, as far as they still hold VALUE. Returns how many. */
uint32_t macho_unbind(const macho_patch_t *patches, uint32_t count, uint64_t value);

#endif
