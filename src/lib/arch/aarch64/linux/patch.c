/* SPDX-License-Identifier: MIT
 *
 * Patching of function entries on aarch64.
 *
 * The first NOP becomes a branch to a stub. NOP and B are among the instructions that may replace
 * each other while other processors execute them (Arm ARM B2.2.5), so one store suffices.
 *
 * A stub loads two words that follow it. Between them is a branch to the rest of the function,
 * which is called in place of the function. In a page with branch target identification (BTI) the
 * code after the NOPs cannot be called, since it has no landing pad; but a direct branch may reach
 * it.
 */
#include "arch/patch.h"

#include <string.h>

#include "arch/arch.h"
#include "base/bits.h"

#define NOP        0xd503201fu
#define BTI_C      0xd503245fu
#define BRANCH     0x14000000u
#define REACH      (UINT64_C(128) << 20)
#define STEP       (UINT64_C(2) << 20)
#define STUB_BYTES 32u

static uint32_t word_at(const uint8_t *code) {
  uint32_t word;
  memcpy(&word, code, sizeof word);
  return word;
}

uint32_t patch_mark_bytes(const uint8_t *code) { return word_at(code) == BTI_C ? 4 : 0; }
uint32_t patch_nop_bytes(const uint8_t *code) { return word_at(code) == NOP ? 4 : 0; }

bool patch_look(uint64_t place, patch_t *patch) {
  const uint8_t *code = (const uint8_t *)(uintptr_t)place;
  patch->place = place;
  patch->is_one = true;
  memcpy(patch->before, code, sizeof patch->before);
  patch->bytes = (uint8_t)(place % 4 ? 0 : patch_nop_bytes(code));
  return patch->bytes != 0;
}

/* Candidates below the code and above it, at growing distances, all within the range of a branch.
 */
bool patch_stubs_place(patch_stubs_t *s, uint32_t try) {
  uint64_t away = (try / 2 + 1) * STEP, span = s->high - s->low;
  s->bytes = ALIGN_UP(s->count * UINT64_C(32), UINT64_C(65536));
  uint64_t below = ALIGN_DOWN(s->low, STEP) - s->bytes - away;
  uint64_t above = ALIGN_UP(s->high, STEP) + away;
  if (span + s->bytes + away + 2 * STEP >= REACH) return false;
  s->start = try % 2 ? above : below < s->low ? below : 0;
  return true;
}

static uint64_t stub_of(const patch_stubs_t *s, uint32_t number) {
  return s->start + number * UINT64_C(32);
}

static uint32_t branch(uint64_t from, uint64_t to) {
  return BRANCH | ((uint32_t)((int64_t)(to - from) >> 2) & 0x3ffffffu);
}

uint64_t patch_stub(const patch_stubs_t *s, uint32_t number, const patch_t *patch, uint64_t data,
                    uint64_t body) {
  uint64_t stub = stub_of(s, number), on = stub + 12;
  const uint32_t code[4] = {
      0x58000080u | 17, /* ldr x17, stub + 16 */
      0x580000a0u | 16, /* ldr x16, stub + 24 */
      0xd61f0200u,      /* br x16 */
      branch(on, patch->place + patch->bytes),
  };
  const uint64_t words[2] = {data, body};
  memcpy((void *)(uintptr_t)stub, code, sizeof code);
  memcpy((void *)(uintptr_t)(stub + sizeof code), words, sizeof words);
  arch_code_written(stub, STUB_BYTES);
  return on;
}

void patch_step(const patch_stubs_t *s, uint32_t number, const patch_t *patch, bool on,
                uint32_t step) {
  if (step != PATCH_STEPS - 1) return;
  uint32_t word = on ? branch(patch->place, stub_of(s, number)) : word_at(patch->before);
  store_release((uint32_t *)(uintptr_t)patch->place, word);
  arch_code_written(patch->place, sizeof word);
}
