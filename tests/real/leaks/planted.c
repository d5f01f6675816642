/* SPDX-License-Identifier: MIT
 *
 * Blocks that are lost, and blocks that are held in every way there is, with what should be said of
 * each: a line "KIND EXPECTED ADDRESS SIZE" a block, then "ready". EXPECTED is lost (by itself),
 * cycle, held (by a lost one), kept, or unsure. Argument: a seed.
 *
 * Nothing of the program's own knows the addresses: they are noted down with all bits turned, and
 * the stack is overwritten after each planting.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOINLINE  __attribute__((noinline))
#define PLANTED   20000
#define EACH      40
#define KEPT_MOST 4096

static struct planted {
  const char *kind, *expected;
  uintptr_t turned; /* the address */
  size_t size;
} planted[PLANTED];
static int count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t random_state;

static unsigned chance(unsigned below) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)(random_state >> 33) % below;
}

static size_t some_size(void) {
  static const size_t classes[] = {8, 24, 40, 64, 120, 256, 1000, 5000, 70000, 300000};
  size_t most = classes[chance(chance(8) ? 7 : 10)];
  return most < 16 ? 8 : 8 + chance((unsigned)most - 7);
}

/* Memory that points nowhere. */
NOINLINE static void *block(const char *kind, const char *expected, size_t size) {
  void *memory;
  if (chance(8) == 0) {
    if (posix_memalign(&memory, 64, size)) abort();
  } else {
    memory = malloc(size);
  }
  memset(memory, 0x11, size);
  pthread_mutex_lock(&lock);
  planted[count++] = (struct planted){kind, expected, ~(uintptr_t)memory, size};
  pthread_mutex_unlock(&lock);
  return memory;
}

NOINLINE static void scrub(void) {
  volatile char stack[32768];
  for (size_t i = 0; i < sizeof stack; i++)
    stack[i] = 0;
}

/* The registers that a function keeps for its caller hold nothing of what it did. */
#define FORGET()                                                                                   \
  do {                                                                                             \
    scrub();                                                                                       \
  } while (0)

/* ---- lost --------------------------------------------------------------------------------- */

NOINLINE static void lose_one(void) { block("single", "lost", some_size()); }

NOINLINE static void lose_self(void) {
  void **b = block("self", "lost", 8 + some_size());
  *b = b;
}

NOINLINE static void lose_list(void) {
  void **head = block("list", "lost", 8 + some_size());
  for (unsigned n = 1 + chance(5); n; n--) {
    void **next = block("list", "held", 16 + some_size());
    *head = (char *)next + chance(2) * 8; /* inside as well */
    head = next;
  }
  *head = NULL;
}

NOINLINE static void lose_tree(void) {
  void **root = block("tree", "lost", 64);
  memset(root, 0, 64);
  for (int i = 0; i < 8; i++)
    root[i] = block("tree", "held", some_size());
}

/* Which of them is named first is the tool's choice. */
NOINLINE static void lose_cycle(void) {
  unsigned n = 2 + chance(5);
  void **first = block("cycle", "cycle", 16), **last = first;
  for (unsigned i = 1; i < n; i++) {
    void **next = block("cycle", "cycle", 16 + some_size());
    *last = next;
    last = next;
  }
  *last = first;
}

/* ---- kept --------------------------------------------------------------------------------- */

/* Not static, so that the compiler does not leave out what is never read. */
void *global_table[KEPT_MOST];
void *inside_table[KEPT_MOST];
int global_count, inside_count;
void **cache; /* buckets of lists */
char *last_byte;
__thread void *in_tls[8];
__thread void *in_tls_of_main;
void **mapped, **read_only, **grown;
pthread_key_t key;

NOINLINE static void keep_in_data(void) {
  global_table[global_count++] = block("data", "kept", some_size());
  size_t size = 16 + some_size();
  inside_table[inside_count++] =
      (char *)block("inside", "kept", size) + 1 + chance((unsigned)size - 1);
}

