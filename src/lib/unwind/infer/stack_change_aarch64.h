/* SPDX-License-Identifier: MIT
 *
 * The effect of one aarch64 instruction on the stack (Arm ARM, C6.2), for code without unwind
 * information.
 */
#ifndef SONDE_UNWIND_INFER_STACK_CHANGE_AARCH64_H
#define SONDE_UNWIND_INFER_STACK_CHANGE_AARCH64_H

#include <stdbool.h>
#include <stdint.h>

/* A signed field of BITS bits at LOW. */
static inline int64_t a64_field(uint32_t w, unsigned low, unsigned bits) {
  return (int64_t)((int32_t)(w << (32 - low - bits)) >> (32 - bits));
}

typedef enum stack_effect {
  STACK_EFFECT_NONE,
  /* Saves x29 and x30, or x30 alone. */
  STACK_EFFECT_SAVE,
  /* Restores them. */
  STACK_EFFECT_RESTORE,
  /* Moves the stack pointer in a way that is not decoded. */
  STACK_EFFECT_UNKNOWN,
} stack_effect_t;

typedef struct stack_change {
  stack_effect_t effect;
  /* Bytes by which the stack pointer goes down; negative: up. */
  int64_t pushed;
  /* Of a save or restore: offset of x30 from the lower stack pointer. */
  int64_t x30_at;
  /* x29 is saved below x30. */
  bool with_fp;
} stack_change_t;

/* An instruction that this function does not decode, such as another load with write-back to sp, is
 * STACK_EFFECT_UNKNOWN. */
static inline stack_change_t stack_change_of(uint32_t w) {
  switch (w & 0xffc07fff) {
  case 0xa9807bfd: return (stack_change_t){STACK_EFFECT_SAVE, -a64_field(w, 15, 7) * 8, 8, true};
  case 0xa9807bf0: return (stack_change_t){STACK_EFFECT_SAVE, -a64_field(w, 15, 7) * 8, 8, false};
  case 0xa9007bfd: return (stack_change_t){STACK_EFFECT_SAVE, 0, a64_field(w, 15, 7) * 8 + 8, true};
  case 0xa8c07bfd: return (stack_change_t){STACK_EFFECT_RESTORE, -a64_field(w, 15, 7) * 8, 8, true};
  case 0xa9407bfd:
    return (stack_change_t){STACK_EFFECT_RESTORE, 0, a64_field(w, 15, 7) * 8 + 8, true};
  }
  switch (w & 0xffe00fff) {
  case 0xf8000ffe: return (stack_change_t){STACK_EFFECT_SAVE, -a64_field(w, 12, 9), 0, false};
  case 0xf84007fe: return (stack_change_t){STACK_EFFECT_RESTORE, -a64_field(w, 12, 9), 0, false};
  }
  /* Pushes and pops of other registers: stp and ldp of x and d, str and ldr. */
  switch (w & 0xffc003e0) {
  case 0xa98003e0:
  case 0x6d8003e0:
  case 0xa8c003e0:
  case 0x6cc003e0: return (stack_change_t){STACK_EFFECT_NONE, -a64_field(w, 15, 7) * 8, 0, false};
  }
  switch (w & 0xffe00fe0) {
  case 0xf8000fe0:
  case 0xf84007e0: return (stack_change_t){STACK_EFFECT_NONE, -a64_field(w, 12, 9), 0, false};
  }
  int64_t amount = (int64_t)(w >> 10 & 0xfff);
  switch (w & 0xffc003ff) {
  case 0xd10003ff: return (stack_change_t){STACK_EFFECT_NONE, amount, 0, false};
  case 0x910003ff: return (stack_change_t){STACK_EFFECT_NONE, -amount, 0, false};
  }
  /* Any other write to sp: add, sub, and and orr to it; loads and stores with write-back. */
  bool arithmetic = (w & 0x1f000000) == 0x11000000 || (w & 0x1fe00000) == 0x0b200000 ||
                    (w & 0x1f800000) == 0x12000000;
  bool write_back = ((w & 0x3a800000) == 0x28800000) || ((w & 0x3b200400) == 0x38000400);
  if (arithmetic && (w & 31) == 31 && !(w >> 29 & 1))
    return (stack_change_t){.effect = STACK_EFFECT_UNKNOWN};
  if (write_back && (w >> 5 & 31) == 31) return (stack_change_t){.effect = STACK_EFFECT_UNKNOWN};
  return (stack_change_t){.effect = STACK_EFFECT_NONE};
}

#endif
