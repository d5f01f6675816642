/* SPDX-License-Identifier: MIT
 *
 * Counts how often a program's functions are entered, by breakpoints: nothing of sonde is involved.
 *
 * usage: breakpoints OUTPUT IMAGE OFFSETS -- COMMAND…
 * OFFSETS is a file of hexadecimal addresses of IMAGE, the program or a library, as linked; the
 * first line is the lowest address of its segments. Writes lines "offset count" to OUTPUT.
 * The command must have one thread and must not fork.
 */
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct point {
  uint64_t offset, address, count;
  long word;
} point_t;

static point_t *points;
static size_t count;
static uint64_t lowest;
static pid_t child;

static void read_points(const char *path) {
  FILE *file = fopen(path, "r");
  if (!file || fscanf(file, "%lx", &lowest) != 1) exit(2);
  points = calloc(1 << 20, sizeof *points);
  while (fscanf(file, "%lx", &points[count].offset) == 1)
    count++;
  fclose(file);
}

static uint64_t start_of(const char *image) {
  char path[64], line[4096];
  uint64_t start = 0;
  snprintf(path, sizeof path, "/proc/%d/maps", child);
  FILE *maps = fopen(path, "r");
  while (!start && fgets(line, sizeof line, maps))
    if (strstr(line, image)) start = strtoull(line, NULL, 16);
  fclose(maps);
  return start;
}

static long peek(uint64_t at) { return ptrace(PTRACE_PEEKTEXT, child, at, NULL); }
static void poke(uint64_t at, long word) { ptrace(PTRACE_POKETEXT, child, at, word); }

static void put(uint64_t at) {
  long word = peek(at);
  poke(at, (word & ~0xffL) | 0xcc);
}

static void take(const point_t *p) {
  long word = peek(p->address);
  poke(p->address, (word & ~0xffL) | (p->word & 0xff));
}

static point_t *find(uint64_t address) {
  size_t low = 0, high = count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (points[middle].address < address)
      low = middle + 1;
    else
      high = middle;
  }
  return low < count && points[low].address == address ? &points[low] : NULL;
}

/* Runs until the next stop; passes other signals on. Returns false at the end. */
static int next(int request, int *status) {
  int signal_number = 0;
  for (;;) {
    ptrace(request, child, NULL, (long)signal_number);
    if (waitpid(child, status, 0) < 0 || !WIFSTOPPED(*status)) return 0;
    if (WSTOPSIG(*status) == SIGTRAP) return 1;
    signal_number = WSTOPSIG(*status);
  }
}

static void set_pc(uint64_t pc) {
  struct user_regs_struct r;
  ptrace(PTRACE_GETREGS, child, NULL, &r);
  r.rip = pc;
  ptrace(PTRACE_SETREGS, child, NULL, &r);
}

static uint64_t entry_point(void) {
  char path[64];
  uint64_t pair[2];
  snprintf(path, sizeof path, "/proc/%d/auxv", child);
  FILE *file = fopen(path, "r");
  while (fread(pair, sizeof pair, 1, file) == 1)
    if (pair[0] == AT_ENTRY) break;
  fclose(file);
  return pair[1];
}

/* To the program's entry: the loader has mapped the libraries then. */
static void run_to_entry(void) {
  int status;
  uint64_t entry = entry_point();
  long word = peek(entry);
  put(entry);
  if (!next(PTRACE_CONT, &status)) exit(2);
  poke(entry, word);
  set_pc(entry);
}

int main(int argc, char **argv) {
  int status;
  if (argc < 6) return 2;
  read_points(argv[3]);
  child = fork();
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    execvp(argv[5], argv + 5);
    _exit(127);
  }
  waitpid(child, &status, 0);
  run_to_entry();
  uint64_t start = start_of(argv[2]);
  if (!start) return 2;
  for (size_t i = 0; i < count; i++) {
    points[i].address = start - lowest + points[i].offset;
    points[i].word = peek(points[i].address);
    put(points[i].address);
  }
  while (next(PTRACE_CONT, &status)) {
    struct user_regs_struct r;
    ptrace(PTRACE_GETREGS, child, NULL, &r);
    point_t *p = find(r.rip - 1);
    if (!p) continue;
    p->count++;
    take(p);
    set_pc(p->address);
    if (!next(PTRACE_SINGLESTEP, &status)) break;
    put(p->address);
  }
  FILE *out = fopen(argv[1], "w");
  for (size_t i = 0; i < count; i++)
    if (points[i].count) fprintf(out, "%lx %lu\n", points[i].offset, points[i].count);
  fclose(out);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