NOINLINE static void keep_in_cache(void) {
  if (!cache) {
    cache = block("cache", "kept", 64 * sizeof *cache);
    memset(cache, 0, 64 * sizeof *cache);
  }
  void **entry = block("cache", "kept", 8 + some_size());
  void **bucket = &cache[chance(64)];
  *entry = *bucket;
  *bucket = entry;
}

NOINLINE static void keep_elsewhere(void) {
  mapped = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void **page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < EACH; i++)
    mapped[i] = block("mapped", "kept", some_size());
  for (int i = 0; i < EACH; i++)
    page[i] = block("read-only", "kept", some_size());
  mprotect(page, 4096, PROT_READ);
  read_only = page;
  last_byte = (char *)block("large", "kept", 1 << 20) + (1 << 20) - 1;
  in_tls_of_main = block("tls", "kept", some_size());
  pthread_setspecific(key, block("specific", "kept", some_size()));
}

/* A table that grew by realloc, the only holder of what is in it. */
NOINLINE static void keep_in_grown(void) {
  for (size_t n = 1; n <= 400; n++) {
    grown = realloc(grown, n * sizeof *grown);
    grown[n - 1] = block("grown", "kept", some_size());
  }
}

/* ---- kept by threads ---------------------------------------------------------------------- */

static int pipe_of[2];
static int waiting;

static void arrive(void) { __atomic_fetch_add(&waiting, 1, __ATOMIC_SEQ_CST); }

NOINLINE static void *on_stack(void *unused) {
  void *volatile here[8];
  for (int i = 0; i < 8; i++)
    here[i] = block("stack", "kept", some_size());
  for (int i = 0; i < 8; i++)
    in_tls[i] = block("thread-tls", "kept", some_size());
  pthread_setspecific(key, block("thread-specific", "kept", some_size()));
  FORGET();
  arrive();
  char c;
  while (read(pipe_of[0], &c, 1) < 0) {
  }
  (void)unused;
  return here[0];
}

/* What holds a block is one register alone, r12 or x25, which functions keep for their callers:
 * while a system call waits (a[0] is its number), while the C library's epoll_wait does, while the
 * thread runs; or a vector register, xmm9 or v20. The address is turned back inside. */
#if defined(__x86_64__)
#define PAUSE SYS_pause
#define WAIT_HOLDING(turned, a)                                                                    \
  __asm__ volatile("mov %0, %%r12\n\tmov $0, %0\n\tnot %%r12\n\tmov 0(%1), %%rax\n\t"              \
                   "mov 8(%1), %%rdi\n\tmov 16(%1), %%rsi\n\tmov 24(%1), %%rdx\n\t"                \
                   "xor %%r10, %%r10\n\tsyscall\n\txor %%r12, %%r12"                               \
                   : "+r"(turned)                                                                  \
                   : "r"(a)                                                                        \
                   : "rax", "rdi", "rsi", "rdx", "r10", "r11", "rcx", "r12", "memory")
#define EPOLL_HOLDING(turned, fd, event)                                                           \
  __asm__ volatile("mov %0, %%r12\n\tmov $0, %0\n\tnot %%r12\n\tmov %%rsp, %%rbx\n\t"              \
                   "sub $256, %%rsp\n\tand $-16, %%rsp\n\tcall *%1\n\tmov %%rbx, %%rsp\n\t"        \
                   "xor %%r12, %%r12"                                                              \
                   : "+r"(turned)                                                                  \
                   : "r"(epoll_wait), "D"((uint64_t)(fd)), "S"(event), "d"(1ul), "c"(100000ul)     \
                   : "rax", "r8", "r9", "r10", "r11", "r12", "rbx", "memory", "cc")
#define LOOP_HOLDING(turned, stop)                                                                 \
  __asm__ volatile(                                                                                \
      "mov %0, %%r12\n\tmov $0, %0\n\tnot %%r12\n1:\n\tpause\n\tcmpl $0, %1\n\tje 1b\n\t"          \
      "xor %%r12, %%r12"                                                                           \
      : "+r"(turned)                                                                               \
      : "m"(stop)                                                                                  \
      : "r12", "memory", "cc")
