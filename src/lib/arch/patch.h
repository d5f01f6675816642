/* SPDX-License-Identifier: MIT
 *
 * NOPs at a function's entry (-fpatchable-function-entry) that become a jump to a stub, and again
 * NOPs, while threads run through them. x86_64/patch.c and aarch64/patch.c say why nothing that a
 * thread can meet on its way is ever an instruction that does harm.
 *
 * A change has three steps. Between two of them every thread must have begun to fetch its
 * instructions anew (os_sync_code). Code that is written must be writable.
 */
#ifndef SONDE_ARCH_PATCH_H
#define SONDE_ARCH_PATCH_H

#include <stdbool.h>
#include <stdint.h>

#define PATCH_STEPS     3
#define PATCH_TRIES     64 /* places for stubs, at most */
#define PATCH_CODE_READ 16 /* bytes of code that are looked at */

typedef struct patch {
  uint64_t place;    /* of the NOPs */
  uint8_t before[8]; /* what stands there */
  uint8_t bytes;     /* behind so many the function goes on; 0: no room */
  bool is_one;       /* one NOP, not several */
  bool wanted;       /* yours */
} patch_t;

/* Where the stubs of an image are. */
typedef struct patch_stubs {
  uint64_t low, high; /* what lies between the first and the last place */
  uint32_t count;
  uint64_t start, bytes;
  int64_t distance; /* of a stub from its place, where that is the same for all */
} patch_stubs_t;

/* Bytes of the landing mark that CODE begins with (endbr64, bti c), else 0. */
uint32_t patch_mark_bytes(const uint8_t *code);

/* Bytes of the NOP that CODE begins with; 0: it begins with none. */
uint32_t patch_nop_bytes(const uint8_t *code);

/* Fills in PATCH for the NOPs at PLACE, of which PATCH_CODE_READ bytes are readable. False when
 * there are too few. */
bool patch_look(uint64_t place, patch_t *patch);

/* The place number TRY at which the stubs for `low`, `high` and `count` may be: fills in `start`
 * and `bytes`. False when there is none of this number. */
bool patch_stubs_place(patch_stubs_t *stubs, uint32_t try);

/* Writes stub number NUMBER, which loads DATA into the register that trampolines take it from (r11,
 * x17) and goes to BODY. Returns the address that leads on behind the NOPs. */
uint64_t patch_stub(const patch_stubs_t *stubs, uint32_t number, const patch_t *patch,
                    uint64_t data, uint64_t body);

/* Step number STEP on the way to a jump (ON), or back. */
void patch_step(const patch_stubs_t *stubs, uint32_t number, const patch_t *patch, bool on,
                uint32_t step);

#endif
