/* SPDX-License-Identifier: MIT
 *
 * The parent reads what its child wrote up to the end of a pipe, and holds the writing end itself:
 * receive() waits for ever. With an argument it has a handler, which might write. The child has
 * ended and is not waited for; there are ten of these.
 */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static void handle(int number) { (void)number; }

static __attribute__((noinline)) long receive(int fd) {
  char text[64];
  long length = 0, n;
  while ((n = read(fd, text, sizeof text)) > 0)
    length += n;
  return length;
}

int main(int argc, char **argv) {
  int ends[2];
  (void)argv;
  if (pipe(ends)) abort();
  for (int i = 0; i < 10; i++)
    if (fork() == 0) _exit(write(ends[1], "child", 5) != 5);
  if (argc > 1) signal(SIGTERM, handle);
  return (int)receive(ends[0]);
}
