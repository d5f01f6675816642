/* SPDX-License-Identifier: MIT
 *
 * A recording made by a child of the test, which ends with status 0 when all went well.
 */
#ifndef SONDE_TESTS_RECORDED_H
#define SONDE_TESTS_RECORDED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "recorder/recording_file.h"

/* Calls CHILD(settings, argument) in the child; it records blocks, and exits. The file is gone when
 * the recording is open. */
static inline reader_t *recorded(void (*child)(const char *settings, const void *argument),
                                 const void *argument) {
  char path[64], error[256], settings[64];
  recording_t recording;
  reader_t *reader;
  int status;
  snprintf(path, sizeof path, "/tmp/sonde-recorded.%d", (int)getpid());
  assert_int_equal(recording_create(&recording, path, 1, RECORD_BLOCKS, 0, 0, error, sizeof error),
                   0);
  recording_settings(&recording, settings, sizeof settings);
  pid_t pid = fork();
  if (pid == 0) child(settings, argument);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
  assert_int_equal(recording_finish(&recording, status), 0);
  recording_release(&recording);
  assert_int_equal(reader_open(&reader, path, error, sizeof error), 0);
  unlink(path);
  return reader;
}

#endif
