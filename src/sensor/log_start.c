/* SPDX-License-Identifier: MIT */
#include "sensor/log_start.h"

#include "record/publish.h"
#include "record/write_local.h"
#include "sensor/live.h"
#include "sensor/log.h"
#include "unwind/frames.h"

#define PATIENCE_NS UINT64_C(5000000000)

static bool started;

int log_start(const char *path, uint32_t bits) {
  bool first = write_local_is_first();
  if (log_is_on()) return SONDE_EBUSY;
  if (!frames_init() || !nodes_init()) return SONDE_ENOMEM;
  if (first) live_table_forget();
  int status = write_local_begin(path);
  if (status < 0) return status;
  publish_to_recording();
  publish_all();
  write_process();
  status = log_hooks_set();
  if (status < 0) {
    (void)write_local_end();
    return status;
  }
  log_switch(bits);
  started = true;
  return 0;
}

int log_stop(void) {
  if (!started || !log_is_on()) return SONDE_ENOTFOUND;
  log_switch(0);
  log_hooks_remove();
  started = false;
  return write_quiesce(PATIENCE_NS) ? write_local_end() : SONDE_ETIMEDOUT;
}

/* Not in a child of fork, where there is no control. */
__attribute__((destructor)) static void at_exit(void) {
  if (started) (void)log_stop();
}
