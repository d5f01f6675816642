/* SPDX-License-Identifier: MIT */
#include "sensor/malloc/standalone.h"

#include "record/definitions.h"
#include "record/standalone.h"
#include "sensor/audit/start.h"
#include "sensor/malloc/live.h"
#include "sensor/malloc/api.h"
#include "capture/frame_table.h"

#define TIMEOUT_NS UINT64_C(5000000000)

static bool started;

int malloc_standalone_begin(const char *path) {
  bool first = standalone_is_first();
  if (!frame_table_init() || !stack_table_init()) return SONDE_ENOMEM;
  if (first) live_table_forget();
  int status = standalone_begin(path);
  if (status < 0) return status;
  definitions_start();
  definitions_write_all();
  writer_process();
  return 0;
}

static int close_all(void) {
  return writer_quiesce(TIMEOUT_NS) ? standalone_end() : SONDE_ETIMEDOUT;
}

int malloc_standalone_end(void) {
  malloc_api_switch(0);
  return close_all();
}

int malloc_standalone_start(const char *path, uint32_t bits) {
  if (malloc_api_is_recording()) return SONDE_EBUSY;
  int status = malloc_standalone_begin(path);
  if (status < 0) return status;
  status = malloc_hooks_add();
  if (status < 0) {
    (void)standalone_end();
    return status;
  }
  malloc_api_switch(bits);
  if (bits & RECORD_MAPPINGS) malloc_hooks_add_mappings();
  started = true;
  return 0;
}

/* An audit in the same recording ends with it. */
int malloc_standalone_stop(void) {
  if (!started || !malloc_api_is_recording()) return SONDE_ENOTFOUND;
  if (load_relaxed(&writer_control()->mode) & RECORD_AUDIT) (void)audit_end();
  malloc_api_switch(0);
  malloc_hooks_remove();
  started = false;
  return close_all();
}

/* A forked child has no control page and does nothing. */
__attribute__((destructor)) static void at_exit(void) {
  if (started) (void)malloc_standalone_stop();
}
