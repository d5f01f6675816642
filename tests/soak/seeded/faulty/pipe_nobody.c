// SPDX-License-Identifier: MIT
// fault: the parent reads the child's output but holds the writing end itself: the end never comes
// culprit: read_output, run_command
// kind: pipe, read, blocked, wait
// why: 1.2
// build: gcc -O1 -g
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct command {
  pid_t child;
  int in, out;
};

static __attribute__((noinline)) int start_command(struct command *c, const char *word) {
  int ends[2];
  if (pipe(ends)) return -1;
  c->in = ends[0];
  c->out = ends[1];
  c->child = fork();
  if (c->child == 0) {
    dup2(ends[1], 1);
    execlp("echo", "echo", word, (char *)NULL);
    _exit(127);
  }
  return 0; /* without close(ends[1]) */
}

static __attribute__((noinline)) size_t read_output(struct command *c, char *text, size_t room) {
  size_t length = 0;
  ssize_t n;
  while ((n = read(c->in, text + length, room - length - 1)) > 0)
    length += (size_t)n;
  text[length] = 0;
  return length;
}

static __attribute__((noinline)) size_t run_command(const char *word) {
  struct command c;
  char text[4096];
  if (start_command(&c, word)) return 0;
  size_t length = read_output(&c, text, sizeof text);
  waitpid(c.child, NULL, 0);
  return length;
}

int main(void) { printf("%zu\n", run_command("hello")); }
