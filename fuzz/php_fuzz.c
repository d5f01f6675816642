/* SPDX-License-Identifier: MIT
 *
 * The memory of a PHP interpreter, which changes while it is read, or is damaged: the chain of
 * frames, functions, instructions, generators and names.
 */
/* The command's own is linked, too. */
#define php_kind fuzzed_kind
#include "target/interpreter/php/php.c"

#include "interpreter.h"

static php_t php;

static void set_up(void) {
  php.globals = FUZZ_BASE;
  php.generator_class = FUZZ_BASE + 64;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return fuzz_interpreter(&php.common, &php_kind, set_up, data, size);
}
