/* SPDX-License-Identifier: MIT
 *
 * A rule: what a walk does at one pc, in 32 bits.
 *
 * 98 to 99.99 % of the rows that compilers write say no more than this: the CFA is the stack or
 * frame pointer plus a constant, and the return address and the saved frame pointer are at constant
 * offsets below it. Such a row becomes a rule, which is found once for each pc and kept. For all
 * other rows the rule names the slower method.
 *
 *   bits  0..2   kind
 *   bits  3..17  CFA minus the register, in words of 8 bytes: masked, they are the bytes
 *   bits 18..27  words from the CFA down to the saved frame pointer; 0: it is not saved
 *   bits 28..31  where the return address is: RA_…
 */
#ifndef SONDE_UNWIND_RULE_H
#define SONDE_UNWIND_RULE_H

#include "image/image.h"
#include "unwind/cfi.h"
#include "unwind/machine.h"

typedef enum rule_kind {
  /* Not learned yet. */
  RULE_UNKNOWN = 0,
  /* CFA = stack pointer + words. */
  RULE_SP,
  /* CFA = frame pointer + words. */
  RULE_FP,
  /* Two registers cannot express the row: interpret it. */
  RULE_INTERPRET,
  /* The kernel's frame: the registers are in the ucontext above. */
  RULE_SIGNAL,
  /* The return address is undefined: the thread's first frame. */
  RULE_END,
  /* No row covers the pc. */
  RULE_NONE,
  /* As RULE_NONE. The code was executed to a return (infer/infer.h): the rule is as RULE_SP, or has
   * 0 words if only the frame pointer remains. */
  RULE_INFERRED,
} rule_kind_t;

typedef uint32_t rule_t;

#define RULE_CFA_WORDS_MAX  ((1u << 15) - 1)
#define RULE_SAVE_WORDS_MAX ((1u << 10) - 1)

/* Where the return address is. On x86_64 it is always just below the CFA. */
#define RA_BELOW_CFA   0u /* At CFA - 8. */
#define RA_IN_LR       1u /* aarch64: not saved yet, or already restored. */
#define RA_ABOVE_SAVED 2u /* aarch64: in the word above the saved frame pointer. */

static inline rule_t rule_make(rule_kind_t kind, uint32_t cfa_words, uint32_t save_words,
                               uint32_t ra) {
  return (rule_t)kind | cfa_words << 3 | save_words << 18 | ra << 28;
}
static inline rule_kind_t rule_kind(rule_t rule) { return (rule_kind_t)(rule & 7); }

/* The frame of a trampoline whose target has been called: the frame register points to the call
 * (hook/trampoline.h), a frame record with the caller's return address. It takes the place of the
 * trampoline's row, which must be interpreted. It restores the frame register from the word below
 * that of the return address. */
static inline rule_t rule_of_call(void) { return rule_make(RULE_INTERPRET, 1, 2, RA_BELOW_CFA); }

/* The rule of nearly all frames in x86_64 code with frame pointers. */
static inline rule_t rule_of_frame_pointer(void) { return rule_make(RULE_FP, 2, 2, RA_BELOW_CFA); }

/* For a rule that a frame cache may hold: true if it finds the caller by the frame register. */
static inline bool rule_uses_fp(rule_t rule) { return (rule & 6) == (RULE_FP & 6); }
_Static_assert((RULE_FP & 6) == (RULE_INTERPRET & 6) && (RULE_SP & 6) != (RULE_FP & 6),
               "rule_uses_fp");
static inline uint64_t rule_cfa_bytes(rule_t rule) { return rule & 0x3fff8; }
static inline uint64_t rule_save_bytes(rule_t rule) { return rule >> 15 & 0x1ff8; }
static inline uint32_t rule_ra(rule_t rule) { return rule >> 28; }

/* Words from the slot of the return address that RULE leads to, up to the stack pointer after the
 * return. */
static inline uint64_t rule_sp_words(rule_t rule) {
  return rule_ra(rule) == RA_ABOVE_SAVED ? rule_save_bytes(rule) / 8 - 1 : 1;
}
/* Words from that slot down to where RULE restores the frame register from; 0 if it does not. */
static inline int64_t rule_restored_words(rule_t rule) {
  int64_t save = (int64_t)(rule_save_bytes(rule) / 8);
  return save ? save - (int64_t)rule_sp_words(rule) : 0;
}

/* Returns the rule that ROW amounts to at PC (run-time address). A pure function. */
rule_t rule_of_row(machine_t machine, const cfi_row_t *row, uint64_t pc);

/* Returns the rule for the frame whose pc is PC, a run-time address in IMAGE; unless EXACT, PC is a
 * return address. */
rule_t rule_learn(machine_t machine, const image_t *image, uint64_t pc, bool exact);

#endif
