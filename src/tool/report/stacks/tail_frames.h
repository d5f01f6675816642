/* SPDX-License-Identifier: MIT
 *
 * The frames of a thread, with those that tail calls removed.
 */
#ifndef SONDE_REPORT_STACKS_TAIL_FRAMES_H
#define SONDE_REPORT_STACKS_TAIL_FRAMES_H

#include "report/stacks/stacks.h"

tail_frames_t *tail_frames_new(target_t *target, stack_symbolizer_t *symbolizer);
void tail_frames_free(tail_frames_t *tail_frames);

/* The frames of THREAD with reconstructed frames, which have `tail_call`. Valid until the next
 * call. Out of memory: the thread's own frames. */
const frame_t *tail_frames_expand(tail_frames_t *tail_frames, const thread_t *thread,
                                  uint32_t *count);

#endif
