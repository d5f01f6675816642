/* SPDX-License-Identifier: MIT
 *
 * Moves the first instructions of a function elsewhere, so that a jump fits in their place.
 *
 * The moved instructions do what they did: addresses relative to the pc are adjusted, short jumps
 * become long ones, and a call (x86_64) pushes the return address that it had. So a return address
 * is never in moved code. linux/x86_64/move.c and linux/aarch64/move.c implement this header; it
 * does not write to the function, and it depends on nothing but the bytes.
 */
#ifndef SONDE_HOOK_MOVE_H
#define SONDE_HOOK_MOVE_H

#include <stdbool.h>
#include <stdint.h>

/* Why a function cannot be patched: X(NAME, JSON key, text of what the function is or has). */
#define MOVE_FAULTS(X)                                                                             \
  X(SHORT, "short", "shorter than a jump")                                                         \
  X(TARGET, "jump_target", "a jump leads into the bytes that change")                              \
  X(INSTRUCTION, "instruction", "an instruction that is unknown or cannot be moved")               \
  X(CONVENTION, "convention", "not the usual calling convention")                                  \
  X(FAR, "no_room", "no free memory within reach of a jump")                                       \
  X(PATCHED, "patched_before", "already patched by another tool")                                  \
  X(THREADS, "threads", "a thread may have been in it")                                            \
  X(REFUSED, "unwritable", "its code cannot be written")

typedef enum move_fault {
  MOVE_OK,
#define MOVE_ENUM(name, key, text) MOVE_##name,
  MOVE_FAULTS(MOVE_ENUM)
#undef MOVE_ENUM
      MOVE_FAULT_COUNT
} move_fault_t;

/* By move_fault_t; of MOVE_OK empty. */
extern const char *const move_fault_keys[MOVE_FAULT_COUNT];
extern const char *const move_fault_texts[MOVE_FAULT_COUNT];

/* Where jumps of an image's code lead. A bit for each byte (aarch64: each instruction) of the
 * range: `into`: a jump leads there; `by_branch`: a conditional jump of another function does. */
typedef struct move_map {
  uint64_t low, high;
  uint8_t *into, *by_branch;
} move_map_t;

/* The bits that a range of BYTES needs. */
#if defined(__x86_64__)
#define MOVE_UNIT 1u
/* The largest distance of a jump. */
#define MOVE_REACH ((UINT64_C(2) << 30) - 4096)
#else
#define MOVE_UNIT  4u
#define MOVE_REACH ((UINT64_C(128) << 20) - 4096)
#endif

/* The bytes of a jump, and the most instructions that are moved for it. */
#define MOVE_JUMP_BYTES_MAX 5u
#define MOVE_COUNT_MAX      5u

/* Notes where the jumps of the function from START to END lead. Returns false if an instruction is
 * unknown. */
bool move_scan(uint64_t start, uint64_t end, const move_map_t *map);

static inline bool move_map_has(const move_map_t *map, const uint8_t *bits, uint64_t address) {
  uint64_t bit = (address - map->low) / MOVE_UNIT;
  return address >= map->low && address < map->high && bits[bit / 8] >> bit % 8 & 1;
}

static inline void move_map_set(const move_map_t *map, uint8_t *bits, uint64_t address) {
  uint64_t bit = (address - map->low) / MOVE_UNIT;
  if (address >= map->low && address < map->high) bits[bit / 8] |= (uint8_t)(1u << bit % 8);
}

/* The moved instructions of a function. */
typedef struct moved {
  uint64_t place; /* the first of them */
  uint8_t bytes;  /* their size at `place` */
  uint8_t count;  /* their number */
  uint8_t size;   /* size of the new code */
  uint8_t from[MOVE_COUNT_MAX],
      to[MOVE_COUNT_MAX]; /* offsets of each, at `place` and in the copy */
} moved_t;

/* Decides whether a jump fits at the entry of the function from START to END; the next function
 * starts at LIMIT. Fills in OUT except for `size` and `to`. */
move_fault_t move_look(uint64_t start, uint64_t end, uint64_t limit, const move_map_t *map,
                       moved_t *out);

/* If the function starts with a jump out of the image, returns where it leads; 0: it does not. */
uint64_t move_leads_out(uint64_t place, const move_map_t *map);

/* A stub, at an address that is a multiple of MOVE_STUB_BYTES. */
#define MOVE_STUB_BYTES 64u

/* True if the function at START only jumps through memory, as an entry of a PLT does. */
bool move_is_stub(uint64_t start);

/* Writes the stub at STUB, which loads DATA, a trampoline_t, and jumps to *WORD; then the moved
 * instructions and a jump back. Fills in `size` and `to`. *TARGET is the address of the moved
 * instructions. */
move_fault_t move_write(moved_t *moved, uint64_t stub, uint64_t word, uint64_t data,
                        uint64_t *target);

/* A change of code that another process makes while all threads of this one are stopped; the
 * recorder does that for the agent (`change` of recorder/control.h). BYTES bytes at PLACE change if
 * they are BEFORE, and if no thread is inside of them: past the first byte and before the last
 * one's end. */
typedef struct entry_change {
  uint64_t place;
  uint8_t bytes;
  uint8_t before[MOVE_JUMP_BYTES_MAX], after[MOVE_JUMP_BYTES_MAX];
} entry_change_t;

/* Writes the jump from PLACE to STUB to OUT (MOVE_JUMP_BYTES_MAX). Returns its size. */
uint32_t move_jump(uint64_t place, uint64_t stub, uint8_t *out);

#endif
