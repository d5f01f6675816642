/* SPDX-License-Identifier: MIT */
#include "store/push/push.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/message.h"
#include "store/http/http.h"
#include "store/push/request.h"

enum { REPLY_MAX = 64 * 1024 };

struct push {
  const push_target_t *target;
  http_t *http;
  const char **headers; /* of the protocol and of the user, up to NULL */
  push_limits_t limits;
  http_reply_t reply;
};

/* ---- one request -------------------------------------------------------------------------- */

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void sleep_s(double seconds) {
  struct timespec left = {.tv_sec = (time_t)seconds,
                          .tv_nsec = (long)((seconds - floor(seconds)) * 1e9)};
  while (nanosleep(&left, &left) < 0 && errno == EINTR) {
  }
}

double push_pause_s(unsigned attempt, double asked_s, double chance) {
  enum { LONGEST_S = 30, DOUBLINGS_MAX = 5 };
  unsigned doublings = attempt > 2 ? attempt - 2 : 0;
  double pause = doublings < DOUBLINGS_MAX ? (double)(1u << doublings) : LONGEST_S;
  pause *= 1 - chance / 2;
  return asked_s > pause ? asked_s : pause; /* a server may ask for no pause at all */
}

/* Different processes that a server refused at the same time come back at different times. */
static double chance(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (double)(now.tv_nsec % 1000000) / 1e6;
}

/* Waits, and returns whether the request is sent again; otherwise it has been for TRIED_S. */
static bool pause_before(push_t *p, double pause, double *began, double *tried_s) {
  const push_limits_t *l = &p->limits;
  if (l->wait && l->wait(l->wait_context, pause)) {
    *began = now_s();
    return true;
  }
  *tried_s = now_s() - *began;
  if (*tried_s + pause > l->retry_s) return false;
  sleep_s(pause);
  return true;
}

static void note_failure(const push_t *p, const char *why) {
  if (p->limits.wait)
    message_note("'%s': %s; trying again until the recording ends", p->target->host, why);
  else
    message_note("'%s': %s; trying again for up to %.0f s", p->target->host, why,
                 p->limits.retry_s);
}

static bool send_once(push_t *p, const http_request_t *request, reply_verdict_t *verdict, char *why,
                      size_t why_size) {
  http_post(p->http, request, &p->reply);
  *verdict = reply_judge(p->target, &p->reply, why, why_size);
  return *verdict == REPLY_TAKEN;
}

/* False: ERROR says why. */
static bool send(push_t *p, const http_request_t *request, push_counts_t *counts, char *error,
                 size_t error_size) {
  char why[PUSH_ERROR_MAX / 2];
  reply_verdict_t verdict;
  double began = now_s(), tried_s;
  for (unsigned attempt = 2; !send_once(p, request, &verdict, why, sizeof why); attempt++) {
    double pause = push_pause_s(attempt, p->reply.wait_s, chance());
    if (verdict == REPLY_REFUSED) {
      snprintf(error, error_size, "'%s': %s", p->target->host, why);
      return false;
    }
    if (attempt == 2 && pause <= p->limits.retry_s) note_failure(p, why);
    if (!pause_before(p, pause, &began, &tried_s)) {
      snprintf(error, error_size, "'%s': %s; gave up after %u tr%s in %.0f s", p->target->host, why,
               attempt - 1, attempt == 2 ? "y" : "ies", tried_s);
      return false;
    }
    counts->retries++;
  }
  counts->requests++;
  counts->bytes += request->body_size;
  return true;
}

/* ---- one recording ------------------------------------------------------------------------ */

static bool send_part(push_t *p, const request_source_t *source, const profile_rows_t *rows,
                      size_t from, size_t to, push_counts_t *counts, char *error,
                      size_t error_size) {
  size_t size;
  uint8_t *body = request_body(source, rows, from, to, &size);
  const http_request_t request = {.url = p->target->url,
                                  .headers = p->headers,
                                  .certificates = p->target->certificates,
                                  .body = body,
                                  .body_size = size,
                                  .reply_max = REPLY_MAX,
                                  .seconds = p->limits.request_s};
  bool good = body && send(p, &request, counts, error, error_size);
  if (!body) snprintf(error, error_size, "out of memory");
  if (good) counts->stacks += to - from;
  free(body);
  return good;
}

