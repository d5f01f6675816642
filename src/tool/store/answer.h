/* SPDX-License-Identifier: MIT
 *
 * The answer to a query: rows of cells, printed as text, JSON or CSV.
 */
#ifndef SONDE_STORE_ANSWER_H
#define SONDE_STORE_ANSWER_H

#include <stdio.h>

#include "base/array.h"
#include "store/engine.h"

/* How text shows a cell; JSON and CSV have the value itself. */
typedef enum answer_unit {
  ANSWER_TEXT,
  ANSWER_COUNT,
  ANSWER_NS,
  ANSWER_BYTES,
  ANSWER_PERCENT, /* a share from 0 to 1 */
  ANSWER_NUMBER,
  ANSWER_NULL,
} answer_unit_t;

typedef struct answer_cell {
  answer_unit_t unit;
  double number; /* of an integer, see INTEGER */
  int64_t integer;
  bool is_integer;
  char *text; /* owned; of ANSWER_TEXT */
} answer_cell_t;

typedef struct answer {
  ARRAY(char *) columns;
  ARRAY(answer_cell_t) cells; /* row by row */
  bool failed;                /* memory ran out */
} answer_t;

void answer_column(answer_t *answer, const char *name);
void answer_text(answer_t *answer, const char *text);
void answer_number(answer_t *answer, answer_unit_t unit, double number);
void answer_integer(answer_t *answer, answer_unit_t unit, int64_t number);
void answer_free(answer_t *answer);

size_t answer_rows(const answer_t *answer);
const answer_cell_t *answer_at(const answer_t *answer, size_t row, size_t column);

/* Runs SQL and adds its columns and rows. Units follow the names of columns: ns, bytes; that of a
 * column `amount` is the text of the column `unit`. False: failed. */
bool answer_run(answer_t *answer, engine_t *engine, const char *sql, const store_value_t *values,
                size_t count);

/* The same in parts, of which memory holds one at a time: PART is called with each, at least once,
 * with the number of rows before it, until it returns false. False: the query failed. */
bool answer_run_parts(engine_t *engine, const char *sql,
                      bool (*part)(const answer_t *answer, uint64_t before, void *context),
                      void *context);

/* The value as JSON, which the caller owns; NULL: null. */
struct json_object *answer_cell_json(const answer_cell_t *cell);

/* Prints a table, with the stack and the function of each row on a second line. WIDTH columns limit
 * names of functions; 0: nothing does. */
void answer_print_text(const answer_t *answer, unsigned width, FILE *out);
/* An object, of which NAME needs no escapes; in parts, each with the rows before it, whose end
 * answer_print_json_end prints. */
void answer_print_json(const answer_t *answer, const char *name, uint64_t before, FILE *out);
void answer_print_json_end(FILE *out);
/* RFC 4180; the first part begins with the names of the columns. */
void answer_print_csv(const answer_t *answer, uint64_t before, FILE *out);

#endif
