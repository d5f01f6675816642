/* SPDX-License-Identifier: MIT */
#include "cli/common/push_recording.h"

#include "base/message.h"
#include "cli/common/recording.h"

push_result_t push_recording_file(push_t *push, const push_input_t *input, push_counts_t *counts) {
  char error[PUSH_ERROR_MAX];
  reader_t *reader = recording_open_program(input->path, input->program);
  if (!reader) return PUSH_EMPTY;
  frame_names_t *names = frame_names_new(reader, input->naming);
  push_result_t result = PUSH_FAILED;
  if (names) {
    result = push_recording(push, reader, names, counts, error, sizeof error);
    if (result == PUSH_EMPTY) message_note("'%s': %s", input->path, error);
    if (result == PUSH_FAILED) (void)message_fail("%s", error);
  } else {
    (void)message_fail("out of memory");
  }
  frame_names_free(names);
  reader_close(reader);
  return result;
}
