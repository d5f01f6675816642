/* SPDX-License-Identifier: MIT
 *
 * Call frame information. The input becomes the sections of an image, with headers that are valid
 * often enough to reach the parser; then the target looks up rows and unwinds with them.
 *
 *   byte 0       bit 0: aarch64; 1: .debug_frame, not .eh_frame; 2: with .eh_frame_hdr
 *   bytes 1, 2   how many of the rest are the header's
 */
#include <stddef.h>
#include <string.h>

#include "unwind/cfi.h"
#include "unwind/cfi_step.h"
#include "unwind/rule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SLIDE  0x10000000u
#define FRAMES 0x2000u
#define HEADER 0x1000u

static image_t image;

static const image_t *find(images_t *self, uint64_t pc) {
  (void)self;
  return pc >= SLIDE && pc < SLIDE + 0x100000 ? &image : NULL;
}

static bool read_some(memory_t *self, uint64_t address, void *out, size_t size) {
  (void)self;
  if (address % 5 == 1 || size > 512) return false;
  uint8_t *to = out;
  for (size_t i = 0; i < size; i++)
    to[i] = (uint8_t)((address + i) * 7 >> (i & 7));
  return true;
}

static void step_from(machine_t machine, uint64_t pc, bool exact) {
  memory_t memory = {read_some};
  images_t images = {find};
  regs_t regs = {.pc = pc, .known = (1ull << REGS_COUNT) - 1};
  for (int i = 0; i < REGS_COUNT; i++)
    regs.r[i] = 0x7ff000000000u + (uint64_t)i * 64;
  for (int i = 0; i < 8; i++) {
    regs_t before = regs;
    unwind_step_t step = cfi_step(machine, &memory, &images, &regs, exact);
    if (step > STEP_SIGNAL) {
      if (memcmp(&before, &regs, sizeof regs)) __builtin_trap(); /* must stay unchanged */
      return;
    }
    int sp = machine_sp(machine);
    /* The caller's frame is further out, unless code may be switching stacks. */
    if (step == STEP_CALLER && !exact && regs.r[sp] < before.r[sp]) __builtin_trap();
    exact = step == STEP_SIGNAL;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 3) return 0;
  machine_t machine = data[0] & 1 ? MACHINE_AARCH64 : MACHINE_X86_64;
  size_t header = data[1] | (size_t)data[2] << 8;
  const uint8_t *rest = data + 3;
  size -= 3;
  if (header > size) header = size;
  section_t frames_section = {rest + header, size - header, FRAMES};
  memset(&image, 0, sizeof image);
  image.slide = SLIDE;
  image.start = SLIDE;
  image.end = SLIDE + 0x100000;
  if (data[0] & 2)
    image.debug_frame = frames_section;
  else
    image.eh_frame = frames_section;
  if (data[0] & 4) image.eh_frame_hdr = (section_t){rest, header, HEADER};
  const uint64_t places[] = {0, 1, 0x1000, 0x1004, 0x1fff, 0x2000, 0x3001, 0x4000, 0xfffff};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    cfi_row_t row;
    int status = cfi_find_row(&image, places[i], &row);
    if (status > 0) __builtin_trap();
    if (!status && (places[i] < row.function_start || places[i] >= row.function_end))
      __builtin_trap();
    (void)rule_learn(machine, &image, places[i] + SLIDE, i & 1);
    step_from(machine, places[i] + SLIDE, i & 1);
  }
  return 0;
}
