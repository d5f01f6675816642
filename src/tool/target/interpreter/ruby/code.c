/* SPDX-License-Identifier: MIT
 *
 * The index of a line table is a succinct bit vector: a bit for each position, set where a line
 * begins (struct succ_index_table in Ruby's iseq.c). The rank of a position is the number of its
 * line. Positions below 54 have their ranks in 7 bits each. The others are in blocks of 512 bits:
 * the rank before the block, the ranks of its words in 9 bits each, and the bits.
 */
#include "target/interpreter/ruby/code.h"

#include "base/load.h"
#include "target/interpreter/ruby/layout.h"
#include "target/interpreter/ruby/objects.h"

/* A longer sequence is a damaged one. */
#define SIZE_LIMIT (1u << 24)

enum {
  DIRECT = 54,
  DIRECT_IN_WORD = 9,
  DIRECT_BITS = 7,
  BLOCKS = DIRECT / DIRECT_IN_WORD * 8, /* offset */
  BLOCK_POSITIONS = 512,
  BLOCK_WORD_RANKS = 8, /* offsets in a block */
  BLOCK_BITS = 16,
  BLOCK_BYTES = 80,
  WORD_RANK_BITS = 9,
};

bool ruby_code_read(memory_t *memory, uint64_t address, ruby_code_t *out) {
  uint8_t body[RUBY_BODY_BYTES];
  uint64_t at;
  if (!ruby_word(memory, address + RUBY_CODE_BODY, &at) ||
      !memory->read(memory, at, body, sizeof body))
    return false;
  *out = (ruby_code_t){.instructions = load64(body + RUBY_BODY_INSTRUCTIONS),
                       .size = load32(body + RUBY_BODY_SIZE),
                       .path = load64(body + RUBY_BODY_PATH),
                       .label = load64(body + RUBY_BODY_LABEL),
                       .lines = load64(body + RUBY_BODY_LINES),
                       .lines_count = load32(body + RUBY_BODY_LINES_COUNT),
                       .lines_index = load64(body + RUBY_BODY_LINES_INDEX),
                       .is_compiled = load64(body + RUBY_BODY_COMPILED) > RUBY_COMPILED_NOT};
  return out->instructions && out->size && out->size < SIZE_LIMIT && out->path && out->label;
}

bool ruby_code_has(const ruby_code_t *code, uint64_t pc) {
  uint64_t offset = pc - code->instructions;
  return offset % 8 == 0 && offset / 8 <= code->size;
}

/* The number of the line, from 1, of POSITION. */
static bool rank_of(memory_t *memory, uint64_t index, uint64_t position, uint64_t *rank) {
  uint64_t word;
  if (position < DIRECT) {
    if (!ruby_word(memory, index + position / DIRECT_IN_WORD * 8, &word)) return false;
    *rank = word >> position % DIRECT_IN_WORD * DIRECT_BITS & ((1 << DIRECT_BITS) - 1);
    return true;
  }
  uint8_t block[BLOCK_BYTES];
  position -= DIRECT;
  uint64_t address = index + BLOCKS + position / BLOCK_POSITIONS * BLOCK_BYTES;
  if (!memory->read(memory, address, block, sizeof block)) return false;
  uint64_t bit = position % BLOCK_POSITIONS, i = bit / 64;
  uint64_t before =
      i ? load64(block + BLOCK_WORD_RANKS) >> (i - 1) * WORD_RANK_BITS & ((1 << WORD_RANK_BITS) - 1)
        : 0;
  word = load64(block + BLOCK_BITS + i * 8) << (63 - bit % 64);
  *rank = load32(block) + before + (uint64_t)__builtin_popcountll(word);
  return true;
}

uint32_t ruby_code_line(memory_t *memory, const ruby_code_t *code, uint64_t pc) {
  uint64_t position = (pc - code->instructions) / 8, rank = 1;
  uint32_t line;
  if (position) position--; /* to the instruction before */
  if (code->lines_count > 1 && !rank_of(memory, code->lines_index, position, &rank)) return 0;
  if (rank == 0 || rank > code->lines_count ||
      !memory->read(memory, code->lines + (rank - 1) * RUBY_LINE_BYTES, &line, sizeof line))
    return 0;
  return line;
}
