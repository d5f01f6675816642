/* SPDX-License-Identifier: MIT
 *
 * Pushes a recording while it is written: at each interval the events since the last push. A
 * profile covers the time between two pushes; blocks in use are those that are live at its end.
 *
 * What a server does not take now is sent again until it does, or until the recording ends. The
 * events of the meantime stay in the recording, and the next push has them, so memory is bounded by
 * the different stacks and the live blocks. A profile that a server refuses is lost, and counted.
 *
 * The labels that the program publishes (context.h) are read while it runs.
 */
#ifndef SONDE_STORE_PUSH_FOLLOW_H
#define SONDE_STORE_PUSH_FOLLOW_H

#include "store/push/push.h"

typedef struct push_follow {
  const char *path;
  uint32_t program; /* 0: the last one */
  const frame_names_options_t *naming;
  double every_s;   /* at least 1 */
  uint64_t refused; /* out: parts that the server did not take */
} push_follow_t;

/* Returns when the recording is complete, its recorder has ended, or after SIGINT or SIGTERM, with
 * a last push each time. LIMITS are those of this last push. Prints errors. PUSH_FAILED also if a
 * part was refused. */
push_result_t push_follow(push_follow_t *follow, push_target_t *target, const push_limits_t *limits,
                          push_counts_t *counts);

#endif
