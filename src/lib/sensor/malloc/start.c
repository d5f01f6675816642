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
  bool first = standalone_is_first();
  if (!frame_table_init() || !stack_table_init()) return SONDE_ENOMEM;
  if (first) live_table_forget();
  int status = standalone_begin(path);
  if (status < 0) return status;
  definitions_to_recording();
  definitions_all();
  writer_process();
  return 0;
}

static int close_all(void) {
  return writer_quiesce(PATIENCE_NS) ? standalone_end() : SONDE_ETIMEDOUT;
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
    (void)standalone_end();
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
  if (load_relaxed(&writer_control()->mode) & RECORD_AUDIT) (void)audit_end();
  log_switch(0);
  log_hooks_remove();
  started = false;
  return close_all();
}

/* Not in a child of fork, where there is no control. */
__attribute__((destructor)) static void at_exit(void) {
  if (started) (void)log_stop();
}
