/* SPDX-License-Identifier: MIT
 *
 * Fault: maps memory and does not unmap it.
 * Expected: resident-memory new_buffer
 */
#include <sys/mman.h>
#include <string.h>
#include <unistd.h>
__attribute__((noinline)) char *new_buffer(void) {
  char *p = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(p, 1, 65536);
  return p;
}
int main() {
  for (int i = 0; i < 1000; i++) {
    char *b = new_buffer();
    b[0] = 2;
    usleep(800);
  }
}
