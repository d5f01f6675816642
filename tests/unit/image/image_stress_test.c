/* SPDX-License-Identifier: MIT
 *
 * The list of images and the names, by several threads and by a handler that interrupts them at any
 * instruction, while libraries come and go at the same addresses. A name is checked against what
 * the library itself says its function is; an answer that came while the library was exchanged is
 * not.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "image/list.h"
#include "os/os.h"
#include "skip.h"
#include "sonde/name.h"

#define LIBRARIES 4
#define SECONDS   3

static char folder[] = "/tmp/sonde-stress-XXXXXX";

/* What is loaded now: the address of function_K, or 0 while it is exchanged. `turn` is odd then. */
static uint64_t turn;
static uintptr_t loaded_pc;
static int loaded_number;

static int stop, alarms;
static uint64_t checked, interrupted, wrong, spoiled;

static void build(int number) {
  char command[1024];
  snprintf(command, sizeof command,
           "printf 'int function_%d(int x){return x+%d;}' | " SONDE_CC
           " -shared -fPIC -O1 -x c - -o %s/%d.so",
           number, number, folder, number);
  assert_int_equal(system(command), 0);
}

/* Names the function that is loaded now. What was read counts when nothing changed meanwhile. */
static void ask_once(uint64_t *count) {
  char want[32];
  uint64_t before = __atomic_load_n(&turn, __ATOMIC_SEQ_CST);
  uintptr_t pc = __atomic_load_n(&loaded_pc, __ATOMIC_SEQ_CST);
  int number = __atomic_load_n(&loaded_number, __ATOMIC_SEQ_CST);
  if (before & 1) return;
  sonde_name_t name;
  int status = sonde_name(pc, SONDE_NAME_EXACT, &name);
  if (__atomic_load_n(&turn, __ATOMIC_SEQ_CST) != before) return;
  memcpy(want, "function_", 9);
  want[9] = (char)('0' + number);
  want[10] = 0;
  if (status != 0 || strcmp(name.symbol, want) != 0)
    __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
}

/* Not by an interval timer: where a handler takes longer than that, nothing else would run. */
static void set_alarm(void) {
  struct itimerval once = {.it_value = {0, 300}};
  if (__atomic_load_n(&alarms, __ATOMIC_RELAXED)) (void)setitimer(ITIMER_REAL, &once, NULL);
}

static void on_alarm(int signal) {
  int saved = errno;
  errno = signal + 1000;
  ask_once(&interrupted);
  sonde_name_t name;
  (void)sonde_name((uintptr_t)qsort + 3, SONDE_NAME_EXACT, &name);
  __atomic_fetch_add(&spoiled, errno != signal + 1000, __ATOMIC_RELAXED);
  set_alarm();
  errno = saved;
}

static void *ask(void *unused) {
  while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
    ask_once(&checked);
  return unused;
}

static void exchange(void **handle, int number) {
  char path[600], name[32];
  __atomic_fetch_add(&turn, 1, __ATOMIC_SEQ_CST);
  if (*handle) dlclose(*handle);
  snprintf(path, sizeof path, "%s/%d.so", folder, number);
  snprintf(name, sizeof name, "function_%d", number);
  *handle = dlopen(path, RTLD_NOW);
  assert_non_null(*handle);
  __atomic_store_n(&loaded_pc, (uintptr_t)dlsym(*handle, name), __ATOMIC_SEQ_CST);
  __atomic_store_n(&loaded_number, number, __ATOMIC_SEQ_CST);
  __atomic_fetch_add(&turn, 1, __ATOMIC_SEQ_CST);
}

static bool has_seen_enough(void) {
  return __atomic_load_n(&checked, __ATOMIC_RELAXED) > 1000 &&
         __atomic_load_n(&interrupted, __ATOMIC_RELAXED) > 100;
}

static void test_exchanged_under_way(void **state) {
  (void)state;
  if (is_emulated())
    SKIP_BECAUSE("without process_vm_readv a guarded read can lose a race with an unload");
  pthread_t threads[3];
  void *handle = NULL;
  struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
  int addresses = 0, rounds = 0;
  uintptr_t seen[64] = {0};
  exchange(&handle, 0);
  sigaction(SIGALRM, &action, NULL);
  __atomic_store_n(&alarms, 1, __ATOMIC_RELAXED);
  set_alarm();
  for (int i = 0; i < 3; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, ask, NULL), 0);
  /* Long enough, and until there is something to judge by: names that nothing changed under. */
  for (time_t end = time(NULL) + SECONDS; time(NULL) < end || !has_seen_enough(); rounds++) {
    struct timespec pause = {0, 300000};
    exchange(&handle, rounds % LIBRARIES);
    int known = 0;
    while (known < addresses && seen[known] != loaded_pc)
      known++;
    if (known == addresses && addresses < 64) seen[addresses++] = loaded_pc;
    nanosleep(&pause, NULL);
  }
  __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
  for (int i = 0; i < 3; i++)
    pthread_join(threads[i], NULL);
  __atomic_store_n(&alarms, 0, __ATOMIC_RELAXED);
  setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
  dlclose(handle);
  print_message(
      "%d exchanges at %d addresses; %lu names by threads, %lu in the handler, %lu wrong\n", rounds,
      addresses, checked, interrupted, wrong);
  assert_int_equal(wrong, 0);
#ifndef __SANITIZE_THREAD__ /* which does it itself */
  assert_int_equal(spoiled, 0);
#endif
  /* Each library at each address has one id; the loader's own few come on top. */
  int ids = 0;
  for (unsigned id = 1; id <= IMAGE_ID_MAX && image_by_id((image_id_t)id); id++)
    ids++;
  print_message("%d ids\n", ids);
  assert_true(ids <= addresses * LIBRARIES + 40);
}

static int start(void **state) {
  (void)state;
  if (!mkdtemp(folder)) return 1;
  for (int i = 0; i < LIBRARIES; i++)
    build(i);
  os_loader_init();
  return 0;
}

static int end(void **state) {
  (void)state;
  char command[200];
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_exchanged_under_way)};
  return cmocka_run_group_tests(tests, start, end);
}
