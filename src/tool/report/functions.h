/* SPDX-License-Identifier: MIT
 *
 * Time or another weight of stacks, added up by function. A function's self is the weight of the
 * stacks that it is innermost in, its total that of all stacks that it is in. A recursive function
 * counts once a stack. The own weight of a function of the program includes that of the libraries
 * and templates that it called, up to the next function of the program.
 */
#ifndef SONDE_REPORT_FUNCTIONS_H
#define SONDE_REPORT_FUNCTIONS_H

#include "base/hash.h"
#include "report/report.h"

typedef struct function_sum {
  const frame_name_t *name;
  uint64_t self, total, own;
  uint32_t last_stack; /* number of the stack that it last counted in */
} function_sum_t;

/* Begins as zeros. */
typedef struct function_sums {
  function_sum_t *items;
  size_t count, capacity;
  hash_index_t index; /* by function and library */
  uint32_t stacks;
  uint64_t whole; /* what shares refer to */
} function_sums_t;

/* Adds one of different stacks. False: out of memory. */
bool functions_add(const report_t *report, function_sums_t *functions, uint32_t stack,
                   uint64_t weight);

/* Prints the functions of the program by total, then all functions by self. `--by self` prints only
 * the latter, `--by total` and a summary only the former, if the program has any. WHAT is what the
 * weights are: "CPU time". Reorders the functions. */
void functions_text(const report_t *report, function_sums_t *functions, const char *what,
                    FILE *out);

/* An array, most self first. */
json_object *functions_json(const report_t *report, function_sums_t *functions);

void functions_free(function_sums_t *functions);

#endif
