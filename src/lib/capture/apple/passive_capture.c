/* SPDX-License-Identifier: MIT
 *
 * Another thread's stack on Apple's systems. The thread is suspended, its registers and the stack
 * above its stack pointer are copied, and it is resumed. Then the copy is walked. While the thread
 * is suspended, nothing is allocated and no lock is taken, since it may hold any lock, including
 * malloc's and dyld's. A running thread is read like a blocked one, so no thread is ever signaled.
 */
#include <string.h>

#include "os/apple/thread.h"
#include "sonde/status.h"
#include "capture/passive_capture.h"
#include "capture/capture.h"

/* A deeper stack is truncated. */
#define COPY_BYTES (1u << 20)

bool passive_open(passive_buffer_t *copy) {
  copy->folder = -1;
  copy->size = COPY_BYTES;
  copy->bytes = os_map(copy->size);
  /* Avoids page faults while the thread is suspended. */
  if (copy->bytes) memset(copy->bytes, 0, copy->size);
  return copy->bytes != NULL;
}

void passive_close(passive_buffer_t *copy) { os_unmap(copy->bytes, copy->size); }

typedef struct stack_copy {
  passive_buffer_t *copy;
  arch_frame_t frame;
  /* The copied range. */
  uint64_t low, count;
  /* The thread's Swift task: the address of its address, 0 if it is not wanted; its id. */
  uint64_t task_slot, task;
} stack_copy_t;

static void copy_stack(const arch_frame_t *frame, void *context) {
  stack_copy_t *s = context;
  s->frame = *frame;
  s->low = ALIGN_DOWN(frame->sp, (uint64_t)8);
  ssize_t count = os_read_memory(s->low, s->copy->bytes, s->copy->size);
  s->count = count > 0 ? (uint64_t)count & ~(uint64_t)7 : 0;
  s->task = os_swift_task_in(s->task_slot);
}

/* The frame of an async function at the time of the copy: the context and the saved frame pointer,
 * which are adjacent. */
typedef struct async_frame {
  uint64_t at, words[2];
  bool is_unchanged;
} async_frame_t;

static void check_frame(const arch_frame_t *frame, void *context) {
  async_frame_t *async = context;
  uint64_t now[2];
  async->is_unchanged = frame->sp <= async->at &&
                        os_read_memory(async->at, now, sizeof now) == sizeof now &&
                        now[0] == async->words[0] && now[1] == async->words[1];
}

/* The contexts were read after the thread resumed. They belong to the copy if the frame that led to
 * them is unchanged, since a context outlives the functions that its function has called. */
static void check_contexts(pid_t tid, const stack_window_t *w, const position_t *p,
                           sonde_capture_t *capture) {
  if (capture->async != SONDE_ASYNC_FOLLOW || !(capture->flags & SONDE_FLAG_ASYNC)) return;
  const uint64_t *words = p->fp_at - 1;
  async_frame_t async = {(uint64_t)(uintptr_t)words - w->delta, {words[0], words[1]}, false};
  if (os_thread_stop(tid, check_frame, &async) == 0 && async.is_unchanged) return;
  capture->status = SONDE_STACK_BROKEN;
  capture->reason = SONDE_ERUNNING;
}

static bool reach_nothing(stack_window_t *w, uint64_t address) {
  return address >= w->lo && address % 8 == 0 && address + 8 <= w->hi;
}

int passive_capture(passive_buffer_t *copy, pid_t tid, uint64_t identity,
                    sonde_capture_t *capture) {
  (void)identity;
  stack_copy_t s = {.copy = copy, .task_slot = capture->async ? os_swift_task_slot(tid) : 0};
  uint64_t epoch = walk_epoch();
  if (os_thread_stop(tid, copy_stack, &s) != 0) return SONDE_ENOTHREAD;
  stack_window_t window = {.lo = s.low,
                           .hi = s.low + s.count,
                           .delta = (uint64_t)(uintptr_t)copy->bytes - s.low,
                           .reach = reach_nothing};
  position_t p;
  position_of_frame(&p, s.frame);
  capture->flags = 0;
  walk_capture(&window, &p, epoch, capture);
  check_contexts(tid, &window, &p, capture);
  if (capture->flags & SONDE_FLAG_ASYNC) capture->async_task = s.task;
  return capture->count;
}

void passive_capture_group(passive_buffer_t *copy, passive_t *group, int count) {
  for (int i = 0; i < count; i++)
    group[i].result = passive_capture(copy, group[i].tid, group[i].identity, group[i].capture);
}
