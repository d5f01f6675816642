/* SPDX-License-Identifier: MIT
 *
 * Call frame information: finds the row of unwind rules for an address.
 *
 * Reads `.eh_frame` (through the binary search table of `.eh_frame_hdr` if there is one) and
 * `.debug_frame`. Format: DWARF 5 section 6.4, with the pointer encodings and augmentations of the
 * Linux Standard Base, "Exception Frames".
 *
 * All functions are async-signal-safe and lock-free: they allocate no memory, read only the image's
 * own bytes, and check every read against their bounds.
 */
#ifndef SONDE_UNWIND_CFI_H
#define SONDE_UNWIND_CFI_H

#include "image/image.h"
#include "unwind/machine.h"
#include "unwind/memory.h"

/* Where the caller's value of a register is. */
typedef enum cfi_how {
  /* In the register itself. */
  CFI_SAME = 0,
  /* Nowhere. */
  CFI_UNDEFINED,
  /* In memory at CFA + offset. */
  CFI_OFFSET,
  /* It is CFA + offset. */
  CFI_VAL_OFFSET,
  /* In register `offset`. */
  CFI_REGISTER,
  /* In memory at the address that an expression returns (CFA pushed first). */
  CFI_EXPRESSION,
  /* It is the result of an expression (CFA pushed first). */
  CFI_VAL_EXPRESSION,
} cfi_how_t;

/* Limited to 8 bytes, since a row is on the stack of a thread that may have little stack left. */
typedef struct cfi_rule {
  /* Of an expression: its offset in the row's `expressions`. */
  int32_t offset;
  /* Length of an expression. */
  uint16_t length;
  /* A cfi_how_t. */
  uint8_t how;
} cfi_rule_t;

typedef struct cfi_row {
  /* The range of the FDE, as linked. */
  uint64_t function_start, function_end;
  /* The range of this row, as linked. */
  uint64_t row_start, row_end;
  bool cfa_is_expression;
  uint8_t cfa_register;
  /* Length of the CFA's expression. */
  uint16_t cfa_length;
  /* If the CFA is an expression, its offset in `expressions`. */
  int64_t cfa_offset;
  /* The section that the row came from. */
  const uint8_t *expressions;
  /* The column of the return address. */
  uint8_t return_register;
  /* Augmentation 'S': the kernel made the frame. */
  bool signal_frame;
  /* aarch64: the return address is signed (RA_SIGN_STATE is 1). */
  bool ra_signed;
  cfi_rule_t rules[REGS_COUNT];
} cfi_row_t;

/* Finds the row for ADDRESS (as linked) of IMAGE. Returns 0; SONDE_ENOTFOUND if no FDE covers it;
 * SONDE_EFORMAT if the information is malformed. */
int cfi_find_row(const image_t *image, uint64_t address, cfi_row_t *row);

/* Builds the search tables of sections that have none: of .eh_frame, and of .debug_frame. Without a
 * table, each search reads the section from its start. Not built on out of memory, and for
 * addresses that do not fit into the table. Without BUILD, unmaps the tables that were built. */
void cfi_index(image_t *image, bool build);

/* Finds the row of a frame whose pc, as linked, is PC. Unless EXACT, PC is a return address, and
 * the row is that of the call before it. Two return addresses have no call before them, since code
 * put them on the stack: that of a signal trampoline, and a function's first instruction, at which
 * a fiber (makecontext) ends. For these the row is the one at PC itself. Nothing is further out
 * than a fiber's end, so its return address is undefined. */
int cfi_find_frame_row(const image_t *image, machine_t machine, uint64_t pc, bool exact,
                       cfi_row_t *row);

/* The kinds of values that an expression read; rule.c uses them to find constant expressions. */
#define EXPRESSION_READ_MEMORY 1u
/* A register other than the stack pointer and the pc. */
#define EXPRESSION_READ_OTHER 2u

/* Evaluates a DWARF expression (DWARF 5 section 2.5) over REGS and MEMORY. INITIAL, unless NULL, is
 * pushed first. Steps and depth are limited. Returns 0, SONDE_EFAULT (unreadable memory),
 * SONDE_ENOTFOUND (unknown register) or SONDE_EFORMAT. TOUCHED may be NULL. */
int cfi_evaluate(const uint8_t *expression, uint64_t length, machine_t machine, const regs_t *regs,
                 memory_t *memory, const uint64_t *initial, uint64_t *result, unsigned *touched);

#endif
