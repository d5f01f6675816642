/* SPDX-License-Identifier: MIT
 *
 * A server that keeps every answer in a cache that nothing bounds. The cache is freed at the end.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct entry {
  struct entry *next;
  char answer[4000];
} entry_t;
static entry_t *cache;

__attribute__((noinline)) static void remember(const char *answer) {
  entry_t *e = malloc(sizeof *e);
  strcpy(e->answer, answer);
  e->next = cache;
  cache = e;
}

__attribute__((noinline)) static void serve(int i) {
  char *request = malloc(1000);
  memset(request, 'a' + i % 26, 100);
  request[100] = 0;
  remember(request);
  free(request);
  usleep(500);
}

int main(void) {
  for (int i = 0; i < 1000; i++)
    serve(i);
  while (cache) {
    entry_t *next = cache->next;
    free(cache);
    cache = next;
  }
}
