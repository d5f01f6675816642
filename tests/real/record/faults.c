/* SPDX-License-Identifier: MIT
 *
 * Crashes in the way that its argument names. Blocks come from make_block and go in drop_block.
 */
#define _GNU_SOURCE
#include <assert.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(AS_PLUGIN)
int plugin_work(void);
int plugin_work(void) {
  void *volatile block = malloc(100);
  free(block);
  return block != NULL;
}
#else

typedef struct node {
  struct node *next;
  char text[40];
} node_t;

static volatile int zero, number = 7;

__attribute__((noinline)) static void *make_block(size_t size) {
  void *block = malloc(size);
  memset(block, 0x11, size);
  return block;
}

__attribute__((noinline)) static void drop_block(void *block) {
  free(block);
  __asm__ volatile("");
}

static void *drop_elsewhere(void *block) {
  drop_block(block);
  return NULL;
}

/* The block has its own mapping, which is gone. */
__attribute__((noinline)) static void use_large(void) {
  char *volatile block = make_block(1 << 20);
  pthread_t thread;
  pthread_create(&thread, NULL, drop_elsewhere, block);
  pthread_join(thread, NULL);
  block[5000] = 1;
}

/* The pointer in the freed block leads nowhere; the block's address is in a register. */
__attribute__((noinline)) static int use_node(node_t *node) {
  int found = *(volatile int *)((char *)node->next + 0x10);
  __asm__ volatile("" : : "r"(node)); /* still in a register at the access */
  return found;
}

static void use_small(void) {
  node_t *node = make_block(sizeof *node);
  drop_block(node);
  *(uintptr_t *)node = 0x1000000;
  printf("%d\n", use_node(node));
}

static void double_free(void) {
  void *block = make_block(48);
  drop_block(block);
  drop_block(block);
}

static void free_inside(void) { drop_block((char *)make_block(480) + 16); }

__attribute__((noinline)) static char *make_row(size_t size) {
  char *row = malloc(size);
  memset(row, 0x22, size);
  return row;
}

/* Too large for the caches of the allocator, and beside each other. The end of the first is written
 * over what the allocator keeps in front of the second. */
static void write_over_end(bool frees_first) {
  enum { SIZE = 2000, TOO_MUCH = 24 };
  char *row = make_row(SIZE), *block = make_block(SIZE), *volatile last = make_block(SIZE);
  memset(row, 0x11, SIZE + TOO_MUCH);
  drop_block(frees_first ? row : block);
  drop_block(last);
}

/* The memory of a large block ends at the end of a page; a page without access follows, where
 * another block has begun. */
static void write_behind(void) {
  enum { BLOCKS = 8, SIZE = (1 << 20) - 100, HEAD = 16, PAGE = 4096 };
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
  char *blocks[BLOCKS];
  for (int i = 0; i < BLOCKS; i++)
    blocks[i] = make_block(SIZE);
  for (int i = 0; i < BLOCKS; i++)
    for (int k = 0; k < BLOCKS; k++) {
      char *end = (char *)(((uintptr_t)blocks[i] + SIZE + PAGE - 1) & ~(uintptr_t)(PAGE - 1));
      if (blocks[k] - HEAD != end) continue;
      drop_block(blocks[k]);
      if (mmap(end, PAGE, PROT_NONE, flags, -1, 0) == end) *(volatile char *)end = 1;
    }
}

__attribute__((noinline)) static int overflow(int n) {
  volatile char room[512];
  memset((char *)room, n, sizeof room);
  return overflow(n + 1) + room[0];
}

static void *overflow_here(void *unused) {
  printf("%d\n", overflow(1));
  return unused;
}

static void overflow_in_thread(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, overflow_here, NULL);
  pthread_join(thread, NULL);
}

static void call_unloaded(void) {
  void *library = dlopen(getenv("PLUGIN"), RTLD_NOW | RTLD_LOCAL);
  int (*volatile work)(void);
  *(void **)&work = dlsym(library, "plugin_work");
  printf("%d\n", work());
  dlclose(library);
  printf("%d\n", work());
}

static void registers_known(void) {
#if defined(__x86_64__)
  __asm__ volatile("mov $0x1111, %%rax\n\tmov $0x2222, %%rbx\n\tmov $0x3333, %%r9\n\t"
                   "mov $0x4444, %%r15\n\tmov $0x18, %%rdi\n\tmovl $1, (%%rdi)"
                   :
                   :
                   : "rax", "rbx", "r9", "r15", "rdi", "memory");
#else
  __asm__ volatile("mov x0, #0x1111\n\tmov x19, #0x2222\n\tmov x9, #0x3333\n\tmov x28, #0x4444\n\t"
                   "mov x1, #0x18\n\tstr x0, [x1]"
                   :
                   :
                   : "x0", "x1", "x9", "x19", "x28", "memory");
#endif
}

int main(int count, char **words) {
  const char *how = count > 1 ? words[1] : "";
  alarm(100);
  if (!strcmp(how, "large")) use_large();
  if (!strcmp(how, "small")) use_small();
  if (!strcmp(how, "double")) double_free();
  if (!strcmp(how, "inside")) free_inside();
  if (!strcmp(how, "behind")) write_behind();
  if (!strcmp(how, "over")) write_over_end(true);
  if (!strcmp(how, "into")) write_over_end(false);
  if (!strcmp(how, "stack")) printf("%d\n", overflow(1));
  if (!strcmp(how, "thread")) overflow_in_thread();
  if (!strcmp(how, "unloaded")) call_unloaded();
  if (!strcmp(how, "null")) registers_known();
  if (!strcmp(how, "assert")) assert(number == 8);
  if (!strcmp(how, "zero")) printf("%d\n", number / zero);
  if (!strcmp(how, "const")) *(volatile char *)"text" = 'x';
  return 1;
}
#endif
