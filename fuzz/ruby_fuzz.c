/* SPDX-License-Identifier: MIT
 *
 * The memory of a Ruby interpreter, which changes while it is read, or is damaged: lists of
 * threads, control frames, instruction sequences, line tables, symbols and strings.
 */
/* The command's own is linked, too. */
#define ruby_kind fuzzed_kind
#include "target/interpreter/ruby/ruby.c"

#include "interpreter.h"

static ruby_t ruby;

/* The threads are not looked up: that they belong to a native thread is not fuzzed. */
static void set_up(void) {
  walk_state_t w = {.ruby = &ruby};
  ruby.machine_pointer = FUZZ_BASE;
  (void)read_frames(&w, FUZZ_BASE + 64, 1000);
  resolve(&w, NAMED_NONE);
  ruby.symbols = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return fuzz_interpreter(&ruby.common, &ruby_kind, set_up, data, size);
}
