/* SPDX-License-Identifier: MIT
 *
 * What a packed chunk of events is coded against: guesses of the next event's kind and stack, of
 * its size and of its address, made from the events before it. The packer writes which guess was
 * right, the reader makes the same guesses and takes that one; docs/format.md, "Packed chunks",
 * describes the guesses, for they are the format.
 *
 * - Kind and stack follow the three, two or one symbols (kind and stack) before.
 * - A size is the last one, or the one before, of the same symbol.
 * - A new block lies where the last freed one of its size class was (allocators hand out last in,
 *   first out), or behind the last block.
 * - A freed block is the newest one, the one allocated after or before the last freed one, the
 * newest or oldest of the stack whose blocks this stack frees, or stands to the last freed one as
 * before.
 *
 * A model knows the blocks of its chunk alone; its memory follows the chunk's events.
 */
#ifndef SONDE_READER_MODEL_H
#define SONDE_READER_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_SYMBOLS   6 /* guesses of a symbol; this number itself: none was right */
#define MODEL_SIZES     3
#define MODEL_ADDRESSES 6 /* guesses with codes of their own, then … */
#define MODEL_RANKED    6 /* … this one: a free place further down, its rank in a byte */
#define MODEL_LITERAL   7
#define MODEL_FREES     7
#define MODEL_RANKS     64

typedef struct model model_t;

model_t *model_new(void); /* NULL without memory */
void model_free(model_t *model);

/* The guesses of the next symbol, MODEL_SYMBOLS of them. A symbol is stack << 3 | kind. */
void model_symbols(const model_t *model, uint64_t *out);
/* It was SYMBOL; CODE is the place of the right guess or MODEL_SYMBOLS. */
void model_symbol_was(model_t *model, uint64_t symbol);

/* As above: of the size that SYMBOL asks for. */
void model_sizes(model_t *model, uint64_t symbol, uint64_t *out);
void model_size_was(model_t *model, uint64_t symbol, uint64_t size);

/* The address of a new block of SIZE, MODEL_ADDRESSES guesses. */
void model_new_addresses(model_t *model, uint64_t size, uint64_t *out);
/* The free place number RANK of the size class, 0 when there is none. */
uint64_t model_place(const model_t *model, uint64_t size, unsigned rank);
/* The rank of ADDRESS among the free places, less than MODEL_RANKS; -1: it is none of these. */
int model_rank(const model_t *model, uint64_t size, uint64_t address);
/* What a literal is told as the difference from. */
uint64_t model_new_base(const model_t *model);
/* False without memory. */
bool model_new_was(model_t *model, uint64_t symbol, uint64_t size, unsigned shift,
                   uint64_t address);

/* The address of a block that SYMBOL frees, MODEL_FREES guesses. */
void model_freed_addresses(model_t *model, uint64_t symbol, uint64_t *out);
uint64_t model_freed_base(const model_t *model);
bool model_freed_was(model_t *model, uint64_t symbol, uint64_t address);

#endif
