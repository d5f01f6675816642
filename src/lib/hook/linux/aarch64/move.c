/* SPDX-License-Identifier: MIT
 *
 * Moving of entries on aarch64. One instruction makes place for a branch, so no thread is ever
 * between two of them. Encodings: Arm ARM, C4.1. x16 and x17 are free at a function's entry
 * (AAPCS64, 6.1.1).
 *
 * A stub: ldr x17, data; ldr x16, body; br x16; the moved code and a branch back; a literal of the
 * moved code; data; body.
 */
#include "hook/move.h"

#include <string.h>

#include "arch/patch.h"
#include "base/bits.h"

#define BRANCH     0x14000000u
#define BRANCH_MAX (INT64_C(1) << 27)
#define CODE_AT    12u
#define LITERAL_AT 40u
#define DATA_AT    48u
#define BODY_AT    56u
#define FP         29u
#define SP         31u

static uint32_t word_at(uint64_t address) {
  uint32_t word;
  memcpy(&word, (const void *)(uintptr_t)address, sizeof word);
  return word;
}

/* Sign-extends BITS bits of WORD from SHIFT, as a distance in instructions. */
static uint64_t distance(uint32_t word, unsigned shift, unsigned bits) {
  return (uint64_t)((int64_t)((uint64_t)word << (64 - shift - bits)) >> (64 - bits)) * 4;
}

typedef enum kind { PLAIN, JUMP, CALL, IF, IF_BIT, ADDRESS, PAGE, LOAD, STAYS } kind_t;

static kind_t kind_of(uint32_t word) {
  if ((word & 0xfc000000) == BRANCH) return JUMP;
  if ((word & 0xfc000000) == 0x94000000) return CALL;                                    /* bl */
  if ((word & 0xff000000) == 0x54000000 || (word & 0x7e000000) == 0x34000000) return IF; /* cbz */
  if ((word & 0x7e000000) == 0x36000000) return IF_BIT;  /* tbz, tbnz */
  if ((word & 0x9f000000) == 0x10000000) return ADDRESS; /* adr */
  if ((word & 0x9f000000) == 0x90000000) return PAGE;    /* adrp */
  if ((word & 0xbf000000) == 0x18000000) return LOAD;    /* ldr literal */
  if ((word & 0x3b000000) == 0x18000000) return STAYS;   /* other literals */
  if ((word & 0xff000000) == 0xd4000000) return STAYS;   /* svc, brk, … */
  return (word & 0xffff0000) == 0 ? STAYS : PLAIN;       /* udf */
}

static uint64_t target_of(uint64_t at, uint32_t word) {
  uint64_t page_bits = (uint64_t)((int64_t)distance(word, 5, 19)) | (word >> 29 & 3);
  switch (kind_of(word)) {
  case JUMP:
  case CALL: return at + distance(word, 0, 26);
  case IF:
  case LOAD: return at + distance(word, 5, 19);
  case IF_BIT: return at + distance(word, 5, 14);
  case ADDRESS: return at + page_bits;
  case PAGE: return ALIGN_DOWN(at, UINT64_C(4096)) + page_bits * 4096;
  default: return 0;
  }
}

bool move_scan(uint64_t start, uint64_t end, const move_map_t *map) {
  for (uint64_t at = start; at + 4 <= end; at += 4) {
    kind_t kind = kind_of(word_at(at));
    uint64_t to = target_of(at, word_at(at));
    if ((kind == IF || kind == IF_BIT) && (to < start || to >= end))
      move_map_set(map, map->by_branch, to);
  }
  return true;
}

/* True if the function jumps back to its own start. */
static bool repeats(uint64_t start, uint64_t end, uint64_t place) {
  for (uint64_t at = start; at + 4 <= end; at += 4) {
    kind_t kind = kind_of(word_at(at));
    uint64_t to = target_of(at, word_at(at));
    if ((kind == JUMP || kind == IF || kind == IF_BIT) && (to == start || to == place)) return true;
  }
  return false;
}

/* x29 is saved on the stack before it is the base of an access, among loads and stores of general
 * registers. */
static bool keeps_fp(uint64_t at, uint64_t end) {
  for (; at + 4 <= end; at += 4) {
    uint32_t word = word_at(at), base = word >> 5 & 31;
    if ((word & 0x0e000000) != 0x08000000 || kind_of(word) != PLAIN) continue;
    if (base == FP) return false;
    if ((word & 31) == FP) return base == SP && !(word & 1u << 22); /* a store */
  }
  return true;
}

