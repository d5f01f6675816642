/* SPDX-License-Identifier: MIT
 *
 * Computes for a while under DEPTH frames of different sizes: spin DEPTH MILLIONS. Prints the CPU
 * time in seconds. It touches no memory but its stack, so that what varies between runs is the
 * profiler.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t spin(uint64_t count) {
  uint64_t x = 88172645463325252u;
  while (count-- > 0) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
  }
  return x;
}

#define FRAME(n, next)                                                                             \
  static __attribute__((noinline)) uint64_t frame_##n(int depth, uint64_t count) {                 \
    volatile char room[16 + n * 24];                                                               \
    room[0] = (char)depth;                                                                         \
    return (depth > 1 ? next(depth - 1, count) : spin(count)) + (uint64_t)room[0];                 \
  }
static uint64_t frame_0(int depth, uint64_t count);
FRAME(3, frame_0)
FRAME(2, frame_3)
FRAME(1, frame_2)
FRAME(0, frame_1)

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  volatile uint64_t sink = frame_0(atoi(argv[1]), strtoull(argv[2], NULL, 10) * 1000000);
  (void)sink;
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  printf("%.6f\n", (double)t.tv_sec + 1e-9 * (double)t.tv_nsec);
  return 0;
}
