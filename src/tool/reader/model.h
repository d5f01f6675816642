/* SPDX-License-Identifier: MIT
 *
 * The prediction model of packed chunks. From the events so far, it guesses the next event's kind
 * and stack, its size and its address. The packer writes the number of the guess that is right; the
 * reader makes the same guesses and uses the guess with that number. The guesses are part of the
 * format: docs/format.md, "Packed chunks".
 *
 * - Kind and stack (a symbol) follow the previous three, two or one symbols.
 * - A size is one of the last two sizes of the same symbol.
 * - A new block is where the last freed block of its size class was (allocators reuse the most
 *   recently freed block first), or after the last block.
 * - A freed block is the newest one; the one allocated after or before the last freed one; the
 *   newest or oldest of the stack whose blocks this stack frees; or has the same distance to the
 *   last freed one as before.
 *
 * A model knows only the blocks of its chunk; its memory is proportional to the number of their
 * events.
 */
#ifndef SONDE_READER_MODEL_H
#define SONDE_READER_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Guesses of a symbol. This number as a code: no guess is right. */
#define MODEL_SYMBOLS 6
#define MODEL_SIZES   3
/* Guesses of an address; the next code is followed by the rank of a free place, one byte. */
#define MODEL_ADDRESSES 6
#define MODEL_RANKED    6
#define MODEL_LITERAL   7
#define MODEL_FREES     7
#define MODEL_RANKS     64

typedef struct model model_t;

model_t *model_new(void); /* NULL: out of memory */
void model_free(model_t *model);

/* Writes MODEL_SYMBOLS guesses of the next symbol. A symbol is stack << 3 | kind. */
void model_symbols(const model_t *model, uint64_t *out);
/* Records the actual symbol. */
void model_symbol_was(model_t *model, uint64_t symbol);

/* Guesses of the size that SYMBOL allocates, and the actual size. */
void model_sizes(model_t *model, uint64_t symbol, uint64_t *out);
void model_size_was(model_t *model, uint64_t symbol, uint64_t size);

/* Writes MODEL_ADDRESSES guesses of the address of a new block of SIZE. */
void model_new_addresses(model_t *model, uint64_t size, uint64_t *out);
/* The free place number RANK of the size class; 0 if there is none. */
uint64_t model_place(const model_t *model, uint64_t size, unsigned rank);
/* The rank of ADDRESS among the free places, less than MODEL_RANKS; -1 if it is not one of them. */
int model_rank(const model_t *model, uint64_t size, uint64_t address);
/* The address from which a literal is a difference. */
uint64_t model_new_base(const model_t *model);
/* Records the actual address; false when memory runs out. */
bool model_new_was(model_t *model, uint64_t symbol, uint64_t size, unsigned shift,
                   uint64_t address);

/* Writes MODEL_FREES guesses of the address of the block that SYMBOL frees. */
void model_freed_addresses(model_t *model, uint64_t symbol, uint64_t *out);
uint64_t model_freed_base(const model_t *model);
bool model_freed_was(model_t *model, uint64_t symbol, uint64_t address);

#endif