bool move_is_stub(uint64_t start) {
  uint64_t at = start + patch_mark_bytes((const uint8_t *)(uintptr_t)start);
  uint32_t load = word_at(at + 4), jump = word_at(at + 12);
  return kind_of(word_at(at)) == PAGE && (word_at(at) & 31) == 16 &&
         (load & 0xffc003ff) == 0xf9400211 && jump == 0xd61f0220; /* ldr x17, [x16]; br x17 */
}

uint64_t move_leads_out(uint64_t place, const move_map_t *map) {
  uint64_t to = target_of(place, word_at(place));
  return kind_of(word_at(place)) == JUMP && (to < map->low || to >= map->high) ? to : 0;
}

move_fault_t move_look(uint64_t start, uint64_t end, uint64_t limit, const move_map_t *map,
                       moved_t *out) {
  (void)limit;
  memset(out, 0, sizeof *out);
  out->place = start + patch_mark_bytes((const uint8_t *)(uintptr_t)start);
  if (out->place % 4 || out->place + 4 > end) return MOVE_SHORT;
  (void)map;
  if (kind_of(word_at(out->place)) == STAYS) return MOVE_INSTRUCTION;
  if (repeats(start, end, out->place)) return MOVE_TARGET;
  if (!keeps_fp(out->place, end)) return MOVE_CONVENTION;
  out->bytes = 4;
  out->count = 1;
  return MOVE_OK;
}

/* ---- writing -------------------------------------------------------------------------------- */

typedef struct output {
  uint64_t stub;
  uint32_t at;
  bool is_far;
} output_t;

static void put(output_t *o, uint32_t word) {
  memcpy((void *)(uintptr_t)(o->stub + o->at), &word, sizeof word);
  o->at += 4;
}

static void put_branch(output_t *o, uint64_t to) {
  int64_t away = (int64_t)(to - (o->stub + o->at));
  o->is_far |= away >= BRANCH_MAX || away < -BRANCH_MAX;
  put(o, BRANCH | ((uint32_t)(away >> 2) & 0x3ffffffu));
}

/* ldr x<number>, the literal at AT of the stub */
static void put_load(output_t *o, uint32_t number, uint32_t at) {
  put(o, 0x58000000u | (at - o->at) / 4 << 5 | number);
}

static void put_literal(output_t *o, uint32_t number, uint64_t value) {
  memcpy((void *)(uintptr_t)(o->stub + LITERAL_AT), &value, sizeof value);
  put_load(o, number, LITERAL_AT);
}

/* The instruction with a distance of two instructions, and behind it the way on and the target. */
static void put_if(output_t *o, uint32_t word, uint32_t distance_bits, uint64_t on, uint64_t to) {
  put(o, (word & ~distance_bits) | 2u << 5);
  put_branch(o, on);
  put_branch(o, to);
}

static void put_instruction(output_t *o, uint64_t at) {
  uint32_t word = word_at(at), number = word & 31;
  uint64_t to = target_of(at, word);
  switch (kind_of(word)) {
  case JUMP: put_branch(o, to); return;
  case CALL: /* with the return address that it had */
    put_literal(o, 30, at + 4);
    put_branch(o, to);
    return;
  case IF: put_if(o, word, 0x00ffffe0, at + 4, to); return;
  case IF_BIT: put_if(o, word, 0x0007ffe0, at + 4, to); return;
  case ADDRESS:
  case PAGE: put_literal(o, number, to); return;
  case LOAD: /* from [x<number>] */
    put_literal(o, number, to);
    put(o, (word & 0x40000000 ? 0xf9400000u : 0xb9400000u) | number << 5 | number);
    return;
  default: put(o, word);
  }
}

move_fault_t move_write(moved_t *moved, uint64_t stub, uint64_t word, uint64_t data,
                        uint64_t *target) {
  output_t o = {.stub = stub};
  put_load(&o, 17, DATA_AT);
  put_load(&o, 16, BODY_AT);
  put(&o, 0xd61f0200u); /* br x16 */
  *target = stub + CODE_AT;
  put_instruction(&o, moved->place);
  moved->size = (uint8_t)(o.at - CODE_AT);
  put_branch(&o, moved->place + moved->bytes);
  memcpy((void *)(uintptr_t)(stub + DATA_AT), &data, sizeof data);
  memcpy((void *)(uintptr_t)(stub + BODY_AT), (const void *)(uintptr_t)word, sizeof word);
  return o.is_far ? MOVE_FAR : MOVE_OK;
}

uint32_t move_jump(uint64_t place, uint64_t stub, uint8_t *out) {
  uint32_t word = BRANCH | ((uint32_t)((int64_t)(stub - place) >> 2) & 0x3ffffffu);
  memcpy(out, &word, sizeof word);
  return sizeof word;
}
