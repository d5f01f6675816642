/* SPDX-License-Identifier: MIT */
#include "cli/linux/record_push.h"

#include <inttypes.h>
#include <signal.h>

#include "base/message.h"
#include "cli/common/push_recording.h"

/* A recording that is not pushed in this time can be pushed later. */
static const push_limits_t limits = {.retry_s = 10, .request_s = 10};

/* The recorder ignores and forwards signals; the user can interrupt this. */
static void push_at_end(void *context, const char *path) {
  const push_target_t *target = context;
  const push_input_t input = {.path = path};
  char error[PUSH_ERROR_MAX];
  push_counts_t counts = {0};
  push_t *push = push_new(target, &limits, error, sizeof error);
  if (!push) {
    (void)message_fail("%s", error);
    return;
  }
  sigset_t both;
  sigemptyset(&both);
  sigaddset(&both, SIGINT);
  sigaddset(&both, SIGTERM);
  (void)signal(SIGINT, SIG_DFL);
  (void)signal(SIGTERM, SIG_DFL);
  sigprocmask(SIG_UNBLOCK, &both, NULL);
  if (push_recording_file(push, &input, &counts) == PUSH_DONE)
    message_note("pushed %" PRIu64 " profile%s to %s", counts.profiles,
                 counts.profiles == 1 ? "" : "s", target->host);
  push_free(push);
}

const char *record_push_to(recorder_options_t *options, const char *url) {
  static char error[PUSH_ERROR_MAX];
  static push_target_t target;
  push_target_free(&target);
  if (!push_target_read(&target, url, NULL, error, sizeof error)) return error;
  push_t *push = push_new(&target, &limits, error, sizeof error);
  if (!push) return error;
  push_free(push);
  options->ended = push_at_end;
  options->ended_context = &target;
  return NULL;
}
