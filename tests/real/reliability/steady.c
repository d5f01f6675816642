/* SPDX-License-Identifier: MIT
 *
 * A program that goes on while something fails. Each line of its input is an order: "w" works, "m"
 * takes memory until there is no more, "c" crashes. An answer is a number that allocating has
 * computed. It exits with 7 when its input ends.
 *
 * usage: steady THREADS      that wait
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCKS 500

static char *kept[BLOCKS];

__attribute__((noinline)) static char *keep(int i) {
  kept[i] = malloc(100 + (size_t)i);
  return kept[i] ? memset(kept[i], 1, 100) : NULL;
}

static int work(void) {
  int sum = 0;
  for (int i = 0; i < BLOCKS; i++) {
    free(kept[i]);
    const char *at = keep(i);
    sum += at ? at[50] : -10000;
  }
  return sum;
}

static void take_all(void) {
  for (;;) {
    char *volatile block = malloc(1 << 20);
    if (block) memset(block, 1, 1 << 20);
  }
}

static void *wait_for_ever(void *unused) {
  for (;;)
    pause();
  return unused;
}

int main(int argc, char **argv) {
  char line[64];
  pthread_t thread;
  pthread_attr_t small;
  setvbuf(stdout, NULL, _IONBF, 0);
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 64 << 10);
  for (int i = argc > 1 ? atoi(argv[1]) : 0; i > 0; i--)
    if (pthread_create(&thread, &small, wait_for_ever, NULL) != 0) return 1;
  puts("ready");
  while (fgets(line, sizeof line, stdin)) {
    if (*line == 'm') take_all();
    if (*line == 'c') abort();
    printf("%d\n", work());
  }
  return 7;
}
