/* SPDX-License-Identifier: MIT
 *
 * Allocation recording inside the program: queries about its own blocks, and events of its own
 * pool (sonde/malloc.h).
 *
 *   cc malloc_log.c -lsonde
 *   ./a.out run.sonde && sonde report run.sonde
 *   ./a.out run.sonde small.sonde                  also a summary of what is live (sonde/log.h)
 *   sonde record --malloc=live -- ./a.out          the same, recorded by the command
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sonde/sonde.h>

/* ---- a memory pool: one block of malloc, allocated in pieces ------------------------------- */

enum { PIECES = 64, PIECE = 100 };
static char *pool;
static int used;

static void *pool_alloc(void) {
  void *piece = pool + PIECE * used++;
  sonde_alloc_event(piece, PIECE);
  return piece;
}

static void pool_free(void *piece) {
  sonde_free_event(piece);
  used--; /* pieces are freed in reverse order */
}

/* ---- which block contains this address? --------------------------------------------------- */

static void print_block_of(const void *address) {
  sonde_block_t block;
  uintptr_t pcs[64];
  int status = sonde_malloc_of(address, &block);
  if (status < 0) {
    printf("not a live block: %s\n", sonde_strerror(status));
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
  return 0; /* continue */
}

int main(int argc, char **argv) {
  int status = sonde_malloc_log_start(argc > 1 ? argv[1] : NULL, SONDE_MALLOC_LIVE);
  if (status < 0) {
    fprintf(stderr, "cannot record: %s\n", sonde_strerror(status));
    return 2;
  }
  char *text = malloc(1234);
  print_block_of(text + 1000);
  print_block_of(&pool); /* not a block */
  size_t bytes = 0;
  long long blocks = sonde_malloc_each(add, &bytes);
  printf("%lld blocks are live, %zu bytes\n", blocks, bytes);

  if (argc > 2) { /* to be sent */
    int left_out = sonde_summary_write(argv[2], 0);
    printf("summary: %d stacks are left out\n", left_out);
  }

  sonde_malloc_log_mode(SONDE_MALLOC_BLOCKS);
  sonde_mark("with history");
  pool = malloc(PIECES * PIECE);
  for (int i = 0; i < 10; i++)
    memset(pool_alloc(), 0, PIECE);
  for (int i = 9; i > 2; i--)
    pool_free(pool + PIECE * i);
  free(text);
  free(pool);
  status = sonde_malloc_log_stop();
  printf("recording stopped: %s\n", sonde_strerror(status));
  return status < 0;
}
