/* SPDX-License-Identifier: MIT
 *
 * What one aarch64 instruction does to the stack (Arm ARM, C6.2): for those who read code because
 * nothing else tells of it.
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
  STACK_EFFECT_SAVE,    /* x29 and x30, or x30 alone, to memory */
  STACK_EFFECT_RESTORE, /* from memory */
  STACK_EFFECT_UNKNOWN, /* moves the stack pointer in a way that is not read here */
} stack_effect_t;

typedef struct stack_change {
  stack_effect_t effect;
  int64_t pushed; /* bytes by which the stack pointer goes down; negative: up */
  int64_t x30_at; /* of a save or restore: x30's place, from the stack pointer at its lower end */
  bool with_fp;   /* x29 is saved below x30 */
} stack_change_t;

/* What is not read here, such as a load with write-back to sp of another form, is
 * STACK_EFFECT_UNKNOWN.
 */
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
  /* Other registers, pushed and popped: stp and ldp of x and d, str and ldr. */
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
  /* Any other writer of sp: add, sub, and and orr to it; loads and stores of it with write-back. */
  bool arithmetic = (w & 0x1f000000) == 0x11000000 || (w & 0x1fe00000) == 0x0b200000 ||
                    (w & 0x1f800000) == 0x12000000;
  bool write_back = ((w & 0x3a800000) == 0x28800000) || ((w & 0x3b200400) == 0x38000400);
  if (arithmetic && (w & 31) == 31 && !(w >> 29 & 1))
    return (stack_change_t){.effect = STACK_EFFECT_UNKNOWN};
  if (write_back && (w >> 5 & 31) == 31) return (stack_change_t){.effect = STACK_EFFECT_UNKNOWN};
  return (stack_change_t){.effect = STACK_EFFECT_NONE};
}

#endif
