/* SPDX-License-Identifier: MIT
 *
 * Rebinds an imported symbol in one Mach-O image in memory, for the tests of its slots.
 *
 * Slots that dyld closed after it bound them (__DATA_CONST) are opened for the store and closed
 * again. An authenticated slot (arm64e) is left alone and counted: what is stored there must be
 * signed for its place, which plain code cannot do. Under the hooks' lock, or before other threads
 * are there.
 */
#ifndef SONDE_TESTS_MACHO_REBIND_H
#define SONDE_TESTS_MACHO_REBIND_H

#include "image/macho/slots.h"

/* One slot that was changed. */
typedef struct macho_patch {
  uint64_t address, old; /* run-time; what stood there */
} macho_patch_t;

typedef struct macho_rebound {
  uint32_t count;   /* slots changed */
  uint32_t refused; /* could not be written, or were changed by another at that moment */
  uint32_t skipped; /* authenticated, with an addend, or more than there was room for */
} macho_rebound_t;

/* Stores VALUE in every slot of SLOTS that is of the symbol NAME (without the linker's underscore),
 * in the image mapped with SLIDE, and notes what stood there in PATCHES, which has ROOM. SLOTS may
 * have been read from the image's file. An unbound slot, lazy ones before the first call among
 * them, holds an address of the image itself: to call the original look it up, not here. */
macho_rebound_t macho_rebind(const macho_slot_list_t *slots, uint64_t slide, const char *name,
                             uint64_t value, macho_patch_t *patches, uint32_t room);

/* Puts back what stood in COUNT slots, as far as they still hold VALUE. Returns how many. */
uint32_t macho_unbind(const macho_patch_t *patches, uint32_t count, uint64_t value);

#endif
