/* SPDX-License-Identifier: MIT
 *
 * Search tables of unwind sections that have none: a search by table finds what a search from the
 * section's start finds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "sonde/status.h"
#include "unwind/cfi.h"

/* The result for ADDRESS must be the same in both images. Returns whether there is a row. */
static bool same_row(const image_t *a, const image_t *b, uint64_t address) {
  cfi_row_t rows[2];
  memset(rows, 0, sizeof rows);
  int status = cfi_find_row(a, address, &rows[0]);
  assert_int_equal(cfi_find_row(b, address, &rows[1]), status);
  assert_memory_equal(&rows[0], &rows[1], sizeof rows[0]);
  return status == 0;
}

/* This program's .eh_frame, without the linker's table. */
static void an_eh_frame_without_header(void **state) {
  static image_t file, scanned, indexed;
  (void)state;
  assert_int_equal(image_open(&file, "/proc/self/exe"), 0);
  file.debug_frame = (section_t){0};
  scanned = file;
  scanned.eh_frame_hdr = (section_t){0};
  indexed = scanned;
  cfi_index(&indexed, true);
  assert_non_null(indexed.eh_frame_hdr.data);
  unsigned found = 0, missed = 0;
  for (uint32_t i = 0; i < file.segment_count; i++) {
    const segment_t *s = &file.segments[i];
    uint64_t step = s->size / 1500 + 1;
    for (uint64_t at = 0; s->flags & 1 && at < s->size; at += step)
      same_row(&scanned, &indexed, s->address + at) ? found++ : missed++;
  }
  assert_true(found > 500 && missed > 0);
  cfi_index(&indexed, false);
  assert_null(indexed.eh_frame_hdr.data);
  image_close(&file);
}

typedef struct __attribute__((packed)) fde {
  uint32_t length, cie;
  uint64_t start, size;
  uint8_t def_cfa_offset, offset, nops[2];
} fde_t;

typedef struct __attribute__((packed)) debug_frame {
  struct __attribute__((packed)) {
    uint32_t length, id;
    uint8_t version, augmentation, code_align, data_align, return_register, def_cfa[3];
  } cie;
  fde_t fdes[4];
} debug_frame_t;

#define FDE(start, size, offset)                                                                   \
  {                                                                                                \
    24, 0, start, size, 0x0e, offset, { 0 }                                                        \
  }

static image_t with_debug_frame(const debug_frame_t *frames) {
  return (image_t){.debug_frame = {(const uint8_t *)frames, sizeof *frames, 0}};
}

/* Its addresses are absolute, and here not in order. */
static void a_debug_frame(void **state) {
  (void)state;
  debug_frame_t frames = {
      {12, 0xffffffff, 1, 0, 1, 0x78, 16, {0x0c, 7, 8}},
      {FDE(0x3000, 0x10, 32), FDE(0x1000, 0x100, 48), FDE(0x2000, 0, 8), FDE(0x1100, 1, 64)}};
  image_t scanned = with_debug_frame(&frames), indexed = scanned;
  cfi_index(&indexed, true);
  assert_non_null(indexed.debug_frame_hdr.data);
  assert_null(indexed.eh_frame_hdr.data);
  unsigned found = 0;
  for (uint64_t address = 0xff0; address < 0x3100; address++)
    found += same_row(&scanned, &indexed, address);
  assert_int_equal(found, 0x100 + 1 + 0x10);
  cfi_row_t row;
  assert_int_equal(cfi_find_row(&indexed, 0x1100, &row), 0);
  assert_int_equal(row.cfa_offset, 64);
  cfi_index(&indexed, false);
  assert_null(indexed.debug_frame_hdr.data);
  /* An address that does not fit into the table: the section is searched as ever. */
  frames.fdes[2] = (fde_t)FDE(UINT64_C(0x7fff00000000), 0x10, 80);
  indexed = with_debug_frame(&frames);
  cfi_index(&indexed, true);
  assert_null(indexed.debug_frame_hdr.data);
  assert_int_equal(cfi_find_row(&indexed, UINT64_C(0x7fff00000004), &row), 0);
  assert_int_equal(row.cfa_offset, 80);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_eh_frame_without_header),
      cmocka_unit_test(a_debug_frame),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
