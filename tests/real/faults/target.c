/* SPDX-License-Identifier: MIT
 *
 * A program that is looked at. With an argument: allocates, prints "answer 42" and exits with 7.
 * Without: three threads wait, and each line of the input is answered with a number that allocating
 * and freeing has computed.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *kept[50];

__attribute__((noinline)) static char *keep(int i) {
  kept[i] = malloc(100 + (size_t)i);
  return kept[i] ? memset(kept[i], i, 100) : NULL;
}

static int work(void) {
  int sum = 0;
  for (int i = 0; i < 50; i++) {
    free(kept[i]);
    char *at = keep(i);
    sum += at ? at[50] : -10000;
  }
  return sum;
}

static void *wait_for_ever(void *unused) {
  pause();
  return unused;
}

int main(int argc, char **argv) {
  char line[64];
  (void)argv;
  setvbuf(stdout, NULL, _IONBF, 0);
  if (argc > 1) {
    int sum = work();
    usleep(40000);
    for (volatile long i = 0; i < 20000000; i++) {
    }
    printf("answer %d\n", sum - 1183);
    return 7;
  }
  for (int i = 0; i < 3; i++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, wait_for_ever, NULL) != 0) return 1;
  }
  puts("ready");
  while (fgets(line, sizeof line, stdin))
    printf("%d\n", work());
  return 0;
}