static bool send_rows(push_t *p, const request_source_t *source, const profile_rows_t *rows,
                      push_counts_t *counts, char *error, size_t error_size) {
  size_t count = rows->rows.count;
  for (size_t from = 0; from < count; from += PUSH_STACKS_MAX) {
    size_t to = count - from > PUSH_STACKS_MAX ? from + PUSH_STACKS_MAX : count;
    if (!send_part(p, source, rows, from, to, counts, error, error_size)) return false;
  }
  counts->profiles += count > 0;
  return true;
}

/* Makes the rows of profile KIND (0, 1, …) in OUT. 1; 0: there is no such kind; -1: out of memory.
 */
static int make_rows(const profile_source_t *s, int kind, profile_rows_t *out) {
  bool good = false;
  *out = (profile_rows_t){0};
  switch (kind) {
  case 0: good = profile_rows_cpu(out, &s->samples, profile_source_sample_times(s)); break;
  case 1: good = profile_rows_waits(out, &s->wall); break;
  case 2: good = profile_rows_heap(out, &s->replay, false); break;
  default: return 0;
  }
  return good ? 1 : -1;
}

push_result_t push_part(push_t *p, const push_part_t *part, push_counts_t *counts, char *error,
                        size_t error_size) {
  const request_source_t request = {
      .target = p->target, .reader = part->reader, .names = part->names};
  push_result_t result = PUSH_EMPTY;
  snprintf(error, error_size, "there are no samples, waits or allocations in it");
  profile_rows_t rows;
  int made = 1;
  for (int kind = 0; made > 0 && result != PUSH_FAILED; kind++) {
    made = make_rows(part->source, kind, &rows);
    rows.from_ns = part->from_ns;
    rows.to_ns = part->to_ns;
    if (made > 0 && rows.rows.count)
      result = send_rows(p, &request, &rows, counts, error, error_size) ? PUSH_DONE : PUSH_FAILED;
    profile_rows_free(&rows);
  }
  if (made >= 0) return result;
  snprintf(error, error_size, "out of memory");
  return PUSH_FAILED;
}

push_result_t push_recording(push_t *p, reader_t *reader, frame_names_t *names,
                             push_counts_t *counts, char *error, size_t error_size) {
  profile_source_t source;
  const push_part_t part = {.reader = reader, .names = names, .source = &source};
  if (profile_source_read(&source, reader, false) < 0) {
    snprintf(error, error_size, "out of memory");
    return PUSH_FAILED;
  }
  push_result_t result = push_part(p, &part, counts, error, error_size);
  profile_source_free(&source);
  return result;
}

/* ---- a pusher ----------------------------------------------------------------------------- */

static const char **all_headers(const push_target_t *target) {
  const char *const *own = request_headers(target->protocol);
  size_t count = 0;
  while (own[count])
    count++;
  const char **all = calloc(count + target->headers.count + 1, sizeof *all);
  if (!all) return NULL;
  memcpy(all, own, count * sizeof *all);
  for (size_t i = 0; i < target->headers.count; i++)
    all[count + i] = target->headers.items[i];
  return all;
}

push_t *push_new(const push_target_t *target, const push_limits_t *limits, char *error,
                 size_t error_size) {
  push_t *p = calloc(1, sizeof *p);
  snprintf(error, error_size, "out of memory");
  if (!p) return NULL;
  p->target = target;
  p->limits = *limits;
  p->headers = all_headers(target);
  if (p->headers) p->http = http_new(error, error_size);
  if (p->http) return p;
  push_free(p);
  return NULL;
}

void push_free(push_t *p) {
  if (!p) return;
  http_free(p->http);
  http_reply_free(&p->reply);
  free(p->headers);
  free(p);
}
