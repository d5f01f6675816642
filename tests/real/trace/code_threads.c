/* SPDX-License-Identifier: MIT
 *
 * Eight threads that calculate in small calls until standard input ends, and allocate now and then:
 * their results are right whatever happens to their code meanwhile.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define KEEP __attribute__((noinline))

static volatile int done, zero;

KEEP static unsigned long mix(unsigned long a, unsigned long b, double c) {
  return a * 31 + b + (unsigned long)c + (unsigned long)zero;
}
KEEP static double half(double x) { return x / 2; }
KEEP static unsigned long tree(int n, double x) {
  return n ? mix(tree(n - 1, half(x)), tree(n - 1, half(x)), x) : (unsigned long)x;
}

static void *work(void *wrong) {
  unsigned long expected = tree(8, 1000.0);
  while (!done) {
    if (tree(8, 1000.0) != expected) *(volatile int *)wrong = 1;
    void *volatile block = malloc(100);
    free(block);
  }
  return NULL;
}

int main(void) {
  pthread_t t[8];
  static int wrong;
  printf("%d\n", (int)getpid());
  fflush(stdout);
  for (int i = 0; i < 8; i++)
    pthread_create(&t[i], NULL, work, &wrong);
  while (getchar() != EOF) {
  }
  done = 1;
  for (int i = 0; i < 8; i++)
    pthread_join(t[i], NULL);
  puts(wrong ? "wrong" : "right");
  return wrong;
}
