/* SPDX-License-Identifier: MIT
 *
 * The facts of one session: they are collected, those of equal stacks and causes are joined, and
 * all are inserted in the order of their keys.
 */
#ifndef SONDE_STORE_FACT_LIST_H
#define SONDE_STORE_FACT_LIST_H

#include "base/array.h"
#include "store/engine.h"

typedef struct fact {
  store_measure_t measure;
  uint64_t stack, cause; /* ids in the store; cause 0: none */
  uint64_t count, amount;
  uint64_t extras[FACT_EXTRAS];
} fact_t;

typedef struct fact_list {
  ARRAY(fact_t) list;
} fact_list_t;

/* False: out of memory. */
bool fact_list_add(fact_list_t *facts, const fact_t *fact);

/* Inserts all facts as those of SESSION. False: failed. */
bool fact_list_insert(fact_list_t *facts, engine_t *engine, int64_t session);
void fact_list_free(fact_list_t *facts);

#endif
