/* SPDX-License-Identifier: MIT
 *
 * A thread that uses the CPU for long is told of by a monitor in the program, with its name and the
 * tree of its functions; a thread that waits is not.
 */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "sonde/cpu.h"
#include "sonde/name.h"

static volatile bool is_found;
static volatile long burned;
static uint64_t burner;
static int waits[2];

__attribute__((noinline)) static void burn_cpu(void) {
  for (int i = 0; i < 1000; i++)
    burned++;
}

static void *use_cpu(void *unused) {
  (void)pthread_setname_np("burner");
  (void)pthread_threadid_np(NULL, &burner);
  while (!is_found)
    burn_cpu();
  return unused;
}

static void *rest(void *unused) {
  char byte;
  (void)read(waits[0], &byte, 1);
  return unused;
}

typedef struct episode {
  int count, others, lines;
  bool has_name, has_function;
  uint64_t burned_ns, sampled_ns;
} episode_t;

static void on_episode(const sonde_cpu_episode_t *e, void *context) {
  episode_t *seen = context;
  if (e->tid != (pid_t)burner) {
    seen->others++;
    return;
  }
  seen->count++;
  seen->has_name = strcmp(e->name, "burner") == 0;
  seen->sampled_ns = e->sampled_ns;
  for (int i = 0; i < e->count; i++)
    if (is_named(e->nodes[i].pc + 1, "burn_cpu")) seen->burned_ns += e->nodes[i].cpu_ns;
  seen->lines = sonde_cpu_print(1, e);
  (void)sonde_cpu_monitor_stop();
}

void check_cpu(void) {
  episode_t seen = {0};
  pthread_t one, two;
  if (pipe(waits) != 0) return check(false, "a pipe");
  pthread_create(&one, NULL, use_cpu, NULL);
  pthread_create(&two, NULL, rest, NULL);
  check(sonde_cpu_monitor(10, 1, on_episode, &seen) == 0, "the monitor of the CPU comes back");
  is_found = true;
  (void)write(waits[1], "x", 1);
  pthread_join(one, NULL);
  pthread_join(two, NULL);
  check(seen.count == 1 && !seen.others, "one thread was told of");
  check(seen.has_name, "by its name");
  check(seen.lines > 1 && seen.sampled_ns && seen.burned_ns >= seen.sampled_ns / 2,
        "and the function that used the CPU has most of its time");
}
