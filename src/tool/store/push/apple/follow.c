/* SPDX-License-Identifier: MIT
 *
 * No recorder runs on Apple's systems, so no recording grows there.
 */
#include "store/push/follow.h"

#include "base/message.h"

push_result_t push_follow(push_follow_t *follow, push_target_t *target, const push_limits_t *limits,
                          push_counts_t *counts) {
  (void)target, (void)limits, (void)counts;
  (void)message_fail("--every is not supported on macOS: push '%s' without it when the recording "
                     "is complete",
                     follow->path);
  return PUSH_FAILED;
}
