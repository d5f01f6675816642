/* SPDX-License-Identifier: MIT
 *
 * Random calls of an imported function, whose library leaves room for a tracer in it, with values
 * in all registers (tests/registers.h). Built twice: with -DLIBRARY the library, without it the
 * program, which is given the number of calls and a seed and says what was lost.
 */
#include <stdio.h>
#include <stdlib.h>

typedef struct registers registers_t;
void registers_of_library(int level, registers_t **seen, registers_t **given);
void registers_far(void); /* the library's registers_target */

#ifdef LIBRARY
/* As -fpatchable-function-entry leaves it. */
#define REGISTERS_ROOM                                                                             \
  "661: .rept 5\nnop\n.endr\n.pushsection __patchable_function_entries, \"aw\"\n"                  \
  ".p2align 3\n.quad 661b\n.popsection\n"
#include "../../registers.h"

__asm__(
    ".globl registers_far\n.type registers_far, %function\n.set registers_far, registers_target\n");

void registers_of_library(int level, registers_t **seen, registers_t **given) {
  registers_level = level;
  *seen = &registers_seen;
  *given = &registers_given;
}
#else
#include "../../registers.h"

#ifdef __x86_64__
/* Through the import: an address that is taken stays the function's own. */
void call_far(void);
__asm__(".text\n.type call_far, %function\ncall_far: jmp *registers_far@GOTPCREL(%rip)\n"
        ".size call_far, . - call_far\n");
#else
#define call_far registers_far
#endif

int main(int count, char **arguments) {
  long calls = count > 1 ? atol(arguments[1]) : 1000;
  uint64_t seed = (count > 2 ? strtoull(arguments[2], NULL, 0) : 1) | 1;
  registers_t *seen, *given;
  registers_find_level();
  registers_of_library(registers_level, &seen, &given);
  for (long i = 0; i < calls; i++) {
    int number;
    const char *bad = registers_check((void *)(uintptr_t)call_far, seen, given, &seed, &number);
    if (!bad) continue;
    printf("call %ld: %s register %d (level %d)\n", i, bad, number, registers_level);
    return 1;
  }
  printf("%ld calls\n", calls);
  return 0;
}
#endif
