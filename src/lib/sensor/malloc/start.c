/* SPDX-License-Identifier: MIT */
#include "sensor/malloc/start.h"

#include "record/definitions.h"
#include "record/standalone.h"
#include "sensor/audit/start.h"
#include "sensor/malloc/live.h"
#include "sensor/malloc/api.h"
#include "capture/frame_table.h"

#define PATIENCE_NS UINT64_C(5000000000)

static bool started;

int log_begin(const char *path) {
  bool first = write_local_is_first();
  if (!frames_init() || !nodes_init()) return SONDE_ENOMEM;
  if (first) live_table_forget();
  int status = write_local_begin(path);
  if (status < 0) return status;
  publish_to_recording();
  publish_all();
  write_process();
  return 0;
}

static int close_all(void) {
  return write_quiesce(PATIENCE_NS) ? write_local_end() : SONDE_ETIMEDOUT;
}

int log_end(void) {
  log_switch(0);
  return close_all();
}

int log_start(const char *path, uint32_t bits) {
  if (log_is_on()) return SONDE_EBUSY;
  int status = log_begin(path);
  if (status < 0) return status;
  status = log_hooks_set();
  if (status < 0) {
    (void)write_local_end();
    return status;
  }
  log_switch(bits);
  if (bits & RECORD_REGIONS) log_regions_set();
  started = true;
  return 0;
}

/* An audit that has joined ends with it. */
int log_stop(void) {
  if (!started || !log_is_on()) return SONDE_ENOTFOUND;
  if (load_relaxed(&write_control()->mode) & RECORD_AUDIT) (void)audit_end();
  log_switch(0);
  log_hooks_remove();
  started = false;
  return close_all();
}

/* Not in a child of fork, where there is no control. */
__attribute__((destructor)) static void at_exit(void) {
  if (started) (void)log_stop();
}
