/* SPDX-License-Identifier: MIT
 *
 * How long the parts of a program take, and the imported functions that they call (sonde/trace.h).
 *
 *   cc trace.c -lsonde && ./a.out run.sonde && sonde report run.sonde trace
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sonde/trace.h>

enum { COUNT = 20000 };
static int numbers[COUNT];

static int compare(const void *a, const void *b) {
  int x = *(const int *)a, y = *(const int *)b;
  return (x > y) - (x < y);
}

static void sort_all(void) {
  sonde_trace_scope("sort");
  qsort(numbers, COUNT, sizeof *numbers, compare);
}

static void fill(void) {
  sonde_trace_scope("fill"); /* to the end of the block */
  for (int i = 0; i < COUNT; i++)
    numbers[i] = (int)((unsigned)i * 2654435761u);
}

int main(int argc, char **argv) {
  sonde_trace_calls("qsort"); /* an imported function, without a scope in the source */
  int status = sonde_trace_start(0);
  if (status < 0) {
    fprintf(stderr, "cannot trace: %s\n", sonde_strerror(status));
    return 2;
  }
  for (int i = 0; i < 3; i++) {
    fill();
    sort_all();
  }
  sonde_trace_stop();
  sonde_trace_print(1);
  return argc > 1 && sonde_trace_save(argv[1]) < 0;
}
