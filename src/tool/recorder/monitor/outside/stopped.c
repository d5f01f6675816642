/* SPDX-License-Identifier: MIT */
#include "recorder/monitor/outside/stopped.h"

#include "base/array.h"
#include "os/os.h"
#include "target/stop/stop.h"

#define DEPTH_MAX 512u
/* After a broken walk, the list of images is read again if it is older than this. */
#define DOUBT_NS UINT64_C(200000000)

typedef struct wanted {
  const pid_t *tids;
  size_t count;
} wanted_t;

static bool is_wanted(void *context, pid_t tid) {
  const wanted_t *w = context;
  size_t at = ARRAY_SEARCH(w->count, i, w->tids[i] < tid);
  return at < w->count && w->tids[at] == tid;
}

bool stopped_is_possible(void) { return STOP_HIDES_EINTR; }

void stopped_read(thread_stacks_t *s, const pid_t *tids, size_t count,
                  void (*each)(void *context, pid_t tid, uint32_t stack), void *context) {
  wanted_t wanted = {tids, count};
  problem_t problem;
  bool is_broken = false;
  target_t *target = count ? thread_stacks_target(s) : NULL;
  const stacks_options_t options = {.depth = DEPTH_MAX,
                                    .touch = TOUCH_ANY,
                                    .wanted = is_wanted,
                                    .context = &wanted,
                                    .interpreted = true};
  if (!target || !stacks_capture(target, &options, &problem)) return;
  for (size_t i = 0; i < target->thread_count; i++) {
    const thread_t *thread = &target->threads[i];
    if (!thread->stopped_ns || !thread->frame_count) continue;
    is_broken |= thread->ending == ENDING_BROKEN;
    each(context, thread->tid, monitor_writer_stack(s->writer, target, thread));
  }
  if (is_broken && os_monotonic_ns() - s->opened_ns > DOUBT_NS) thread_stacks_close(s);
}
