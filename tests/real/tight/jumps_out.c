/* SPDX-License-Identifier: MIT
 *
 * A computation that is given up by a jump out of a signal handler, 3000 times, as programs do that
 * limit the time of one; then half a second of another.
 */
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>

static sigjmp_buf out;
static volatile unsigned long jumps, rounds;

static void give_up(int number) {
  (void)number;
  jumps++;
  siglongjmp(out, 1);
}

static void limit(long us) {
  const struct itimerval time = {{0, us}, {0, us}};
  setitimer(ITIMER_REAL, &time, NULL);
}

static double cpu_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(void) {
  signal(SIGALRM, give_up);
  (void)sigsetjmp(out, 1);
  limit(211);
  while (jumps < 3000)
    rounds++;
  limit(0);
  for (double end = cpu_seconds() + 0.5; cpu_seconds() < end;)
    for (int i = 0; i < 100000; i++)
      rounds++;
  return 0;
}
