/* SPDX-License-Identifier: MIT
 *
 * A capture of the calling thread's whole stack: sonde beside libunwind and glibc, in one run.
 *
 * The stack is DEPTH frames of sixteen functions with different frame sizes, called through a table
 * so that pcs and sizes vary, compiled without frame pointers (and once with, for the frame pointer
 * walk). SAME captures the same stack over and over; FRESH3 picks the innermost three frames at
 * random each time; NONE runs on a stack whose outermost frame has just changed, so that nothing
 * can be reused. Every figure is the median over rounds in which the methods take turns, less an
 * empty call at the same place. libunwind replaces backtrace() when it is linked, so glibc's is
 * taken from libc by dlsym.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#include "bench.h"
#include "sonde/stack.h"
#include "stack/stack.h"
#ifdef SONDE_HAVE_LIBUNWIND
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#endif

#define ROUNDS    15
#define DEPTH_MAX 256

typedef int (*function_t)(int, const uint8_t *);
typedef int (*backtrace_t)(void **, int);
static function_t functions[16];
static backtrace_t glibc_backtrace;
static volatile int sink;

enum method { EMPTY, ID, PCS, PLAIN, UNW, GLIBC, METHODS };
static const char *const names[METHODS] = {"empty call",    "sonde_stack_id",
                                           "sonde_stack",   "sonde, rules only",
                                           "unw_backtrace", "glibc backtrace"};

static inline __attribute__((always_inline)) void capture(enum method method) {
  static uintptr_t pcs[DEPTH_MAX];
  static void *addresses[DEPTH_MAX];
  uint32_t id;
  switch (method) {
  case ID: sonde_stack_id(&id); break;
  case PCS: sonde_stack(pcs, DEPTH_MAX); break;
  case PLAIN: {
    sonde_capture_t c = {.pcs = pcs, .max = DEPTH_MAX};
    position_t p;
    static window_t window;
    uint64_t sp = (uint64_t)(uintptr_t)__builtin_frame_address(0);
    (void)sp;
    regs_t regs;
    regs.pc = arch_here(regs.r, &regs.known);
    position_after_return(&p, regs.pc, regs.r[machine_sp(MACHINE_HERE)],
                          regs.r[machine_fp(MACHINE_HERE)]);
    p.exact = true;
    if (!window.move) window = self_window();
    if (!window_holds(&window, p.sp)) window.move(&window, p.sp);
    walk_to_pcs(&window, &p, walk_epoch(), &c);
    break;
  }
#ifdef SONDE_HAVE_LIBUNWIND
  case UNW: unw_backtrace(addresses, DEPTH_MAX); break;
#endif
  case GLIBC: glibc_backtrace(addresses, DEPTH_MAX); break;
  default: break;
  }
  __asm__ volatile("" ::: "memory");
}

static enum method method_now;
static int captures_left;
static int fresh; /* how many of the innermost frames change at random */
static uint32_t random_state = 12345;

static inline __attribute__((always_inline)) int run_captures(const uint8_t *path) {
  (void)path;
  do
    capture(method_now);
  while (!fresh && --captures_left > 0);
  return 1;
}

#define FRAME(n)                                                                                   \
  static __attribute__((noinline)) int frame_##n(int depth, const uint8_t *path) {                 \
    volatile char room[16 + n * 24];                                                               \
    room[0] = (char)depth;                                                                         \
    int result = depth ? functions[path[depth]](depth - 1, path) : run_captures(path);             \
    return result + room[0];                                                                       \
  }
FRAME(0)
FRAME(1)
FRAME(2)
FRAME(3)
FRAME(4)
FRAME(5)
FRAME(6)
FRAME(7)
FRAME(8)
FRAME(9)
FRAME(10)
FRAME(11)
FRAME(12)
FRAME(13)
FRAME(14)
FRAME(15)
static function_t functions[16] = {frame_0,  frame_1,  frame_2,  frame_3, frame_4,  frame_5,
                                   frame_6,  frame_7,  frame_8,  frame_9, frame_10, frame_11,
                                   frame_12, frame_13, frame_14, frame_15};

static uint32_t next_random(void) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 17;
  random_state ^= random_state << 5;
  return random_state;
}

/* The frame below which the innermost ones are called again and again. */
static __attribute__((noinline)) int hub(uint8_t *path, int count) {
  int result = 0;
  for (int i = 0; i < count; i++) {
    uint32_t r = next_random();
    for (int k = 0; k < fresh; k++)
      path[k] = r >> (4 * k) & 7;
    result += functions[path[fresh - 1]](fresh - 1, path);
  }
  return result;
}

static __attribute__((noinline)) int descend(int depth, uint8_t *path, int count);
static uint8_t *hub_path;
static int hub_count;
static __attribute__((noinline)) int at_hub(int depth, const uint8_t *path) {
  (void)depth;
  (void)path;
  return hub(hub_path, hub_count);
}

static int descend(int depth, uint8_t *path, int count) {
  captures_left = count;
  if (!fresh) return functions[path[depth]](depth, path);
  hub_path = path;
  hub_count = count;
  functions[15] = at_hub; /* path[fresh] leads to the hub */
  path[fresh] = 15;
  int result = functions[path[depth]](depth, path);
  functions[15] = frame_15;
  return result;
}

static double measure(enum method method, int depth, int count) {
  uint8_t path[DEPTH_MAX];
  for (int i = 0; i < DEPTH_MAX; i++)
    path[i] = (uint8_t)((i * 7 + 3) % 15);
  method_now = method;
  uint64_t start = bench_now_ns();
  sink = descend(depth, path, count);
  return (double)(bench_now_ns() - start) / count;
}

static void report(int depth, int changing) {
  static double taken[METHODS][ROUNDS];
  fresh = changing;
  for (int round = -1; round < ROUNDS; round++)
    for (int m = 0; m < METHODS; m++) {
      double ns = measure((enum method)m, depth, m == GLIBC ? 3000 : 100000);
      if (round >= 0) taken[m][round] = ns;
    }
  double median[METHODS];
  for (int m = 0; m < METHODS; m++)
    median[m] = bench_median(taken[m], ROUNDS);
  printf("\ndepth %d, %s\n", depth, changing ? "the innermost 3 frames change" : "unchanged");
  for (int m = ID; m < METHODS; m++) {
    double net = median[m] - median[EMPTY];
    printf("  %-18s %8.1f ns", names[m], net);
    if (m == ID || m == PCS || m == PLAIN)
      printf("   1/%.1f of unw_backtrace, 1/%.0f of glibc", (median[UNW] - median[EMPTY]) / net,
             (median[GLIBC] - median[EMPTY]) / net);
    printf("\n");
  }
}

int main(void) {
  void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
  glibc_backtrace = (backtrace_t)(uintptr_t)dlsym(libc, "backtrace");
  const int depths[] = {10, 30, 100};
  for (int i = 0; i < 3; i++) {
    report(depths[i], 0);
    report(depths[i], 3);
  }
  return 0;
}
