/* SPDX-License-Identifier: MIT
 *
 * Three hundred children of vfork, one after the other, each with an environment of its own. Prints
 * by how many KB the address space has grown from the second hundred on.
 */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static long pages(void) {
  long n = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  if (!f || fscanf(f, "%ld", &n) != 1) return -1;
  fclose(f);
  return n;
}

int main(void) {
  char *arguments[] = {"true", NULL}, *environment[] = {"ONLY=this", NULL};
  long before = 0;
  for (int i = 0; i < 300; i++) {
    if (i == 100) before = pages();
    pid_t child = vfork();
    if (child == 0) {
      execve("/bin/true", arguments, environment);
      _exit(99);
    }
    waitpid(child, NULL, 0);
  }
  printf("%ld\n", (pages() - before) * (sysconf(_SC_PAGESIZE) / 1024));
  return 0;
}
