/* SPDX-License-Identifier: MIT
 *
 * The memory of a Perl interpreter, which changes while it is read, or is damaged: the native
 * stack, the interpreter, its environments, blocks, operations, functions and names.
 */
/* The command's own is linked, too. */
#define perl_kind fuzzed_kind
#include "target/interpreter/perl/perl.c"

#include "interpreter.h"

static perl_t perl;

/* The variable PL_curinterp is at the beginning, and then the native stack. */
static void set_up(void) {
  static const perl_layout_t layout = PERL_LAYOUT_X86_64;
  perl.common.sp = FUZZ_BASE + 8;
  perl.layout = layout;
  perl.first = FUZZ_BASE;
  perl.pages.memory = &perl.common.memory;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return fuzz_interpreter(&perl.common, &perl_kind, set_up, data, size);
}
