/* SPDX-License-Identifier: MIT
 *
 * A program that carries the note of Go's linker, or has an io_uring, or neither: for
 * tests/real/stall_uncovered.py. Compiled with -DGO it is the first.
 * usage: uncovered [ring]      exits with 3 when it may not have a ring
 */
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef GO
__asm__(".pushsection .note.go.buildid, \"a\", %note\n"
        ".balign 4\n"
        ".long 4, 8, 4\n"
        ".ascii \"Go\\0\\0\", \"abcdefgh\"\n"
        ".popsection\n");
#endif

int main(int argc, char **argv) {
  char parameters[120];
  memset(parameters, 0, sizeof parameters);
  (void)argv;
  if (argc > 1 && syscall(SYS_io_uring_setup, 4, parameters) < 0) return 3;
  usleep(1600000);
  return 0;
}
