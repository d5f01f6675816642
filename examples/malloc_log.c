/* SPDX-License-Identifier: MIT
 *
 * The malloc log from inside: a program that asks about its own blocks, and tells of its own pool.
 *
 *   cc malloc_log.c -lsonde
 *   ./a.out run.sonde && sonde report run.sonde
 *   sonde record --malloc=live -- ./a.out          the same, in sonde's own recording
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sonde/sonde.h>

/* ---- a pool, as programs have them: one block of malloc's, given out in pieces --------------- */

enum { PIECES = 64, PIECE = 100 };
static char *pool;
static int used;

static void *pool_take(void) {
  void *piece = pool + PIECE * used++;
  sonde_alloc_event(piece, PIECE);
  return piece;
}

static void pool_give(void *piece) {
  sonde_free_event(piece);
  used--; /* the last one */
}

/* ---- who has this memory? -------------------------------------------------------------------- */

static void tell_of(const void *address) {
  sonde_block_t block;
  uintptr_t pcs[64];
  int status = sonde_malloc_of(address, &block);
  if (status < 0) {
    printf("nothing is known of it: %s\n", sonde_strerror(status));
    return;
  }
  printf("%zu bytes, %zu before that address, from:\n", block.size,
         (size_t)((uintptr_t)address - block.address));
  fflush(stdout);
  int count = sonde_malloc_stack(block.stack, pcs, 64);
  if (count > 0) sonde_stack_print(1, pcs, count, 0);
}

static int add(const sonde_block_t *block, void *sum) {
  *(size_t *)sum += block->size;
  return 0; /* go on */
}

int main(int argc, char **argv) {
  int status = sonde_malloc_log_start(argc > 1 ? argv[1] : NULL, SONDE_MALLOC_LIVE);
  if (status < 0) {
    fprintf(stderr, "no log: %s\n", sonde_strerror(status));
    return 2;
  }
  char *text = malloc(1234);
  tell_of(text + 1000);
  tell_of(&pool); /* no block */
  size_t bytes = 0;
  long long blocks = sonde_malloc_each(add, &bytes);
  printf("%lld blocks are live, %zu bytes\n", blocks, bytes);

  sonde_malloc_log_mode(SONDE_MALLOC_BLOCKS);
  sonde_mark("with history");
  pool = malloc(PIECES * PIECE);
  for (int i = 0; i < 10; i++)
    memset(pool_take(), 0, PIECE);
  for (int i = 9; i > 2; i--)
    pool_give(pool + PIECE * i);
  free(text);
  free(pool);
  status = sonde_malloc_log_stop();
  printf("the log ended: %s\n", sonde_strerror(status));
  return status < 0;
}
