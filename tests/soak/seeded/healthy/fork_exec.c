// SPDX-License-Identifier: MIT
// does: runs 40 short commands and waits for each
// record:
// build: gcc -O1 -g
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static int run(const char *path) {
  pid_t child = fork();
  if (child == 0) {
    execl(path, path, (char *)NULL);
    _exit(127);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(void) {
  int sum = 0;
  for (int i = 0; i < 40; i++) {
    sum += run(i % 2 ? "/bin/true" : "/bin/false");
    usleep(10000);
  }
  printf("%d\n", sum);
}
