/* SPDX-License-Identifier: MIT
 *
 * How long a program is stopped while the agent comes, changes code, and leaves: from the first
 * stop to the last release. The program has 100 threads: a third waits for input, a third wakes 200
 * times a second, and a third computes for a while between short waits.
 *
 *   loan      one thread is borrowed for a system call: mmap, clone and munmap of an attach
 *   change N  all threads are stopped, their stacks are searched, and N functions change
 *
 * usage: pause_bench [ROUNDS [THREADS]]
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/attach_block.h"
#include "attach/attach.h"
#include "attach/change.h"
#include "bench.h"

#define FUNCTION_BYTES 64u
#define CHANGES_MAX    10000u
#define BYTES          4u
#define OBJECT         SONDE_FIXTURES "/libattach_toy.so"

static uint8_t *code;
static entry_change_t *changes;
static int input[2];

/* ---- the program -------------------------------------------------------------------------- */

static void *wait_for_input(void *unused) {
  char byte;
  while (read(input[0], &byte, 1) >= 0)
    continue;
  return unused;
}

static void *wake(void *unused) {
  while (poll(NULL, 0, 5) == 0)
    continue;
  return unused;
}

static void *compute(void *unused) {
  for (volatile uint64_t i = 0; usleep(5000) == 0;)
    for (uint64_t end = i + 20000; i < end;)
      i = i + 1;
  return unused;
}

static _Noreturn void be_program(int threads, int ready) {
  static void *(*const work[])(void *) = {wait_for_input, wake, compute};
  pthread_t thread;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int i = 0; i < threads; i++)
    if (pthread_create(&thread, NULL, work[i % 3], NULL)) _exit(3);
  (void)!write(ready, "r", 1);
  while (true)
    pause();
}

/* ---- measuring ---------------------------------------------------------------------------- */

static void print(const char *name, double *us, int count) {
  if (!count) return;
  double p50 = bench_median(us, count);
  printf("%-14s %5d  p50 %7.0f  p99 %7.0f  max %7.0f us\n", name, count, p50, us[count * 99 / 100],
         us[count - 1]);
  fflush(stdout);
}

static bool fails(const problem_t *problem) {
  fprintf(stderr, "pause_bench: %s\n", problem->text);
  return false;
}

static bool measure_loans(pid_t pid, int rounds, double *us) {
  problem_t problem;
  int count = 0;
  for (int i = 0; i < rounds; i++) {
    attach_t *a = attach_open(pid, &problem);
    if (!a || !attach_load(a, OBJECT, NULL, &problem) ||
        !attach_run(a, ATTACH_START, "count", 5000, &problem) ||
        !attach_run(a, ATTACH_STOP, NULL, 5000, &problem) || !attach_unload(a, 5000, &problem))
      return fails(&problem);
    attach_pauses_t pauses = attach_pauses(a);
    us[count++] = (double)pauses.map_ns / 1e3;
    us[count++] = (double)pauses.run_ns / 1e3;
    us[count++] = (double)pauses.unmap_ns / 1e3;
    attach_close(a);
  }
  print("loan", us, count);
  return true;
}

/* Changes COUNT functions, and back. */
static bool measure_changes(pid_t pid, int rounds, uint32_t count, double *us) {
  problem_t problem;
  change_result_t result;
  char name[32];
  snprintf(name, sizeof name, "change %u", count);
  for (int i = 0; i < rounds; i++) {
    uint64_t list = (uint64_t)(uintptr_t)(changes + (i & 1 ? CHANGES_MAX : 0));
    if (!change_code(pid, list, count, &result, &problem)) return fails(&problem);
    if (result.made != count) {
      fprintf(stderr, "pause_bench: %u of %u changes were made\n", result.made, count);
      return false;
    }
    us[i] = (double)result.pause_ns / 1e3;
  }
  print(name, us, rounds);
  return true;
}

static bool prepare(void) {
  size_t size = CHANGES_MAX * FUNCTION_BYTES;
  code = mmap(NULL, size, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  changes = calloc(2 * CHANGES_MAX, sizeof *changes);
  if (code == MAP_FAILED || !changes || pipe(input)) return false;
  for (uint32_t i = 0; i < CHANGES_MAX; i++) {
    entry_change_t *there = &changes[i], *back = &changes[CHANGES_MAX + i];
    there->place = back->place = (uint64_t)(uintptr_t)(code + i * FUNCTION_BYTES);
    there->bytes = back->bytes = BYTES;
    memset(there->after, 0x90, BYTES);
    memset(back->before, 0x90, BYTES);
  }
  return true;
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 200, threads = argc > 2 ? atoi(argv[2]) : 100;
  double *us = calloc((size_t)rounds * 3, sizeof *us);
  int ready[2];
  char byte;
  if (rounds < 2 || !us || !prepare() || pipe(ready)) return 2;
  rounds &= ~1;
  pid_t pid = fork();
  if (pid == 0) be_program(threads, ready[1]);
  if (read(ready[0], &byte, 1) != 1) return 2;
  printf("%d threads; a pause lasts from the first stop to the last release\n", threads);
  bool good = measure_loans(pid, rounds, us) && measure_changes(pid, rounds, 1, us) &&
              measure_changes(pid, rounds, 1000, us) &&
              measure_changes(pid, rounds, CHANGES_MAX, us);
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  free(us);
  return good ? 0 : 1;
}
