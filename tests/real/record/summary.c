/* SPDX-License-Identifier: MIT
 *
 * For tests/real/log_summary.py: logs itself, and writes a summary while it does.
 *
 *   summary LOG SUMMARY LIMIT    1,024 stacks with live blocks; prints what sonde_summary_write
 *                                returned
 *   summary LOG                  a log of at most 1 MB, of 400,000 events
 */
#include <stdio.h>
#include <stdlib.h>

#include <sonde/log.h>
#include <sonde/malloc.h>

#define LEVELS 10
#define STACKS (1 << LEVELS)

static void *volatile kept[STACKS];

static void hold(int path, int level);
__attribute__((noinline)) static void left(int path, int level) { hold(path, level + 1); }
__attribute__((noinline)) static void right(int path, int level) { hold(path, level + 1); }

/* A path of LEVELS functions, by the bits of PATH. */
__attribute__((noinline)) static void hold(int path, int level) {
  if (level == LEVELS)
    kept[path] = malloc((size_t)path + 1);
  else if (path >> level & 1)
    right(path, level);
  else
    left(path, level);
  __asm__ volatile("");
}

static int summarize(char **argv) {
  if (sonde_malloc_log_start(argv[1], SONDE_MALLOC_BLOCKS)) return 2;
  if (sonde_summary_write(argv[2], 0) != SONDE_EUNSUPPORTED) return 3;
  if (sonde_malloc_log_mode(SONDE_MALLOC_LIVE)) return 4;
  for (int i = 0; i < STACKS; i++)
    hold(i, 0);
  if (sonde_summary_write(argv[2], 100) != SONDE_EINVAL) return 5;
  if (sonde_summary_write(NULL, 0) != SONDE_EINVAL) return 6;
  int left_out = sonde_summary_write(argv[2], (size_t)atol(argv[3]));
  if (sonde_summary_write(argv[2], 0) != SONDE_EIO) return 7;
  if (sonde_malloc_log_stop()) return 8;
  if (sonde_summary_write("none", 0) != SONDE_EUNSUPPORTED) return 9;
  printf("%d\n", left_out);
  return 0;
}

int main(int argc, char **argv) {
  if (argc > 3) return summarize(argv);
  if (sonde_log_limit(1000) != SONDE_EINVAL || sonde_log_limit(1 << 20)) return 2;
  if (sonde_malloc_log_start(argv[1], SONDE_MALLOC_BLOCKS)) return 3;
  for (int i = 0; i < 200000; i++) {
    kept[i % STACKS] = malloc(64);
    free(kept[i % STACKS]);
  }
  sonde_mark("the end");
  return sonde_malloc_log_stop() ? 4 : 0;
}