#define LOOP_HOLDING_IN_VECTOR(turned, stop)                                                       \
  __asm__ volatile(                                                                                \
      "not %0\n\tmovq %0, %%xmm9\n\tmov $0, %0\n1:\n\tpause\n\tcmpl $0, %1\n\tje 1b\n\t"           \
      "pxor %%xmm9, %%xmm9"                                                                        \
      : "+r"(turned)                                                                               \
      : "m"(stop)                                                                                  \
      : "xmm9", "memory", "cc")
#else
#define PAUSE SYS_ppoll
#define WAIT_HOLDING(turned, a)                                                                    \
  __asm__ volatile("mvn x25, %0\n\tmov %0, #0\n\tldp x8, x0, [%1]\n\tldp x1, x2, [%1, #16]\n\t"    \
                   "mov x3, #0\n\tmov x4, #0\n\tsvc #0\n\tmov x25, #0"                             \
                   : "+r"(turned)                                                                  \
                   : "r"(a)                                                                        \
                   : "x0", "x1", "x2", "x3", "x4", "x8", "x25", "memory")
#define EPOLL_HOLDING(turned, fd, event)                                                           \
  do {                                                                                             \
    register uint64_t x0 __asm__("x0") = (uint64_t)(fd), x1 __asm__("x1") = (uintptr_t)(event);    \
    register uint64_t x2 __asm__("x2") = 1, x3 __asm__("x3") = 100000;                             \
    __asm__ volatile("mvn x25, %0\n\tmov %0, #0\n\tblr %5\n\tmov x25, #0"                          \
                     : "+r"(turned), "+r"(x0), "+r"(x1), "+r"(x2), "+r"(x3)                        \
                     : "r"(epoll_wait)                                                             \
                     : "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14",      \
                       "x15", "x16", "x17", "x25", "x30", "v0", "v1", "v2", "v3", "v4", "v5",      \
                       "v6", "v7", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24",  \
                       "v25", "v26", "v27", "v28", "v29", "v30", "v31", "memory", "cc");           \
  } while (0)
#define LOOP_HOLDING(turned, stop)                                                                 \
  __asm__ volatile("mvn x25, %0\n\tmov %0, #0\n1:\n\tyield\n\tldr w9, %1\n\tcbz w9, 1b\n\t"        \
                   "mov x25, #0"                                                                   \
                   : "+r"(turned)                                                                  \
                   : "m"(stop)                                                                     \
                   : "x9", "x25", "memory")
#define LOOP_HOLDING_IN_VECTOR(turned, stop)                                                       \
  __asm__ volatile("mvn %0, %0\n\tfmov d20, %0\n\tmov %0, #0\n1:\n\tyield\n\tldr w9, %1\n\t"       \
                   "cbz w9, 1b\n\tmovi v20.2d, #0"                                                 \
                   : "+r"(turned)                                                                  \
                   : "m"(stop)                                                                     \
                   : "x9", "v20", "memory")
#endif

/* The block is in that register alone while the CALL waits with these arguments. */
#define HELD_IN_A_REGISTER(name, kind, expected, ...)                                              \
  NOINLINE static void *name(void *unused) {                                                       \
    (void)unused;                                                                                  \
    uint64_t turned = ~(uint64_t)(uintptr_t)block(kind, expected, 48);                             \
    uint64_t a[4] = {__VA_ARGS__};                                                                 \
    FORGET();                                                                                      \
    arrive();                                                                                      \
    WAIT_HOLDING(turned, a);                                                                       \
    return NULL;                                                                                   \
  }
static char a_byte;
static struct { int64_t seconds, ns; } long_time = {1000, 0};
HELD_IN_A_REGISTER(in_read, "register-read", "kept", SYS_read, (uint64_t)pipe_of[0],
                   (uintptr_t)&a_byte, 1)
HELD_IN_A_REGISTER(in_pause, "register-pause", "kept", PAUSE)
HELD_IN_A_REGISTER(in_sleep, "register-sleep", "unsure", SYS_nanosleep, (uintptr_t)&long_time, 0)

NOINLINE static void *in_epoll(void *unused) {
  (void)unused;
  struct epoll_event event;
  uint64_t turned = ~(uint64_t)(uintptr_t)block("register-epoll", "kept", 48);
  int fd = epoll_create1(0);
  FORGET();
  arrive();
  EPOLL_HOLDING(turned, fd, &event);
  return NULL;
}

static volatile int stop;
NOINLINE static void *in_loop(void *unused) {
  (void)unused;
  uint64_t turned = ~(uint64_t)(uintptr_t)block("register-loop", "kept", 48);
  FORGET();
  arrive();
  LOOP_HOLDING(turned, stop);
  return NULL;
}

NOINLINE static void *in_vector(void *unused) {
  (void)unused;
  uint64_t turned = ~(uint64_t)(uintptr_t)block("vector-loop", "kept", 48);
  FORGET();
  arrive();
  LOOP_HOLDING_IN_VECTOR(turned, stop);
  return NULL;
}

/* What a thread that has ended held is lost. */
NOINLINE static void *ends(void *unused) {
  (void)unused;
  void *volatile here = block("ended", "lost", 48);
  (void)here;
  return NULL;
}

static void start(void *(*run)(void *), int threads) {
  for (int i = 0; i < threads; i++) {
    pthread_t t;
    if (pthread_create(&t, NULL, run, NULL)) abort();
    pthread_detach(t);
  }
}

static void start_threads(const char *with) {
  int wanted = 4;
  start(on_stack, 4);
  static const struct {
    char letter;
    void *(*run)(void *);
  } more[] = {{'r', in_read},  {'p', in_pause}, {'s', in_sleep},
              {'e', in_epoll}, {'l', in_loop},  {'v', in_vector}};
  for (size_t i = 0; i < sizeof more / sizeof *more; i++)
    if (strchr(with, more[i].letter)) {
      start(more[i].run, 1);
      wanted++;
    }
  if (strchr(with, 'x')) {
    pthread_t t;
    for (int i = 0; i < EACH; i++)
      if (pthread_create(&t, NULL, ends, NULL) || pthread_join(t, NULL)) abort();
  }
  while (__atomic_load_n(&waiting, __ATOMIC_SEQ_CST) < wanted)
    usleep(1000);
  usleep(50000); /* all are in their calls */
}

/* Freed again, between the others, so that the heap has holes with old pointers in them. */
NOINLINE static void disturb(void) {
  void **old[64];
  for (int i = 0; i < 64; i++) {
    old[i] = malloc(8 + some_size());
    *old[i] = i ? old[i - 1] : NULL;
  }
  for (int i = 0; i < 64; i++)
    free(old[i]);
  memset(old, 0, sizeof old);
}

NOINLINE static void plant(void) {
  void (*ways[])(void) = {lose_one,   lose_self,    lose_list,     lose_tree,
                          lose_cycle, keep_in_data, keep_in_cache, disturb};
  for (int i = 0; i < 8 * EACH; i++) {
    ways[chance(8)]();
    FORGET();
  }
}

static void tell(void) {
  for (int i = 0; i < count; i++)
    printf("%s %s 0x%jx %zu\n", planted[i].kind, planted[i].expected, (uintmax_t)~planted[i].turned,
           planted[i].size);
  memset(planted, 0, sizeof planted);
  puts("ready");
  fflush(stdout);
}

int main(int argc, char **argv) {
  random_state = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
  static char buffer[65536];
  setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
  if (pipe(pipe_of) || pthread_key_create(&key, NULL)) return 1;
  plant();
  keep_elsewhere();
  FORGET();
  keep_in_grown();
  FORGET();
  start_threads(argc > 2 ? argv[2] : "");
  FORGET();
  tell();
  memset(buffer, 0, sizeof buffer);
  FORGET();
  getchar();
  return 0;
}
