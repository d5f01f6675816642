/* SPDX-License-Identifier: MIT
 *
 * What a question needs of a server's totals: the sums of each measure, build, signature and cause,
 * of which one stack stands for all, or the totals of some builds. It takes the rows of the server
 * in the order of the functions below, and inserts into the copy what the answer is made of. Pure;
 * no network. One thread.
 */
#ifndef SONDE_STORE_CLICKHOUSE_DIGEST_H
#define SONDE_STORE_CLICKHOUSE_DIGEST_H

#include "store/signatures.h"

typedef struct digest_stack {
  uint64_t signature, site;
  bool is_used;
} digest_stack_t;

typedef struct digest_sum {
  int64_t measure, build, stack, cause, sessions, count, amount;
  double squares;
  uint64_t signature;
} digest_sum_t;

typedef struct digest {
  bool by_stack;        /* sums are those of each stack, not of each signature */
  const id_set_t *only; /* the totals of these stacks; NULL: of all */
  frame_labels_t labels;
  id_set_t ids;
  ARRAY(digest_stack_t) stacks; /* in the order of `ids` */
  ARRAY(digest_sum_t) sums;
  hash_index_t index;
  id_set_t sites; /* frames of the stacks that were inserted */
} digest_t;

/* Each takes the values of a row, and returns false when memory runs out: frame and label; stack,
 * site and frames; a row of `totals`. A total of an unknown stack is none. */
bool digest_add_label(void *digest, const store_value_t *values);
bool digest_add_stack(void *digest, const store_value_t *values);
bool digest_add_total(void *digest, const store_value_t *values);

/* Keeps the MOST largest sums of each measure and build, in the order of the queries. */
void digest_keep_largest(digest_t *digest, uint64_t most);

/* Inserts the totals, and their stacks without frames if they are not there; fills `sites`. False:
 * failed. */
bool digest_insert(digest_t *digest, engine_t *copy);

void digest_free(digest_t *digest);

#endif
