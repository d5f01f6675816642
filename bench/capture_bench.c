/* SPDX-License-Identifier: MIT
 *
 * A capture of the calling thread's whole stack: sonde, libunwind and glibc in one run.
 *
 * The stack has DEPTH frames of sixteen functions with different frame sizes, called through a
 * table so that pcs and sizes vary. The program is built twice: without frame pointers, and with
 * them (capture_fp_bench) for the comparison with a walk by frame pointer. "Unchanged" captures the
 * same stack repeatedly. "3 change" chooses the innermost three frames at random each time.
 * "Nothing reused" clears the frame cache before each capture. Every figure is the median over
 * rounds in which the methods alternate, minus an empty call at the same place. libunwind replaces
 * backtrace() when it is linked, so dlsym finds glibc's in libc.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "bench.h"
#include "sonde/stack.h"
#include "capture/stack.h"
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

enum method { EMPTY, ID, PCS, NOTHING, PLAIN, PLAIN_ID, FP, FP_STORE, UNW, GLIBC, METHODS };
static const char *const names[METHODS] = {
    "empty call",    "sonde_stack_id",    "sonde_stack",        "id, nothing reused",
    "rule walk",     "rule walk, stored", "frame pointer walk", "frame pointers, stored",
    "unw_backtrace", "glibc backtrace"};

static uintptr_t pcs[DEPTH_MAX];

/* Rules only: no frame cache, no thread state. */
static __attribute__((noinline)) int walk_plainly(void) {
  static stack_window_t window;
  sonde_capture_t c = {.pcs = pcs, .max = DEPTH_MAX};
  position_t p;
  regs_t regs;
  regs.pc = arch_here(regs.r, &regs.known);
  position_after_return(&p, regs.pc, regs.r[machine_sp(MACHINE_HERE)],
                        regs.r[machine_fp(MACHINE_HERE)]);
  p.exact = true;
  if (!window.move) window = stack_window_of_process();
  if (!stack_window_holds(&window, p.sp)) window.move(&window, p.sp);
  walk_to_pcs(&window, &p, walk_epoch(), &c);
  return c.count;
}

/* Adds the result of an uncached walk to the stack table. */
static uint32_t store_nodes(int count) {
  uint64_t epoch = walk_epoch();
  uint32_t node = 0;
  while (count-- > 0)
    node = stack_table_child(node, frame_table_find(pcs[count], false, epoch).id);
  return node;
}

/* The plain walk by frame pointer, with the checks of bounds and alignment that it needs. */
static __attribute__((noinline)) int walk_frame_pointers(void) {
  const uintptr_t *fp = __builtin_frame_address(0);
  static uintptr_t top;
  if (!top) {
    pthread_attr_t attr;
    void *stack;
    size_t size;
    pthread_getattr_np(pthread_self(), &attr);
    pthread_attr_getstack(&attr, &stack, &size);
    pthread_attr_destroy(&attr);
    top = (uintptr_t)stack + size - 16;
  }
  int count = 0;
  while (count < DEPTH_MAX) {
    pcs[count++] = fp[1];
    const uintptr_t *next = (const uintptr_t *)fp[0];
    if (next <= fp || (uintptr_t)next > top || (uintptr_t)next & 7) break;
    fp = next;
  }
  return count;
}

/* Stores a stack as tools do that walk frame pointers: as a whole, found by its hash and compared.
 */
static int store_whole(int count) {
  static struct {
    int count;
    uintptr_t pcs[DEPTH_MAX];
  } table[4096];
  uint64_t hash = 0;
  for (int i = 0; i < count; i++)
    hash = (hash ^ pcs[i]) * 0x9e3779b97f4a7c15u;
  for (uint32_t slot = hash >> 52;; slot = (slot + 1) & 4095) {
    if (table[slot].count == count && !memcmp(table[slot].pcs, pcs, sizeof *pcs * (size_t)count))
      return (int)slot;
    if (table[slot].count == 0) {
      table[slot].count = count;
      memcpy(table[slot].pcs, pcs, sizeof *pcs * (size_t)count);
      return (int)slot;
    }
  }
}

static inline __attribute__((always_inline)) void capture(enum method method) {
  static void *addresses[DEPTH_MAX];
  uint32_t id;
  switch (method) {
  case ID: sonde_stack_id(&id); break;
  case PCS: sonde_stack(pcs, DEPTH_MAX); break;
  case NOTHING:
    frame_cache_clear(&thread_state_current->cache);
    sonde_stack_id(&id);
    break;
  case PLAIN: walk_plainly(); break;
  case PLAIN_ID: sink = (int)store_nodes(walk_plainly()); break;
  case FP: sink = walk_frame_pointers(); break;
  case FP_STORE: sink = store_whole(walk_frame_pointers()); break;
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
static int new_frames; /* The number of innermost frames that change at random. */
static uint32_t random_state = 12345;

static inline __attribute__((always_inline)) int run_captures(const uint8_t *path) {
  (void)path;
  do
    capture(method_now);
  while (!new_frames && --captures_left > 0);
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

/* The frame below which the innermost frames are called repeatedly. */
static __attribute__((noinline)) int hub(uint8_t *path, int count) {
  int result = 0;
  for (int i = 0; i < count; i++) {
    uint32_t r = next_random();
    for (int k = 0; k < new_frames; k++)
      path[k] = r >> (4 * k) & 7;
    result += functions[path[new_frames - 1]](new_frames - 1, path);
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
  if (!new_frames) return functions[path[depth]](depth, path);
  hub_path = path;
  hub_count = count;
  functions[15] = at_hub; /* path[new_frames] leads to the hub. */
  path[new_frames] = 15;
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

static bool applies(int method) {
#ifndef FRAME_POINTERS
  if (method == FP || method == FP_STORE) return false;
#endif
#ifndef SONDE_HAVE_LIBUNWIND
  if (method == UNW) return false;
#endif
  return true;
}

static void report(int depth, int changing) {
  static double taken[METHODS][ROUNDS];
  double net[METHODS];
  new_frames = changing;
  for (int round = -1; round < ROUNDS; round++)
    for (int m = 0; m < METHODS; m++) {
      if (!applies(m)) continue;
      double ns = measure((enum method)m, depth, m == GLIBC ? 3000 : 100000);
      if (round >= 0) taken[m][round] = ns;
    }
  for (int m = 0; m < METHODS; m++)
    net[m] = applies(m) ? bench_median(taken[m], ROUNDS) : 0;
  for (int m = METHODS - 1; m >= 0; m--)
    net[m] -= net[EMPTY];
  printf("\ndepth %d, %s%20s %16s %10s\n", depth, changing ? "3 change" : "unchanged", "ns",
         "of unw_backtrace", "of glibc");
  for (int m = ID; m < METHODS; m++)
    if (applies(m))
      printf("  %-24s %14.1f %16.3f %10.4f\n", names[m], net[m],
             applies(UNW) ? net[m] / net[UNW] : 0, net[m] / net[GLIBC]);
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
