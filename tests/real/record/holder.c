/* SPDX-License-Identifier: MIT
 *
 * Holds a known set of blocks. usage: holder COUNT; then one line a command on its input: "more N",
 * "less N", "move" (half of them by realloc), "map" (some memory), "end"; after each it says how
 * many it holds, how many bytes they are, and what glibc itself takes for in use (mallinfo2: its
 * own words included).
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static char *blocks[1 << 20];
static size_t sizes[1 << 20];
static long held;

static void more(long n) {
  for (; n > 0; n--) {
    sizes[held] = 1 + (size_t)(held * 37 % 900);
    blocks[held] = malloc(sizes[held]);
    held++;
  }
}

static void less(long n) {
  for (; n > 0 && held > 0; n--)
    free(blocks[--held]);
}

static void move(void) {
  for (long i = 0; i < held; i += 2) {
    sizes[i] += 1000;
    blocks[i] = realloc(blocks[i], sizes[i]);
  }
}

static void map(void) {
  void *p = mmap(NULL, 65536, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  p = mremap(p, 65536, 1 << 20, MREMAP_MAYMOVE);
  munmap(p, 1 << 19);
}

int main(int argc, char **argv) {
  static char in[1 << 12], out[1 << 12], line[64];
  setvbuf(stdin, in, _IOLBF, sizeof in);
  setvbuf(stdout, out, _IOLBF, sizeof out);
  size_t before = mallinfo2().uordblks;
  more(argc > 1 ? atol(argv[1]) : 0);
  do {
    size_t bytes = 0;
    for (long i = 0; i < held; i++)
      bytes += sizes[i];
    printf("%ld %zu %zu\n", held, bytes, mallinfo2().uordblks - before);
    if (!fgets(line, sizeof line, stdin)) break;
    if (!strncmp(line, "more ", 5)) more(atol(line + 5));
    if (!strncmp(line, "less ", 5)) less(atol(line + 5));
    if (!strncmp(line, "move", 4)) move();
    if (!strncmp(line, "map", 3)) map();
  } while (strncmp(line, "end", 3));
  return 0;
}
