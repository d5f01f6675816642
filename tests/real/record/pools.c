/* SPDX-License-Identifier: MIT
 *
 * A pool whose places are given out and taken back while the log has modes that hear of it, and one
 * that does not. usage: pools LOG
 */
#include <sonde/malloc.h>

enum { PLACES = 10, SIZE = 100 };
static char pool[PLACES * SIZE];

static void give(int count) {
  for (int i = 0; i < count; i++)
    sonde_alloc_event(pool + i * SIZE, SIZE);
}

static void take(int count) {
  for (int i = 0; i < count; i++)
    sonde_free_event(pool + i * SIZE);
}

int main(int argc, char **argv) {
  if (argc < 2 || sonde_malloc_log_start(argv[1], SONDE_MALLOC_BLOCKS)) return 1;
  give(PLACES);
  if (sonde_malloc_log_mode(SONDE_MALLOC_OFF)) return 2;
  take(PLACES);
  give(4);
  if (sonde_malloc_log_mode(SONDE_MALLOC_BLOCKS)) return 3;
  take(4);
  give(3);
  take(1);
  return sonde_malloc_log_stop() != 0;
}
