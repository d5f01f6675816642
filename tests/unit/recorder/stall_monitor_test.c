/* SPDX-License-Identifier: MIT
 *
 * The stall monitor and the watched side of it, in one process: what its thread makes of a program
 * that ends before it looks again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>
#include <cmocka.h>

#include "analysis/stalls.h"
#include "base/bits.h"
#include "recorder/monitor/stall.h"
#include "os/os.h"
#include "sensor/stall/stall.h"
#include "reader/merge.h"

#define HOME     ((wait_site_t){0x1000, 0x7000})
#define CLOCK_NS 1000000 /* the recording's clock is calibrated against the system's */

static uint32_t noted, over;

/* Runs in the monitor's thread, which looks at nothing meanwhile. */
static void keep_the_monitor(const char *line) {
  (void)line;
  store_release(&noted, 1u);
  while (!load_acquire(&over))
    usleep(1000);
  usleep(100000);
}

static void wait_at_home(void) { stall_wait_end(stall_wait_begin(HOME)); }

static void read_stalls(const char *path, stalls_t *stalls) {
  char error[256] = "";
  reader_t *reader = NULL;
  assert_int_equal(reader_open(&reader, path, error, sizeof error), 0);
  merge_t *merge = merge_open(reader);
  const record_event_t *e;
  while ((e = merge_next(merge)))
    assert_true(stalls_add(stalls, e));
  merge_close(merge);
  stalls_finish(stalls, reader);
  reader_close(reader);
}

static void a_stall_that_ended_before_its_program_has_ended_by_itself(void **unused) {
  (void)unused;
  char path[64], error[256] = "", settings[64];
  recording_t recording;
  snprintf(path, sizeof path, "/tmp/sonde-stall-monitor-test.%d", (int)getpid());
  assert_int_equal(recording_create(&recording, path, (uint32_t)getpid(), RECORD_STALLS, 0, 0,
                                    error, sizeof error),
                   0);
  recording_settings(&recording, settings, sizeof settings);
  assert_int_equal(writer_start(settings), 0);
  const stall_options_t options = {UINT64_C(100000000), keep_the_monitor};
  stall_monitor_t *monitor = stall_monitor_new(&recording, &options);
  stall_monitor_run(monitor);
  assert_non_null(monitor);
  for (int i = 0; i < 9; i++)
    wait_at_home();
  uint64_t before_it = os_monotonic_ns();
  wait_at_home(); /* it begins in here */
  uint64_t in_it = os_monotonic_ns();
  while (!load_acquire(&noted))
    usleep(1000);
  uint64_t still_in_it = os_monotonic_ns();
  wait_at_home(); /* and ends in here */
  uint64_t after_it = os_monotonic_ns();
  store_release(&over, 1u);
  stall_monitor_stop(monitor, 0);
  recording_finish(&recording, 0);
  recording_release(&recording);

  stalls_t stalls = {0};
  read_stalls(path, &stalls);
  unlink(path);
  assert_int_equal(stalls.count, 1);
  const stall_t *s = &stalls.items[0];
  assert_int_equal(s->ending, STALL_ENDED);
  assert_in_range(s->total_ns, still_in_it - in_it - CLOCK_NS, after_it - before_it + CLOCK_NS);
  stalls_free(&stalls);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_stall_that_ended_before_its_program_has_ended_by_itself),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
