/* SPDX-License-Identifier: MIT
 *
 * Threads that allocate, realloc, free and hand blocks to each other without ever losing one, until
 * a line is read. What is told to be lost here is told wrongly. Arguments: threads, seed.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHELVES 256
#define LOCAL   64

typedef struct node {
  struct node *next;
  size_t size;
} node_t;

static struct shelf {
  pthread_mutex_t lock;
  node_t *first;
  void **table; /* grows and shrinks: holds what nothing else does */
  size_t used, room;
} shelves[SHELVES];
static volatile int stop;
static __thread node_t *own[LOCAL];

static uint64_t chance(uint64_t *state, uint64_t below) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (*state >> 33) % below;
}

static node_t *new_node(uint64_t *r) {
  size_t size = sizeof(node_t) + chance(r, chance(r, 20) ? 200 : 40000);
  node_t *n = chance(r, 2) ? malloc(size) : calloc(1, size);
  n->next = NULL;
  n->size = size;
  return n;
}

static void work_on_list(struct shelf *s, uint64_t *r) {
  node_t *n = new_node(r);
  n->next = s->first;
  s->first = n;
  if (chance(r, 3) == 0) return;
  for (int i = 0; i < 2 && s->first; i++) {
    node_t *old = s->first;
    s->first = old->next;
    free(old);
  }
}

static void work_on_table(struct shelf *s, uint64_t *r) {
  if (s->used == s->room) {
    s->room = s->room ? 2 * s->room : 4;
    s->table = realloc(s->table, s->room * sizeof *s->table);
  }
  s->table[s->used++] = new_node(r);
  if (s->used < 1000) return;
  while (s->used > 4)
    free(s->table[--s->used]);
  s->room = 4;
  s->table = realloc(s->table, 4 * sizeof *s->table);
}

static void *run(void *seed) {
  uint64_t r = (uint64_t)(uintptr_t)seed;
  while (!stop) {
    struct shelf *s = &shelves[chance(&r, SHELVES)];
    pthread_mutex_lock(&s->lock);
    if (chance(&r, 2))
      work_on_list(s, &r);
    else
      work_on_table(s, &r);
    pthread_mutex_unlock(&s->lock);
    node_t **place = &own[chance(&r, LOCAL)];
    free(*place);
    *place = NULL; /* a word that points to freed memory is none of the program's business */
    *place = new_node(&r);
    if (chance(&r, 4) == 0) *place = realloc(*place, (*place)->size + 100);
  }
  return NULL;
}

int main(int argc, char **argv) {
  int count = argc > 1 ? atoi(argv[1]) : 4;
  uintptr_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
  pthread_t threads[256];
  for (int i = 0; i < SHELVES; i++)
    pthread_mutex_init(&shelves[i].lock, NULL);
  for (int i = 0; i < count && i < 256; i++)
    if (pthread_create(&threads[i], NULL, run, (void *)(seed * 1000 + (uintptr_t)i))) return 1;
  puts("ready");
  fflush(stdout);
  getchar();
  stop = 1;
  for (int i = 0; i < count && i < 256; i++)
    pthread_join(threads[i], NULL);
  return 0;
}
