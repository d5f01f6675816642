/* SPDX-License-Identifier: MIT
 *
 * A program that traces functions of its own that nobody prepared, for
 * tests/real/trace_selected.py. Prints whether their bytes were the original ones: before
 * sonde_trace_calls, after it, and then while tracing is on and off, twice, and on while another
 * thread exists.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sonde/trace.h>

#define KEEP  __attribute__((noipa))
#define BYTES 16

KEEP static int inner(int n) { return n * 3 + 1; }
KEEP int work(int n) { return inner(n) + inner(n + 1) + inner(n + 2); }

static unsigned char original[2][BYTES];

static bool is_original(void) {
  return !memcmp((void *)inner, original[0], BYTES) && !memcmp((void *)work, original[1], BYTES);
}

static void say(const char *when) {
  printf("%s %s\n", when, is_original() ? "original" : "patched");
}

static void *wait_for(void *end) {
  char byte;
  return read(*(int *)end, &byte, 1) == 1 ? end : NULL;
}

int main(int argc, char **argv) {
  int ends[2], sum = 0;
  pthread_t thread;
  memcpy(original[0], (void *)inner, BYTES);
  memcpy(original[1], (void *)work, BYTES);
  int status = sonde_trace_calls("!work,!inner");
  say("selected");
  for (int i = 0; i < 2; i++) {
    status |= sonde_trace_start(0);
    say("on");
    sum += work(i);
    status |= sonde_trace_stop();
    say("off");
    sum += work(i);
  }
  if (pipe(ends) != 0) return 2;
  pthread_create(&thread, NULL, wait_for, &ends[0]);
  status |= sonde_trace_start(0);
  say("threads");
  sum += work(1);
  status |= sonde_trace_stop();
  if (write(ends[1], "x", 1) != 1) return 2;
  pthread_join(thread, NULL);
  if (argc > 1) status |= sonde_trace_save(argv[1]);
  printf("%d %d\n", status, sum);
  return 0;
}
