/* SPDX-License-Identifier: MIT */
#include "capture/python/python_codes.h"

#include "capture/leveled_table.h"
#include "image/list.h"

#define SLOT_BITS  14
#define GROUP_BITS 12
/* tp_dealloc of PyTypeObject, in all versions (CPython, Include/cpython/object.h). */
#define TYPE_DEALLOC 48

typedef struct slot {
  uint32_t sequence, generation;
  uint64_t code, instruction;
  uint32_t id, unused;
} slot_t;

HIDDEN uint64_t python_code_deaths;
static uint32_t generations[1u << GROUP_BITS];
static slot_t *slots;
static void (*real_dealloc)(void *code);
static uint64_t *replaced; /* the place of the deallocator; NULL: it has its own value */

static uint32_t *generation_of(uint64_t code) {
  return &generations[leveled_hash(code) >> (64 - GROUP_BITS)];
}

/* Compiled to a jump at its end, so stacks do not have it. */
void python_codes_count_death(void *code) {
  add_relaxed(generation_of((uint64_t)(uintptr_t)code), 1u);
  add_relaxed(&python_code_deaths, UINT64_C(1));
  real_dealloc(code);
}

/* Code objects died that were not counted. */
static void forget_all(void) {
  for (uint32_t i = 0; i < 1u << GROUP_BITS; i++)
    add_relaxed(&generations[i], 1u);
  add_relaxed(&python_code_deaths, UINT64_C(1));
}

bool python_codes_start(uint64_t code_type, uint64_t deallocator) {
  uint64_t *place = (uint64_t *)(uintptr_t)(code_type + TYPE_DEALLOC);
  uint64_t dealloc = load_relaxed(place);
  uint16_t image = image_id_of_pc(code_type);
  if (!dealloc || !image || image_id_of_pc(dealloc) != image) return false;
  if (!leveled_map((void **)&slots, SLOT_BITS, sizeof(slot_t))) return false;
  real_dealloc = (void (*)(void *))(uintptr_t)dealloc;
  store_release(place, deallocator);
  replaced = place;
  forget_all();
  return true;
}

uint64_t python_codes_stop(void) {
  if (!replaced) return 0;
  store_release(replaced, (uint64_t)(uintptr_t)real_dealloc);
  replaced = NULL;
  return (uint64_t)(uintptr_t)real_dealloc;
}

uint32_t python_codes_generation(uint64_t code) { return load_relaxed(generation_of(code)); }

static slot_t *slot_of(uint64_t code, uint64_t instruction) {
  return &slots[leveled_hash(code + (instruction << 1)) >> (64 - SLOT_BITS)];
}

uint32_t python_codes_find(uint64_t code, uint64_t instruction) {
  if (UNLIKELY(!slots)) return 0;
  const slot_t *slot = slot_of(code, instruction);
  uint32_t sequence = load_acquire(&slot->sequence), id = load_relaxed(&slot->id);
  bool is_wanted = load_relaxed(&slot->code) == code &&
                   load_relaxed(&slot->instruction) == instruction &&
                   load_relaxed(&slot->generation) == python_codes_generation(code);
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  return is_wanted && !(sequence & 1) && load_relaxed(&slot->sequence) == sequence ? id : 0;
}

void python_codes_store(uint64_t code, uint64_t instruction, uint32_t generation, uint32_t id) {
  if (!slots) return;
  slot_t *slot = slot_of(code, instruction);
  uint32_t sequence = load_relaxed(&slot->sequence);
  if (sequence & 1 || !cas_acq_rel(&slot->sequence, &sequence, sequence + 1)) return;
  __atomic_thread_fence(__ATOMIC_RELEASE);
  store_relaxed(&slot->code, code);
  store_relaxed(&slot->instruction, instruction);
  store_relaxed(&slot->generation, generation);
  store_relaxed(&slot->id, id);
  store_release(&slot->sequence, sequence + 2);
}
