/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "store/push/follow.h"

#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/message.h"
#include "reader/resume.h"
#include "store/push/context.h"
#include "store/session.h"

/* By then many programs have published their context. */
#define CONTEXT_S 1.0

typedef struct state {
  push_follow_t *of;
  push_target_t *target;
  push_t *push;
  push_counts_t *counts;
  resume_t *resume;
  frame_names_options_t naming; /* with a symbolizer for all parts */
  profile_carry_t carry;
  uint64_t from_ns; /* of the recording: what was pushed ends here */
  double next_s;    /* of CLOCK_MONOTONIC: when the next part is due */
  sigset_t signals; /* that end it */
  bool is_over;     /* the part that is pushed is the last one */
  bool has_told;    /* of the part that was refused last */
  bool has_pushed;
  bool has_context; /* the program's was read, once or more */
  pid_t pid;        /* of the program */
  int recorder;     /* a pidfd; -1: none */
} state_t;

/* ---- waiting ------------------------------------------------------------------------------ */

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* From here on, SIGINT ends it at once. SIGTERM does not: the recorder may send it after the sender
 * itself has found that the recording is complete. */
static void end(state_t *f) {
  sigset_t interrupt;
  f->is_over = true;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  (void)signal(SIGINT, SIG_DFL);
  (void)sigprocmask(SIG_UNBLOCK, &interrupt, NULL);
}

/* Also one that was killed and cannot say so. */
static bool recorder_has_ended(const state_t *f) {
  struct pollfd ended = {.fd = f->recorder, .events = POLLIN};
  return f->recorder >= 0 && poll(&ended, 1, 0) > 0;
}

/* As push_limits_t wants it. A signal that came earlier has stayed pending. */
static bool wait_s(void *context, double seconds) {
  state_t *f = context;
  double until_s = now_s() + seconds;
  while (!f->is_over) {
    if (recorder_has_ended(f)) {
      end(f);
      break;
    }
    double left_s = until_s - now_s();
    if (left_s <= 0) return true;
    const struct timespec left = {.tv_sec = (time_t)left_s,
                                  .tv_nsec = (long)((left_s - (double)(time_t)left_s) * 1e9)};
    if (sigtimedwait(&f->signals, NULL, &left) > 0) end(f);
  }
  return false;
}

/* A program may publish its context late, and change it. After its end the last one counts. */
static void read_context(state_t *f) { f->has_context |= push_context_read(f->target, f->pid); }

static void wait_for_next(state_t *f) {
  double now = now_s();
  f->next_s += f->of->every_s;
  if (f->next_s < now) f->next_s = now; /* a server was slow */
  if (!f->has_context && wait_s(f, fmin(CONTEXT_S, f->next_s - now))) read_context(f);
  (void)wait_s(f, fmax(f->next_s - now_s(), 0));
  if (!f->is_over) read_context(f);
}

/* ---- one part ----------------------------------------------------------------------------- */

static bool fail(const char *path, const char *error) {
  (void)message_fail("'%s': %s", path, error);
  return false;
}

static void judge(state_t *f, push_result_t result, const char *error) {
  f->has_pushed |= result == PUSH_DONE;
  f->of->refused += result == PUSH_FAILED;
  if (result == PUSH_FAILED && !f->has_told) (void)message_fail("%s", error);
  if (result != PUSH_EMPTY) f->has_told = result == PUSH_FAILED;
}

static bool keep_names(resume_t *resume, const reader_t *reader, frame_names_t *names) {
  size_t count;
  const record_frame_t *frames = reader_frames(reader, &count);
  const record_function_t *functions;
  for (size_t i = 0; i < count; i++) {
    if (!frame_names_has(names, &frames[i])) continue;
    int found = frame_names_stored(names, &frames[i], &functions);
    if (!resume_name_frame(resume, &frames[i], functions, found)) return false;
  }
  return true;
}

