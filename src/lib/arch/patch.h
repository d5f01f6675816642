/* SPDX-License-Identifier: MIT
 *
 * Replaces the NOPs at a function's entry (-fpatchable-function-entry) by a jump to a stub, and
 * back, while threads execute them. x86_64/linux/patch.c and aarch64/linux/patch.c explain why a
 * thread never executes a half-written instruction.
 *
 * A change has three steps. Between two steps, os_sync_code must make every thread refetch its
 * instructions. The code must be writable during the change.
 */
#ifndef SONDE_ARCH_PATCH_H
#define SONDE_ARCH_PATCH_H

#include <stdbool.h>
#include <stdint.h>

#define PATCH_STEPS 3

/* The largest number of places tried for stubs. */
#define PATCH_TRIES 64

/* Bytes of code that patch_look reads. */
#define PATCH_CODE_READ 16

typedef struct patch {
  uint64_t place;    /* address of the NOPs */
  uint8_t before[8]; /* the bytes of the NOPs */
  uint8_t bytes;     /* size of the NOPs; the function continues after them; 0: too few */
  bool is_one;       /* one NOP, not several */
  bool wanted;       /* for the caller's use */
} patch_t;

/* The stubs of an image. */
typedef struct patch_stubs {
  uint64_t low, high; /* the range from the first to the last place */
  uint32_t count;
  uint64_t start, bytes;
  int64_t distance; /* from a place to its stub, where it is the same for all */
} patch_stubs_t;

/* The size of the landing pad that CODE begins with (endbr64, bti c), or 0. */
uint32_t patch_mark_bytes(const uint8_t *code);

/* The size of the NOP that CODE begins with, or 0. */
uint32_t patch_nop_bytes(const uint8_t *code);

/* Fills in PATCH for the NOPs at PLACE, where PATCH_CODE_READ bytes are readable. Returns false
 * when there are too few NOPs. */
bool patch_look(uint64_t place, patch_t *patch);

/* Computes candidate number TRY for the address of the stubs of `low`, `high` and `count`, and
 * fills in `start` and `bytes`. Returns false when there are fewer candidates. */
bool patch_stubs_place(patch_stubs_t *stubs, uint32_t try);

/* Writes stub number NUMBER. The stub loads DATA into the register that trampolines read (r11, x17)
 * and jumps to BODY. Returns the address through which the function continues after the NOPs. */
uint64_t patch_stub(const patch_stubs_t *stubs, uint32_t number, const patch_t *patch,
                    uint64_t data, uint64_t body);

/* Executes step number STEP of the change to a jump (ON) or back to NOPs. */
void patch_step(const patch_stubs_t *stubs, uint32_t number, const patch_t *patch, bool on,
                uint32_t step);

#endif
