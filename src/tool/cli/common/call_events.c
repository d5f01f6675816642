/* SPDX-License-Identifier: MIT */
#include "cli/common/call_events.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/array.h"

/* A thread's calls, and the first of them that is not printed yet. */
typedef struct stream {
  calls_t *calls;
  call_step_t next;
  double ns;
  bool ended;
} stream_t;

struct call_events {
  reader_t *reader;
  ARRAY(stream_t) streams;
};

static void advance(const call_events_t *e, stream_t *s) {
  s->ended = !calls_next(s->calls, &s->next);
  s->ns = s->ended ? 0 : reader_clock_ns(e->reader, s->next.time);
}

call_events_t *call_events_open(reader_t *reader) {
  call_events_t *e = calloc(1, sizeof *e);
  calls_t *calls;
  if (!e) return NULL;
  e->reader = reader;
  for (size_t place = 0; (calls = calls_open(reader, &place));) {
    stream_t *s = ARRAY_ADD(e->streams);
    if (!s) {
      calls_close(calls);
      call_events_close(e);
      return NULL;
    }
    *s = (stream_t){.calls = calls};
    advance(e, s);
  }
  return e;
}

static void print_step(const call_events_t *e, const stream_t *s) {
  static const char *const names[] = {
      [CALL_ENTERED] = "call",        [CALL_ENDED] = "return", [CALL_UNWOUND] = "unwind",
      [CALL_DROPPED] = "lost_return", [CALL_UNKNOWN] = "call", [CALL_STRAY] = "return"};
  const record_thread_t *t = reader_thread(e->reader, calls_stream(s->calls));
  const record_frame_t *f = s->next.frame ? reader_frame(e->reader, s->next.frame) : NULL;
  printf("{\"event\":\"%s\",\"time_ns\":%.0f", names[s->next.what], s->ns > 0 ? s->ns : 0);
  if (t) printf(",\"tid\":%" PRIu32, t->tid);
  if (f) printf(",\"pc\":\"0x%" PRIx64 "\"", f->pc);
  printf("}\n");
}

void call_events_print(call_events_t *e, double ns) {
  for (;;) {
    stream_t *first = NULL;
    for (size_t i = 0; i < e->streams.count; i++) {
      stream_t *s = &e->streams.items[i];
      if (!s->ended && s->ns < ns && (!first || s->ns < first->ns)) first = s;
    }
    if (!first) return;
    print_step(e, first);
    advance(e, first);
  }
}

void call_events_close(call_events_t *e) {
  if (!e) return;
  for (size_t i = 0; i < e->streams.count; i++)
    calls_close(e->streams.items[i].calls);
  free(e->streams.items);
  free(e);
}