/* Reads all that is new before anything is sent, so a part is never read twice. */
static bool push_source(state_t *f, reader_t *reader, frame_names_t *names) {
  char error[PUSH_ERROR_MAX] = "";
  const record_header_t *header = reader_header(reader);
  profile_source_t source;
  push_part_t part = {.reader = reader, .names = names, .source = &source, .from_ns = f->from_ns};
  part.to_ns = header->end_monotonic_ns - header->start_monotonic_ns;
  if (part.to_ns < part.from_ns) part.to_ns = part.from_ns;
  if (profile_source_read_part(&source, reader, &f->carry) < 0) return false;
  bool good = resume_advance(f->resume, reader) && profile_source_carry(&source, &f->carry);
  if (good) judge(f, push_part(f->push, &part, f->counts, error, sizeof error), error);
  good = good && keep_names(f->resume, reader, names);
  profile_source_free(&source);
  f->from_ns = part.to_ns;
  return good;
}

/* The process executed another program, which has its own stacks and blocks. */
static bool start_program(state_t *f, uint32_t program) {
  resume_free(f->resume);
  profile_carry_free(&f->carry);
  f->resume = resume_new(program);
  return f->resume != NULL;
}

/* False after a message. Sets *MORE: the next program has begun. */
static bool push_new_events(state_t *f, bool *more) {
  char error[256] = "";
  reader_t *reader;
  *more = false;
  if (resume_open(&reader, f->of->path, f->resume, error, sizeof error) < 0)
    return fail(f->of->path, error);
  frame_names_t *names = frame_names_new(reader, &f->naming);
  bool is_over = !session_is_open(reader);
  bool good = names && push_source(f, reader, names);
  uint32_t next = f->of->program ? 0 : resume_next_program(reader);
  frame_names_free(names);
  reader_close(reader);
  *more = next != 0;
  if (good && next) good = start_program(f, next);
  if (!good) return fail(f->of->path, "out of memory");
  if (is_over && !f->is_over) end(f);
  return true;
}

static bool push_all(state_t *f) {
  bool more = true;
  while (more)
    if (!push_new_events(f, &more)) return false;
  return true;
}

/* ---- the whole ---------------------------------------------------------------------------- */

/* Nothing is waited for if the recording is complete. False after a message. */
static bool begin(state_t *f) {
  char error[256] = "";
  reader_t *reader;
  if (resume_open(&reader, f->of->path, f->resume, error, sizeof error) < 0)
    return fail(f->of->path, error);
  f->pid = (pid_t)reader_header(reader)->pid;
  f->recorder = (int)syscall(SYS_pidfd_open, (pid_t)reader_header(reader)->recorder_pid, 0);
  if (!session_is_open(reader)) end(f);
  reader_close(reader);
  return true;
}

static bool run(state_t *f) {
  if (!begin(f)) return false;
  do {
    wait_for_next(f);
    if (!push_all(f)) return false;
  } while (!f->is_over);
  return true;
}

push_result_t push_follow(push_follow_t *of, push_target_t *target, const push_limits_t *limits,
                          push_counts_t *counts) {
  char error[PUSH_ERROR_MAX];
  state_t f = {.of = of,
               .target = target,
               .counts = counts,
               .next_s = now_s(),
               .resume = resume_new(of->program)};
  if (of->naming) f.naming = *of->naming;
  f.naming.symbolizer = frame_names_symbolizer(&f.naming);
  push_limits_t own = *limits;
  own.wait = wait_s;
  own.wait_context = &f;
  f.push = push_new(target, &own, error, sizeof error);
  if (!f.push)
    (void)message_fail("%s", error);
  else if (!f.resume || !f.naming.symbolizer)
    (void)message_fail("out of memory");
  sigemptyset(&f.signals);
  sigaddset(&f.signals, SIGINT);
  sigaddset(&f.signals, SIGTERM);
  (void)sigprocmask(SIG_BLOCK, &f.signals, NULL);
  bool good = f.push && f.resume && f.naming.symbolizer && run(&f);
  if (f.naming.symbolizer) symbolizer_free(f.naming.symbolizer);
  if (f.recorder >= 0) close(f.recorder);
  push_free(f.push);
  resume_free(f.resume);
  profile_carry_free(&f.carry);
  if (!good || of->refused) return PUSH_FAILED;
  return f.has_pushed ? PUSH_DONE : PUSH_EMPTY;
}
