/* SPDX-License-Identifier: MIT
 *
 * Threads are captured while they allocate, and while one is inside malloc with the allocator's
 * lock held, with a malloc log and without. Between a suspend and its resume libsonde may neither
 * allocate nor lock: a loader that sees to that ends the program when it does, and a system
 * deadlocks. What such a loader says of a program that does is shown by misbehave().
 */
#include <mach-o/dyld.h>
#include <mach/mach.h>
#include <mach/vm_map.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "sonde/malloc.h"
#include "sonde/thread.h"

#define NOINLINE  __attribute__((noinline))
#define WORKERS   3
#define SWEEPS    60
#define DEPTH     64
#define HELD_SIZE 123457 /* run.py knows it as well */

static volatile bool over, is_held, is_let_go;
static volatile int working;

NOINLINE static void *allocate_some(unsigned turn) {
  void *volatile blocks[8];
  for (unsigned i = 0; i < 8; i++)
    blocks[i] = malloc(16 + (turn * 37 + i * 613) % 5000);
  blocks[3] = realloc(blocks[3], 9000);
  for (unsigned i = 1; i < 8; i++)
    free(blocks[i]);
  return blocks[0];
}

static void *keep_allocating(void *argument) {
  __atomic_fetch_add(&working, 1, __ATOMIC_RELAXED);
  for (unsigned turn = 0; !over; turn++) {
    free(allocate_some(turn));
    if (turn % 16 == 0) usleep(50);
  }
  return argument;
}

NOINLINE static void *allocate_held(void) {
  volatile int local[4] = {1};
  void *block = malloc(HELD_SIZE);
  local[1] = local[0];
  return block;
}

static void *hold_block(void *argument) {
  is_held = true;
  void *block = allocate_held();
  is_let_go = true;
  free(block);
  return argument;
}

static sonde_thread_stack_t stacks[16];
static uintptr_t room[16 * DEPTH];

/* Every thread once. Returns how many were met inside malloc, called from allocate_held. */
static int capture_all(int *count) {
  sonde_all_t all = {.threads = stacks,
                     .max = 16,
                     .pcs = room,
                     .depth = DEPTH,
                     .options = {.timeout_ns = PATIENCE_NS}};
  *count = sonde_capture_all(&all);
  int met = 0;
  for (int i = 0; i < *count; i++) {
    const sonde_capture_t *c = &stacks[i].stack;
    bool is_inside = false, is_called = false;
    for (int k = 0; k < c->count; k++) {
      is_inside = is_inside || is_named(c->pcs[k], "malloc");
      is_called = is_called || (is_inside && is_named(c->pcs[k], "allocate_held"));
    }
    met += is_called && c->status == SONDE_STACK_COMPLETE;
  }
  return met;
}

static void check_sweeps(void) {
  int good = 0, count, found;
  for (int i = 0; i < SWEEPS; i++) {
    (void)capture_all(&count);
    found = 0;
    for (int k = 0; k < count; k++)
      found += stacks[k].stack.count > 0;
    good += count == 1 + WORKERS && found == count;
  }
  check(good == SWEEPS, "threads that allocate are captured, all of them, every time");
}

/* How often the thread was met inside malloc is for who keeps it there to ask for. */
static void check_held(void) {
  pthread_t thread;
  void *result;
  int met = 0, count;
  char line[64];
  is_held = is_let_go = false;
  pthread_create(&thread, NULL, hold_block, NULL);
  while (!is_held)
    usleep(100);
  while (!is_let_go)
    met += capture_all(&count);
  pthread_join(thread, &result);
  check(true, "a thread inside malloc is captured, and nobody waits for its lock");
  snprintf(line, sizeof line, "met inside malloc: %d\n", met);
  say(line);
}

void check_suspended(const char *log) {
  pthread_t threads[WORKERS];
  void *result;
  if (log) unlink(log);
  if (log)
    check(sonde_malloc_log_start(log, SONDE_MALLOC_BLOCKS) == SONDE_OK, "a malloc log begins");
  for (int i = 0; i < WORKERS; i++)
    pthread_create(&threads[i], NULL, keep_allocating, NULL);
  while (working < WORKERS)
    usleep(100);
  check_sweeps();
  check_held();
  over = true;
  for (int i = 0; i < WORKERS; i++)
    pthread_join(threads[i], &result);
  if (log) check(sonde_malloc_log_stop() == SONDE_OK, "it ends");
}

/* Suspends a thread and does WHAT meanwhile. */
void misbehave(const char *what) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_t thread;
  void *result;
  vm_address_t address = 0;
  pthread_create(&thread, NULL, keep_allocating, NULL);
  thread_act_t port = pthread_mach_thread_np(thread);
  check(thread_suspend(port) == KERN_SUCCESS, "a thread is suspended");
  void *volatile block = NULL;
  if (!strcmp(what, "malloc")) block = malloc(10);
  if (!strcmp(what, "free")) free(block);
  if (!strcmp(what, "mutex")) pthread_mutex_lock(&mutex);
  if (!strcmp(what, "dyld")) (void)_dyld_get_image_name(0);
  if (!strcmp(what, "vm")) vm_allocate(mach_task_self(), &address, 4096, VM_FLAGS_ANYWHERE);
  check(thread_resume(port) == KERN_SUCCESS, "it goes on");
  over = true;
  pthread_join(thread, &result);
}
