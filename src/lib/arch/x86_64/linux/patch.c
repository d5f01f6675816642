/* SPDX-License-Identifier: MIT
 *
 * Patching of function entries on x86_64.
 *
 * gcc emits five NOPs of one byte. A thread may be between any two of them, for an unlimited time,
 * when they become a jump of five bytes: `e9` and a distance. So the four bytes of the distance are
 * themselves harmless one-byte instructions: clc, stc, cmc, cld, nop. They change only flags, which
 * have no meaning at a function's entry (psABI 3.2.3: DF is clear there). These four bytes are
 * written first; a thread among them continues into the function. Then one store of one byte writes
 * `e9` in front of them.
 *
 * Only a few hundred distances have this form. One of them serves a whole image: the stubs are a
 * mirror of the image's code at this distance, in which each place has its own jump to a thunk.
 * Only pages of the mirror that hold such a jump use memory. For a program at a fixed low address
 * the mirror must be above the program. Then the last byte is a segment prefix, which has no effect
 * on the function's first instruction (Intel SDM volume 1, 3.3.4: in 64-bit mode the bases of CS,
 * DS, ES and SS are 0).
 *
 * clang emits one NOP of five bytes or more. No thread can be inside it. It first becomes a jump
 * over itself, like a sled: two bytes by one store. Unaligned code (-Oz) may have these bytes in
 * two words, and another processor could fetch one word before and one after the store. Such
 * functions are not patched.
 */
#include "arch/patch.h"

#include <string.h>

#include "base/bits.h"

#define PAGE        UINT64_C(4096)
#define JUMP_BYTES  5u
#define THUNK_BYTES 16u
#define NOP         0x90u
#define LONG_MAX    9u
#define WORD        8u /* aligned words are atomic: Intel SDM 3A 9.1.1, AMD64 APM 2 7.3.2 */

uint32_t patch_mark_bytes(const uint8_t *code) {
  static const uint8_t endbr64[4] = {0xf3, 0x0f, 0x1e, 0xfa};
  return memcmp(code, endbr64, sizeof endbr64) ? 0 : sizeof endbr64;
}

/* The NOPs of assemblers and compilers (Intel SDM volume 2, NOP, table 4-12). */
uint32_t patch_nop_bytes(const uint8_t *code) {
  uint32_t i = 0;
  while (i < 4 && (code[i] == 0x66 || code[i] == 0x2e))
    i++;
  if (code[i] == NOP) return i + 1;
  if (code[i] != 0x0f || code[i + 1] != 0x1f) return 0;
  uint8_t mode = code[i + 2] >> 6, base = code[i + 2] & 7;
  return i + 3 + (base == 4) + (mode == 1 ? 1 : mode == 2 ? 4 : 0);
}

bool patch_look(uint64_t place, patch_t *patch) {
  const uint8_t *code = (const uint8_t *)(uintptr_t)place;
  uint32_t first = patch_nop_bytes(code), ones = 0;
  while (ones < JUMP_BYTES && code[ones] == NOP)
    ones++;
  patch->place = place;
  memcpy(patch->before, code, sizeof patch->before);
  patch->is_one = first >= JUMP_BYTES && first <= LONG_MAX && place % WORD != WORD - 1;
  patch->bytes = (uint8_t)(patch->is_one ? first : ones == JUMP_BYTES ? JUMP_BYTES : 0);
  return patch->bytes != 0;
}

/* Distance number TRY. The last byte selects the range, the byte before it shifts by megabytes. */
static int32_t distance_of(uint32_t try) {
  static const uint8_t last[] = {0xf8, 0xf9, 0xfc, 0xf5, NOP, 0x3e, 0x36, 0x2e, 0x26};
  static const uint8_t third[] = {0xf8, 0xf5, 0xfc, NOP};
  if (try >= ARRAY_COUNT(last) * ARRAY_COUNT(third)) return 0;
  uint32_t end = last[try / ARRAY_COUNT(third)], shift = third[try % ARRAY_COUNT(third)];
  return (int32_t)(end << 24 | shift << 16 | 0xf8f8);
}

/* The layout is: the mirror, the address of the body, the thunks. */
static uint64_t mirror_bytes(const patch_stubs_t *s) {
  return ALIGN_DOWN(s->high - s->low, PAGE) + 3 * PAGE;
}

static uint64_t thunk_of(const patch_stubs_t *s, uint32_t number) {
  return s->start + mirror_bytes(s) + (number + UINT64_C(1)) * THUNK_BYTES;
}

bool patch_stubs_place(patch_stubs_t *s, uint32_t try) {
  int32_t distance = distance_of(try);
  uint64_t start = ALIGN_DOWN(s->low + (uint64_t)(int64_t)distance, PAGE);
  if (!distance) return false;
  s->bytes = mirror_bytes(s) + ALIGN_UP((s->count + UINT64_C(1)) * THUNK_BYTES, PAGE);
  bool below = distance < 0 && start < s->low && start + s->bytes < s->low;
  bool above = distance > 0 && start > s->high;
  s->start = below || above ? start : 0;
  s->distance = distance;
  return true;
}

static void put_jump(uint64_t at, uint64_t to) {
  int32_t distance = (int32_t)(to - (at + JUMP_BYTES));
  uint8_t *code = (uint8_t *)(uintptr_t)at;
  code[0] = 0xe9;
  memcpy(code + 1, &distance, sizeof distance);
}

uint64_t patch_stub(const patch_stubs_t *s, uint32_t number, const patch_t *patch, uint64_t data,
                    uint64_t body) {
  uint64_t thunk = thunk_of(s, number), word = thunk_of(s, 0) - THUNK_BYTES;
  uint8_t *code = (uint8_t *)(uintptr_t)thunk;
  int32_t to_word = (int32_t)(word - (thunk + THUNK_BYTES));
  put_jump(patch->place + JUMP_BYTES + (uint64_t)s->distance, thunk);
  memcpy((void *)(uintptr_t)word, &body, sizeof body);
  code[0] = 0x49, code[1] = 0xbb; /* movabs $data, %r11 */
  memcpy(code + 2, &data, sizeof data);
  code[10] = 0xff, code[11] = 0x25; /* jmp *word(%rip) */
  memcpy(code + 12, &to_word, sizeof to_word);
  return patch->place + patch->bytes;
}

static void put_two(uint8_t *code, uint8_t first, uint8_t second) {
  store_release((uint16_t *)(void *)code, (uint16_t)(first | second << 8));
}

void patch_step(const patch_stubs_t *s, uint32_t number, const patch_t *patch, bool on,
                uint32_t step) {
  uint8_t *code = (uint8_t *)(uintptr_t)patch->place;
  int32_t distance = (int32_t)s->distance;
  uint8_t tail[sizeof distance];
  (void)number;
  memcpy(tail, &distance, sizeof tail);
  if (step == 1) {
    if (!patch->is_one) store_release(code + 1, on ? tail[0] : patch->before[1]);
    for (uint32_t i = 1; i < sizeof tail; i++)
      store_release(code + 1 + i, on ? tail[i] : patch->before[1 + i]);
  } else if (patch->is_one && (step == 0 || !on)) {
    if (step == 0)
      put_two(code, 0xeb, (uint8_t)(patch->bytes - 2)); /* jmp over the rest */
    else
      put_two(code, patch->before[0], patch->before[1]);
  } else if (patch->is_one) {
    put_two(code, 0xe9, tail[0]);
  } else if (step == (on ? 2 : 0)) {
    store_release(code, on ? 0xe9 : patch->before[0]);
  }
}
