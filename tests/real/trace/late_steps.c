/* SPDX-License-Identifier: MIT
 *
 * Does what it is told, a line on stdin each, and answers each with a line: "open LIBRARY" loads
 * one (late_library.c), "fork LIBRARY" does that in a child, "work" calls its function and one of
 * the C library's.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int work_t(int);

static void *volatile block; /* an allocation is when the recorder's wishes are noticed */

static work_t *load(const char *path) {
  void *library = dlopen(path, RTLD_NOW);
  work_t *work = library ? (work_t *)dlsym(library, "late_work") : NULL;
  if (!work) printf("cannot: %s\n", dlerror());
  return work;
}

static void say_work(work_t *work) {
  printf("%d %d\n", work ? work(getppid() > 0) : 0, (int)strtol("7", NULL, 10));
}

/* A child loads one and says what it answers. */
static void load_in_child(const char *path) {
  int status = -1;
  pid_t child = fork();
  if (child == 0) {
    say_work(load(path));
    fflush(stdout);
    _exit(0);
  }
  waitpid(child, &status, 0);
  if (status != 0) printf("cannot: the child ended with %x\n", status);
}

int main(void) {
  char line[4096];
  work_t *work = NULL;
  printf("%d\n", (int)getpid());
  fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    line[strcspn(line, "\n")] = 0;
    block = malloc(10);
    free(block);
    if (!strncmp(line, "open ", 5)) {
      work = load(line + 5);
      if (work) puts("open");
    } else if (!strncmp(line, "fork ", 5)) {
      load_in_child(line + 5);
    } else {
      say_work(work);
    }
    fflush(stdout);
  }
  return 0;
}
