/* SPDX-License-Identifier: MIT
 *
 * sonde record --push: a process beside the recorder that runs `sonde push --every`. The recorder
 * loads neither libcurl nor debug files, and a failure of a push cannot harm the recording.
 */
#ifndef SONDE_CLI_LINUX_RECORD_PUSH_H
#define SONDE_CLI_LINUX_RECORD_PUSH_H

#include "recorder/recorder.h"

enum { RECORD_PUSH_LABELS_MAX = 64 };

typedef struct record_push {
  const char *url;   /* NULL: nothing is pushed */
  const char *every; /* a duration; NULL: the default */
  const char *labels[RECORD_PUSH_LABELS_MAX];
  int label_count;
  pid_t sender;
} record_push_t;

/* Makes the recorder start the process of PUSH, which must stay valid, if there is a URL. A wrong
 * URL, interval or label, or a build that cannot push, is found now, before the command runs.
 * Returns what is wrong, or NULL. */
const char *record_push_prepare(record_push_t *push, recorder_options_t *options);

/* What `sonde push` would find wrong with the URL and the labels, or NULL. */
const char *record_push_check(const record_push_t *push);

#endif
