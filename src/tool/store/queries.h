/* SPDX-License-Identifier: MIT
 *
 * The ready queries of a store. Each is one SQL statement on the totals, except the comparison of
 * builds (regressions.h).
 */
#ifndef SONDE_STORE_QUERIES_H
#define SONDE_STORE_QUERIES_H

#include "store/answer.h"

typedef struct query {
  const char *name;
  const char *about;
  /* ?1 is the measure, ?2 the argument ("": none), ?3 how many rows of each build; ?4,
   * if there is an argument, the id of that build or stack */
  const char *sql;
  store_measure_t measure;
  unsigned reads;       /* the measures whose totals it reads, a bit for each */
  bool is_ranked;       /* it shows the largest sums of each build alone */
  const char *argument; /* NULL: takes none; "[BUILD]" may be left out */
} query_t;

extern const query_t queries[];

/* NULL: there is no query NAME. */
const query_t *query_named(const char *name);

/* Runs QUERY with ARGUMENT, which may be NULL, for the MOST largest rows. False: failed. */
bool query_run(const query_t *query, engine_t *engine, const char *argument, uint64_t most,
               answer_t *out);

/* The id of the build with this name, or with a build-id that begins so; the newest of several. 0:
 * there is none. */
int64_t query_build(engine_t *engine, const char *name);

/* The id of a stack in hexadecimal; 0: it is none. */
uint64_t query_stack(const char *text);

/* Calls EACH with every frame of STACK, until it returns false. False: that, or failed. */
bool query_each_frame(engine_t *engine, uint64_t stack, bool (*each)(void *context, uint64_t frame),
                      void *context);

/* The frames of the stack with this id in hexadecimal, as rows of names. False: failed. */
bool query_frames(engine_t *engine, const char *stack, answer_t *out);

#endif
