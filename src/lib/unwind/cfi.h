/* SPDX-License-Identifier: MIT
 *
 * Call frame information: from an address to the row of unwind rules that holds there.
 *
 * Reads `.eh_frame` (through the binary search table of `.eh_frame_hdr` where there is one) and
 * `.debug_frame`. Format: DWARF 5 section 6.4, with the pointer encodings and augmentations of the
 * Linux Standard Base, "Exception Frames". Async-signal-safe: no memory is allocated, nothing but
 * the image's own bytes is read, and every read is checked against them.
 */
#ifndef SONDE_UNWIND_CFI_H
#define SONDE_UNWIND_CFI_H

#include "image/image.h"
#include "unwind/machine.h"
#include "unwind/memory.h"

/* Where the caller's value of a register is. */
typedef enum cfi_how {
  CFI_SAME = 0,       /* in the register itself */
  CFI_UNDEFINED,      /* nowhere */
  CFI_OFFSET,         /* in memory at CFA + offset */
  CFI_VAL_OFFSET,     /* it is CFA + offset */
  CFI_REGISTER,       /* in register `offset` */
  CFI_EXPRESSION,     /* in memory at the address an expression gives (CFA pushed first) */
  CFI_VAL_EXPRESSION, /* it is what an expression gives (CFA pushed first) */
} cfi_how_t;

/* Kept to 8 bytes: a row lives on the stack of a thread that may have little left. */
typedef struct cfi_rule {
  int32_t offset;  /* of an expression: where it starts in the row's `expressions` */
  uint16_t length; /* of an expression */
  uint8_t how;     /* cfi_how_t */
} cfi_rule_t;

typedef struct cfi_row {
  uint64_t function_start, function_end; /* what the FDE covers, as linked */
  uint64_t row_start, row_end;           /* what this row covers, as linked */
  bool cfa_is_expression;
  uint8_t cfa_register;
  uint16_t cfa_length;        /* of the CFA's expression */
  int64_t cfa_offset;         /* of an expression: where it starts in `expressions` */
  const uint8_t *expressions; /* the section that the row came from */
  uint8_t return_register;    /* the column of the return address */
  bool signal_frame;          /* augmentation 'S': the frame was made by the kernel */
  bool ra_signed;             /* aarch64: the return address is signed (RA_SIGN_STATE is 1) */
  cfi_rule_t rules[REGS_COUNT];
} cfi_row_t;

/* Finds the row for ADDRESS (as linked) of IMAGE. Returns 0; SONDE_ENOTFOUND when no FDE covers it;
 * SONDE_EFORMAT when the information is malformed. */
int cfi_find_row(const image_t *image, machine_t machine, uint64_t address, cfi_row_t *row);

/* The row of a frame whose pc, as linked, is PC; unless it is EXACT, PC is a return address and the
 * row that of the call before it. Two addresses are returned to though no call lies before them,
 * for they were put on the stack by hand, and the row is the one at PC itself: that of a signal
 * trampoline, and the first instruction of a function, at which a fiber (makecontext) ends. Nothing
 * lies further out than the latter, so its return address is said to be undefined. */
int cfi_find_frame_row(const image_t *image, machine_t machine, uint64_t pc, bool exact,
                       cfi_row_t *row);

/* What an expression touched, for those who want to turn it into a constant. */
#define EXPRESSION_READ_MEMORY 1u
#define EXPRESSION_READ_OTHER  2u /* a register other than the stack pointer and the pc */

/* Evaluates a DWARF expression (DWARF 5 section 2.5) over REGS and MEMORY. INITIAL, when not NULL,
 * is pushed first. Bounded in steps and depth. Returns 0, SONDE_EFAULT (unreadable memory),
 * SONDE_ENOTFOUND (a register is not known) or SONDE_EFORMAT. TOUCHED may be NULL. */
int cfi_evaluate(const uint8_t *expression, uint64_t length, machine_t machine, const regs_t *regs,
                 memory_t *memory, const uint64_t *initial, uint64_t *result, unsigned *touched);

#endif
