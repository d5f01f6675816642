/* SPDX-License-Identifier: MIT
 *
 * A .debug_frame or .eh_frame section written by hand, byte by byte, for tests of its readers.
 */
#ifndef SONDE_TESTS_FRAME_BYTES_H
#define SONDE_TESTS_FRAME_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "unwind/cfi.h"

/* DWARF 5 section 6.4.2 and table 7.29. */
enum {
  ADVANCE = 0x40, /* | delta */
  OFFSET = 0x80,  /* | register */
  RESTORE = 0xc0, /* | register */
  SET_LOC = 0x01,
  ADVANCE1,
  ADVANCE2,
  ADVANCE4,
  OFFSET_EXTENDED,
  RESTORE_EXTENDED,
  UNDEFINED,
  SAME_VALUE,
  REGISTER,
  REMEMBER,
  RESTORE_STATE,
  DEF_CFA,
  DEF_CFA_REGISTER,
  DEF_CFA_OFFSET,
  DEF_CFA_EXPRESSION,
  EXPRESSION,
  OFFSET_EXTENDED_SF,
  DEF_CFA_SF,
  DEF_CFA_OFFSET_SF,
  VAL_OFFSET,
  VAL_OFFSET_SF,
  VAL_EXPRESSION,
  NEGATE_RA_STATE = 0x2d,
};

typedef struct frame_bytes {
  uint8_t data[1024];
  size_t size, entry; /* where the entry that is being written starts */
} frame_bytes_t;

static inline void put_bytes(frame_bytes_t *b, const void *bytes, size_t size) {
  memcpy(b->data + b->size, bytes, size);
  b->size += size;
}
static inline void put_u32(frame_bytes_t *b, uint32_t value) { put_bytes(b, &value, 4); }
static inline void put_u64(frame_bytes_t *b, uint64_t value) { put_bytes(b, &value, 8); }

static inline void end_entry(frame_bytes_t *b) {
  while ((b->size - b->entry) % 4)
    b->data[b->size++] = 0; /* DW_CFA_nop */
  uint32_t length = (uint32_t)(b->size - b->entry - 4);
  memcpy(b->data + b->entry, &length, 4);
  b->entry = b->size;
}

/* A CIE of .debug_frame, version 4, at the start of the section. DATA_ALIGN is one byte of sleb128.
 */
static inline void put_cie(frame_bytes_t *b, uint8_t code_align, int8_t data_align,
                           uint8_t return_register, const uint8_t *code, size_t size) {
  const uint8_t head[] = {4, 0, 8, 0, code_align, (uint8_t)data_align & 0x7f, return_register};
  b->size = b->entry = 0;
  put_u32(b, 0);
  put_u32(b, 0xffffffff);
  put_bytes(b, head, sizeof head);
  put_bytes(b, code, size);
  end_entry(b);
}

static inline void put_fde(frame_bytes_t *b, uint64_t start, uint64_t bytes, const uint8_t *code,
                           size_t size) {
  put_u32(b, 0);
  put_u32(b, 0); /* its CIE is at offset 0 */
  put_u64(b, start);
  put_u64(b, bytes);
  put_bytes(b, code, size);
  end_entry(b);
}

/* A section of one CIE and one FDE, from arrays of instructions. */
#define MAKE_FRAMES(b, code_align, data_align, ra, start, bytes, cie_code, fde_code)               \
  (put_cie(b, code_align, data_align, ra, cie_code, sizeof(cie_code)),                             \
   put_fde(b, start, bytes, fde_code, sizeof(fde_code)))

static inline image_t image_of_frames(const frame_bytes_t *b, uint64_t slide) {
  return (image_t){.slide = slide,
                   .start = slide,
                   .end = slide + 0x100000,
                   .segment_count = 1,
                   .segments = {{.address = 0, .size = 0x100000, .flags = 5}},
                   .debug_frame = {b->data, b->size, 0}};
}

#endif
