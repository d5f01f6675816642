/* SPDX-License-Identifier: MIT
 *
 * What the pointers of a crash point to: the address of the fault, the registers, and the block
 * that the thread was freeing, compared with the blocks of the malloc log, the thread's stack, and
 * the images, as they were at that time.
 *
 * Blocks are known for the modes of the malloc sensor that record every block. With sampled blocks,
 * a freed one may since have been allocated again.
 */
#ifndef SONDE_ANALYSIS_CRASH_BLOCKS_H
#define SONDE_ANALYSIS_CRASH_BLOCKS_H

#include "analysis/crash.h"

typedef enum crash_place {
  CRASH_PLACE_UNKNOWN,
  CRASH_PLACE_NULL,          /* 0, or less than CRASH_NULL_BYTES: a member of a null pointer */
  CRASH_PLACE_LIVE,          /* inside a live block */
  CRASH_PLACE_FREED,         /* inside a block that was freed and not allocated again */
  CRASH_PLACE_BEHIND,        /* shortly behind the end of a live block */
  CRASH_PLACE_STACK_GUARD,   /* just below the thread's stack: it has overflowed */
  CRASH_PLACE_STACK,         /* in the thread's stack */
  CRASH_PLACE_UNLOADED,      /* in an image that was unloaded */
  CRASH_PLACE_IMAGE,         /* in an image */
  CRASH_PLACE_UNMAPPED,      /* in a memory mapping that the program removed */
  CRASH_PLACE_NOT_CANONICAL, /* no address of user memory */
} crash_place_t;

/* Which data of the allocator beside a live block are overwritten, by glibc's message. */
typedef enum crash_damage {
  CRASH_DAMAGE_NONE, /* or not known */
  CRASH_DAMAGE_BEFORE,
  CRASH_DAMAGE_BEHIND,
} crash_damage_t;

enum { CRASH_NULL_BYTES = 65536, CRASH_POINTERS = CRASH_REGISTERS + 2 };

typedef struct crash_block {
  uint64_t start, size;
  uint64_t allocated_time, freed_time; /* ticks; freed_time 0: live at the crash */
  uint32_t allocated_stack, freed_stack;
  uint32_t allocated_stream, freed_stream;
  bool is_sampled;
} crash_block_t;

typedef struct crash_pointer {
  const char *name; /* "address" of the fault, "freed" (the argument of free), or a register */
  uint64_t value;
  crash_place_t place;
  bool is_telling; /* the place explains the crash, or may explain it */
  /* from the start of the block, image or mapping; BEHIND: from the end; GUARD: below the stack */
  uint64_t offset;
  crash_block_t block;   /* of LIVE, FREED, BEHIND; of UNMAPPED, a mapping */
  crash_block_t before;  /* of LIVE: the block that was freed there before; start 0: none */
  crash_damage_t damage; /* of "freed", if LIVE at offset 0 */
  crash_block_t
      below; /* of DAMAGE_BEFORE: the live block that ends there; start 0: none is known */
  const record_image_t *image;
} crash_pointer_t;

typedef struct crash_pointers {
  crash_pointer_t items[CRASH_POINTERS];
  uint32_t count;
} crash_pointers_t;

/* Finds the places of CRASH's pointers: the address of the fault first, then the argument of free,
 * then the registers, without the pc and the stack pointer. Reads the events of READER twice.
 * Returns 0 or SONDE_ENOMEM. */
int crash_pointers_find(reader_t *reader, const crash_t *crash, crash_pointers_t *out);

/* The register that holds a freed block whose link was used as a pointer: the address of the fault
 * is what glibc 2.32 and later write into the first bytes of a freed block that is the last of its
 * list, "Safe-Linking" in malloc.c: the block's address shifted right by 12. NULL: none. */
const crash_pointer_t *crash_pointer_link(const crash_pointers_t *pointers);

/* The pointer NAME; NULL: none. */
const crash_pointer_t *crash_pointer_named(const crash_pointers_t *pointers, const char *name);

#endif
