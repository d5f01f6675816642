/* SPDX-License-Identifier: MIT
 *
 * Where the code of an evaluator is. The compiler moves the parts of a function that it takes for
 * rare, such as those that report an error, away from the others. Such a part has unwind
 * information of its own, and no symbol in a stripped file. It is found by its jumps: code to which
 * the evaluator jumps, and which jumps back into its middle, is no other function.
 */
#ifndef SONDE_TARGET_INTERPRETER_EVALUATOR_H
#define SONDE_TARGET_INTERPRETER_EVALUATOR_H

#include "target/interpreter/interpreter.h"

/* Makes the function at ADDRESS, of BYTES, the evaluator of SELF. Its moved part is found on
 * x86_64. */
void evaluator_set(interpreter_t *self, uint64_t address, uint64_t bytes);

/* Makes the evaluator of SELF the largest function that is reached from the function at FROM, by at
 * most three direct calls one in the other. For libraries that hide the name of their evaluator,
 * and export a function that calls it. False: none is found, as on other processors than x86_64. */
bool evaluator_set_called(interpreter_t *self, uint64_t from);

/* Whether PC is in the evaluator or in its moved part. */
static inline bool evaluator_has(const interpreter_t *self, uint64_t pc) {
  return pc - self->evaluator < self->evaluator_bytes || pc - self->moved < self->moved_bytes;
}

#endif
