/* SPDX-License-Identifier: MIT
 *
 * A GLOB_DAT slot serves calls (-fno-plt) and taken addresses. A taken address may be compared with
 * another image's: Qt finds a signal by it. So the code that refers to the slot is read. A slot to
 * which only indirect calls and jumps refer may lead to a hook.
 *
 * A pointer in data counts as taken: libcrypto compares one with the content of a GLOB_DAT slot,
 * and jumps to it if they differ.
 *
 * On x86_64, such an instruction ends in the distance from its end to the slot. All other bytes
 * that look like a distance to the slot count as code that takes the address. On aarch64, code
 * calls through GLOB_DAT slots only if it was built with -fno-plt; there all count as taken.
 */
#include <string.h>
#include <sys/mman.h>

#include "base/bits.h"
#include "hook/internal.h"
#include "os/os.h"

#ifdef __x86_64__
bool hooks_may_be_taken(slot_kind_t kind) { return kind != SLOT_JUMP; }

#define SLOTS_MAX (1u << 21)
#define PF_CODE   5u /* readable and executable */

/* What refers to the words from `low` on: one byte each. */
typedef struct references {
  uint64_t low, size;
  uint8_t *found;
} references_t;
enum { CALLED = 1, TAKEN = 2 };

static void read_segment(references_t *r, const uint8_t *code, uint64_t size) {
  uint64_t from = (uint64_t)(uintptr_t)code + 4 - r->low;
  for (uint64_t i = 2; i + 4 <= size; i++) {
    int32_t distance;
    memcpy(&distance, code + i, 4);
    uint64_t at = from + i + (uint64_t)(int64_t)distance;
    if (at >= r->size || at % 8) continue;
    bool is_call = code[i - 2] == 0xff && (code[i - 1] == 0x15 || code[i - 1] == 0x25);
    r->found[at / 8] |= is_call ? CALLED : TAKEN;
  }
}

static bool is_of(const place_t *place, const known_image_t *known) {
  return place->symbol && place->image == known->number && place->kind == SLOT_GLOB_DAT;
}

void hooks_read_code(hooks_t *h, const known_image_t *known) {
  references_t r = {.low = UINT64_MAX};
  uint64_t high = 0;
  for (uint32_t i = 0; i < h->place_count; i++) {
    if (!is_of(&h->places[i], known)) continue;
    uint64_t address = h->places[i].address;
    if (address < r.low) r.low = address;
    if (address > high) high = address;
  }
  if (high < r.low || r.low % 8 || high - r.low >= 8ull * SLOTS_MAX) return;
  r.size = high - r.low + 8;
  r.found = os_map(r.size / 8);
  if (!r.found) return;
  for (uint32_t i = 0; i < known->slots.segment_count; i++) {
    const segment_t *s = &known->slots.segments[i];
    int protection =
        (s->flags & PF_CODE) == PF_CODE ? patch_protection(&h->patcher, s->address) : 0;
    if (protection > 0 && protection & PROT_READ)
      read_segment(&r, (const uint8_t *)(uintptr_t)s->address, s->size);
  }
  for (uint32_t i = 0; i < h->place_count; i++)
    if (is_of(&h->places[i], known))
      h->places[i].is_taken = r.found[(h->places[i].address - r.low) / 8] != CALLED;
  os_unmap(r.found, r.size / 8);
}
#else
bool hooks_may_be_taken(slot_kind_t kind) {
  (void)kind;
  return false;
}

void hooks_read_code(hooks_t *h, const known_image_t *known) { (void)h, (void)known; }
#endif
