/* SPDX-License-Identifier: MIT
 *
 * A program, compiled as ever, that traces what it calls of others, by pattern: own_calls FILE.
 */
#include <stdlib.h>
#include <unistd.h>

#include "sonde/sonde.h"

static volatile long sink;

static void work(int n) {
  for (int i = 0; i < n; i++) {
    sink += getppid();
    sink += strtol("12", NULL, 10);
  }
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  if (sonde_trace_calls("") != SONDE_EINVAL) return 3;
  if (sonde_trace_calls("libc.so*:getppid,strto?") != 0) return 4;
  if (sonde_trace_calls("*") != SONDE_EBUSY) return 5;
  work(3);
  if (sonde_trace_start(0) != 0) return 6;
  work(7);
  sonde_trace_stop();
  work(3);
  return sonde_trace_save(argv[1]) == 0 ? 0 : 7;
}
