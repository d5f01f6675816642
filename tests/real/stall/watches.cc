/* SPDX-License-Identifier: MIT
 *
 * A program that watches itself, for tests/real/stall_declared.py. Prints a line for each call of
 * its monitor: phase, number, tid, length and limit in µs, culprit's percent, its count and program
 * counters, count and program counters; for the stall with two parts how long each of them was, and
 * how long it burned, in µs; then the statuses, and the CPU time of the monitor's thread in µs over
 * an idle second.
 */
#include <cstdio>
#include <cstdint>
#include <ctime>
#include <thread>
#include <unistd.h>

#include <sonde/stall.h>

#define CULPRIT extern "C" __attribute__((noinline))

static uint64_t clock_us(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static volatile uint64_t sink;

CULPRIT void sleeps_too_long() {
  usleep(500000);
  sink = 1;
}
CULPRIT void burns_too_long() {
  for (uint64_t end = clock_us(CLOCK_THREAD_CPUTIME_ID) + 500000;
       clock_us(CLOCK_THREAD_CPUTIME_ID) < end;)
    for (int i = 0; i < 100000; i++)
      sink = sink + (uint64_t)i;
}
CULPRIT void holds_most() {
  usleep(130000);
  sink = 1;
}
CULPRIT void happens_to_be_there() {
  usleep(70000);
  sink = 1;
}
CULPRIT void is_short() {
  usleep(60000);
  sink = 1;
}

static void told(const sonde_stall_t *s, void *context) {
  ++*static_cast<int *>(context);
  printf("%d %u %d %llu %llu %d %d", s->phase, s->number, (int)s->tid,
         (unsigned long long)s->length_ns / 1000, (unsigned long long)s->limit_ns / 1000,
         s->hot_path_percent, s->hot_path_count);
  for (int i = 0; i < s->hot_path_count; i++)
    printf(" %lx", (unsigned long)s->hot_path[i]);
  printf(" %d", s->count);
  for (int i = 0; i < s->count; i++)
    printf(" %lx", (unsigned long)s->pcs[i]);
  printf("\n");
}

static uint64_t part_us[2], burned_us; /* by the clock on the wall */

static void works() {
  for (int i = 0; i < 3; i++) {
    sonde::stall_scope scope;
    is_short();
  }
  {
    sonde::stall_scope scope;
    sleeps_too_long();
  }
  sleeps_too_long(); /* outside */
  {
    sonde::stall_scope scope(1000);
    sleeps_too_long();
  }
  sonde_heartbeat();
  burned_us = clock_us(CLOCK_MONOTONIC);
  burns_too_long();
  burned_us = clock_us(CLOCK_MONOTONIC) - burned_us;
  sonde_heartbeat();
  sonde_stall_expect(800);
  sleeps_too_long();
  {
    sonde::stall_scope scope;
    uint64_t began = clock_us(CLOCK_MONOTONIC);
    holds_most();
    part_us[0] = clock_us(CLOCK_MONOTONIC) - began;
    happens_to_be_there();
    part_us[1] = clock_us(CLOCK_MONOTONIC) - began - part_us[0];
  }
  sonde_stall_end();
}

int main() {
  int before = sonde_heartbeat(), calls = 0, ended = 1;
  clockid_t cpu;
  std::thread monitor([&] { ended = sonde_stall_monitor(150, told, &calls); });
  while (sonde_heartbeat() != 0)
    usleep(1000);
  sonde_stall_end();
  int second = sonde_stall_monitor(150, told, &calls), bad = sonde_stall_monitor(1, told, &calls);
  std::thread one(works);
  one.join();
  pthread_getcpuclockid(monitor.native_handle(), &cpu);
  usleep(100000);
  uint64_t idle = clock_us(cpu);
  sleep(1);
  idle = clock_us(cpu) - idle;
  sonde_stall_monitor_stop();
  monitor.join();
  printf("parts %llu %llu %llu\n", (unsigned long long)part_us[0], (unsigned long long)part_us[1],
         (unsigned long long)burned_us);
  printf("end %d %d %d %d %d %d %llu\n", before, second, bad, ended, sonde_heartbeat(), calls,
         (unsigned long long)idle);
}
