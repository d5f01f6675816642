/* SPDX-License-Identifier: MIT
 *
 * Fault: reads a mapped file beyond its end.
 * Expected: crash read_record
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
__attribute__((noinline)) int read_record(const char *p, int i) { return p[i * 4096]; }
int main() {
  int fd = open("why-bus.tmp", O_RDWR | O_CREAT | O_TRUNC, 0600);
  ftruncate(fd, 16384);
  char *p = mmap(0, 16384, PROT_READ, MAP_SHARED, fd, 0);
  ftruncate(fd, 4096);
  usleep(1000);
  return read_record(p, 0) + read_record(p, 2);
}
