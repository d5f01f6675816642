/* SPDX-License-Identifier: MIT
 *
 * Begins and ends the log, again and again, while threads allocate. usage: logger FOLDER ROUNDS
 * THREADS. Writes FOLDER/0.sonde and on; a block of 54321 bytes is live at the end of each.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sonde/sonde.h>

static int going = 1;

static void *work(void *argument) {
  void *held[64] = {0};
  unsigned state = (unsigned)(size_t)argument + 1;
  while (__atomic_load_n(&going, __ATOMIC_RELAXED)) {
    state = state * 1664525 + 1013904223;
    void **slot = &held[state >> 26];
    switch (state >> 24 & 3) {
    case 0: *slot = realloc(*slot, 1 + (state >> 12 & 511)); break;
    case 1:
      free(*slot);
      *slot = calloc(3, 1 + (state >> 12 & 127));
      break;
    default: free(*slot); *slot = malloc(1 + (state >> 12 & 255));
    }
  }
  for (int i = 0; i < 64; i++)
    free(held[i]);
  return NULL;
}

static int round_of(const char *folder, int number) {
  char path[4096];
  sonde_block_t block;
  snprintf(path, sizeof path, "%s/%d.sonde", folder, number);
  if (sonde_malloc_log_mode(SONDE_MALLOC_LIVE) != SONDE_ENOTFOUND) return 10;
  if (sonde_malloc_log_start(path, SONDE_MALLOC_BLOCKS)) return 11;
  if (sonde_malloc_log_start(path, SONDE_MALLOC_BLOCKS) != SONDE_EBUSY) return 12;
  usleep(20000);
  if (sonde_malloc_of(path, &block) != SONDE_EUNSUPPORTED) return 13;
  sonde_mark("now live");
  if (sonde_malloc_log_mode(SONDE_MALLOC_LIVE)) return 14;
  char *kept = malloc(54321);
  usleep(10000);
  if (sonde_malloc_of(kept + 54320, &block) || block.size != 54321 || block.tid != getpid())
    return 15;
  if (sonde_malloc_of(kept + 54321, &block) == 0 && block.size == 54321) return 16;
  if (sonde_malloc_log_stop()) return 17;
  if (sonde_malloc_log_stop() != SONDE_ENOTFOUND) return 18;
  free(kept);
  return 0;
}

int main(int argc, char **argv) {
  pthread_t threads[64];
  int count = argc > 3 ? atoi(argv[3]) : 0, status = 0;
  for (int i = 0; i < count; i++)
    pthread_create(&threads[i], NULL, work, (void *)(size_t)i);
  for (int i = 0; i < atoi(argv[2]) && !status; i++)
    status = round_of(argv[1], i);
  __atomic_store_n(&going, 0, __ATOMIC_RELAXED);
  for (int i = 0; i < count; i++)
    pthread_join(threads[i], NULL);
  return status;
}
