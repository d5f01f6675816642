/* SPDX-License-Identifier: MIT
 *
 * Pushes a recording's file: `sonde push`, and `sonde record --push` at the end. Prints errors.
 */
#ifndef SONDE_CLI_COMMON_PUSH_RECORDING_H
#define SONDE_CLI_COMMON_PUSH_RECORDING_H

#include "store/push/push.h"

typedef struct push_input {
  const char *path;
  uint32_t program; /* as recording_open_program takes it */
  const frame_names_options_t *naming;
} push_input_t;

/* PUSH_EMPTY: the recording cannot be read or has nothing to push. */
push_result_t push_recording_file(push_t *push, const push_input_t *input, push_counts_t *counts);

#endif
