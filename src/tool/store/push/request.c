/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "store/push/request.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/exports/profile/gzip.h"
#include "report/exports/profile/messages.h"
#include "report/exports/profile/otlp.h"
#include "report/exports/profile/pprof.h"
#include "store/push/labels.h"
#include "store/push/series.pb-c.h"
#include "store/session.h"

/* gRPC's message prefix: a byte of flags and the length. In gRPC-Web a frame with the highest bit
 * set has the trailers. */
enum { FRAME_PREFIX = 5, FRAME_TRAILERS = 0x80 };

/* Status codes of gRPC. */
enum { GRPC_OK = 0, GRPC_EXHAUSTED = 8, GRPC_UNAVAILABLE = 14 };

/* ---- identifiers -------------------------------------------------------------------------- */

/* Equal parts of equal profiles have equal identifiers, so a receiver can drop a part that it gets
 * twice. The last byte is 0: OTLP counts the types with it. */
static void identify(const request_source_t *s, const profile_rows_t *rows, size_t from,
                     uint8_t out[OTLP_ID_BYTES]) {
  uint64_t recording = session_recording_id(s->reader);
  if (rows->from_ns) recording = id_mix(recording, rows->from_ns);
  const uint64_t parts[] = {id_text(recording, rows->name), id_mix(recording, from)};
  memcpy(out, parts, OTLP_ID_BYTES);
  out[OTLP_ID_BYTES - 1] = 0;
}

/* In the form of a UUID. */
static void print_id(const uint8_t id[OTLP_ID_BYTES], char out[40]) {
  size_t at = 0;
  for (int i = 0; i < OTLP_ID_BYTES; i++)
    at += (size_t)snprintf(out + at, 40 - at, "%s%02x",
                           i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", id[i]);
}

/* ---- bodies ------------------------------------------------------------------------------- */

static uint8_t *otlp_body(const request_source_t *s, const profile_rows_t *rows, size_t from,
                          size_t to, size_t *size) {
  labels_t labels;
  otlp_source_t source = {.reader = s->reader, .names = s->names};
  identify(s, rows, from, source.id);
  uint8_t *plain = NULL, *out = NULL;
  if (labels_of_resource(&labels, s->target, s->reader)) {
    source.attributes = labels.list.items;
    source.attribute_count = labels.list.count;
    plain = otlp_bytes(&source, rows, from, to, size);
  }
  if (plain) out = gzip_bytes(plain, *size, size);
  labels_free(&labels);
  free(plain);
  return out;
}

static size_t put_labels(pool_t *pool, const labels_t *labels, Sonde__Series__Label ***out) {
  size_t count = labels->list.count;
  Sonde__Series__Label *l =
      NEW_MESSAGES(pool, Sonde__Series__Label, sonde__series__label__init, count, *out);
  if (pool->failed) return 0;
  for (size_t i = 0; i < count; i++) {
    l[i].name = (char *)(uintptr_t)labels->list.items[i].key;
    l[i].value = (char *)(uintptr_t)labels->list.items[i].text;
  }
  return count;
}

static uint8_t *pyroscope_body(Sonde__Series__Sample *sample, Sonde__Series__Label **labels,
                               size_t count, size_t *size) {
  Sonde__Series__PyroscopeSeries series = SONDE__SERIES__PYROSCOPE_SERIES__INIT, *list = &series;
  Sonde__Series__PyroscopeRequest request = SONDE__SERIES__PYROSCOPE_REQUEST__INIT;
  series.labels = labels;
  series.n_labels = count;
  series.samples = &sample;
  series.n_samples = 1;
  request.series = &list;
  request.n_series = 1;
  *size = sonde__series__pyroscope_request__get_packed_size(&request);
  uint8_t *out = malloc(*size + 1);
  if (out) sonde__series__pyroscope_request__pack(&request, out);
  return out;
}

static uint8_t *parca_body(Sonde__Series__Sample *sample, Sonde__Series__Label **labels,
                           size_t count, size_t *size) {
  Sonde__Series__ParcaSeries series = SONDE__SERIES__PARCA_SERIES__INIT, *list = &series;
  Sonde__Series__ParcaRequest request = SONDE__SERIES__PARCA_REQUEST__INIT;
  Sonde__Series__Labels set = SONDE__SERIES__LABELS__INIT;
  set.labels = labels;
  set.n_labels = count;
  series.labels = &set;
  series.samples = &sample;
  series.n_samples = 1;
  request.series = &list;
  request.n_series = 1;
  size_t packed = sonde__series__parca_request__get_packed_size(&request);
  uint8_t *out = malloc(FRAME_PREFIX + packed);
  if (!out) return NULL;
  *size = FRAME_PREFIX + packed;
  out[0] = 0;
  for (int i = 1; i < FRAME_PREFIX; i++)
    out[i] = (uint8_t)(packed >> 8 * (FRAME_PREFIX - 1 - i));
  sonde__series__parca_request__pack(&request, out + FRAME_PREFIX);
  return out;
}

static uint8_t *series_body(const request_source_t *s, const profile_rows_t *rows, size_t from,
                            size_t to, size_t *size) {
  bool is_parca = s->target->protocol == PUSH_PARCA;
  Sonde__Series__Sample sample = SONDE__SERIES__SAMPLE__INIT;
  Sonde__Series__Label **list;
  uint8_t id[OTLP_ID_BYTES], *out = NULL;
  char printed_id[40];
  labels_t labels;
  identify(s, rows, from, id);
  print_id(id, printed_id);
  bool good = labels_of_series(&labels, s->target, s->reader, rows->name);
  uint8_t *profile = good ? pprof_bytes(s->reader, s->names, rows, from, to, size) : NULL;
  size_t count = profile ? put_labels(&labels.pool, &labels, &list) : 0;
  if (count) {
    sample.profile = (ProtobufCBinaryData){*size, profile};
    if (!is_parca) sample.id = printed_id;
    out = (is_parca ? parca_body : pyroscope_body)(&sample, list, count, size);
  }
  labels_free(&labels);
  free(profile);
  return out;
}

uint8_t *request_body(const request_source_t *s, const profile_rows_t *rows, size_t from, size_t to,
                      size_t *size) {
  return (s->target->protocol == PUSH_OTLP ? otlp_body : series_body)(s, rows, from, to, size);
}

const char *const *request_headers(push_protocol_t protocol) {
  static const char *const otlp[] = {"Content-Type: application/x-protobuf",
                                     "Content-Encoding: gzip", NULL};
  static const char *const pyroscope[] = {"Content-Type: application/proto",
                                          "Connect-Protocol-Version: 1", NULL};
  static const char *const parca[] = {"Content-Type: application/grpc-web+proto",
                                      "Accept: application/grpc-web+proto", "X-Grpc-Web: 1", NULL};
  static const char *const *const all[] = {
      [PUSH_OTLP] = otlp, [PUSH_PYROSCOPE] = pyroscope, [PUSH_PARCA] = parca};
  return all[protocol];
}

/* ---- replies ------------------------------------------------------------------------------ */

/* Servers repeat whole tokens and parts of them: so many characters are a part. */
enum { SECRET_PART = 8 };

/* Whether TEXT repeats SECRET, or SAID, its beginning, a part of it. */
static bool repeats(const char *text, const char *said, const char *secret) {
  size_t length = strlen(said);
  char part[SECRET_PART + 1] = "";
  if (strstr(text, secret)) return true;
  for (size_t i = 0; i + SECRET_PART <= length; i++)
    if (strstr(secret, memcpy(part, said + i, SECRET_PART))) return true;
  return false;
}

/* The first line of what the server says, if it is text and has no secret. */
static void quote(const push_target_t *target, const char *text, char *out, size_t out_size) {
  size_t size = strcspn(text, "\r\n");
  if (size >= out_size) size = out_size - 1;
  snprintf(out, out_size, "%.*s", (int)size, text);
  for (char *c = out; *c; c++)
    if ((unsigned char)*c < ' ' || (unsigned char)*c >= 127) *out = 0;
  for (size_t i = 0; *out && i < target->secrets.count; i++)
    if (repeats(text, out, target->secrets.items[i])) *out = 0;
}

static void explain(const push_target_t *target, const http_reply_t *r, char *error,
                    size_t error_size) {
  char said[200];
  quote(target, (const char *)r->body, said, sizeof said);
  const char *hint = r->status == 401 || r->status == 403
                         ? "; put credentials into a file and name it with --header-file"
                     : r->status == 404     ? "; nothing takes profiles at this path"
                     : r->status / 100 == 3 ? "; redirects are not followed, push to the final URL"
                                            : "";
  snprintf(error, error_size, "HTTP status %ld%s%s%s", r->status, *said ? ": " : "", said, hint);
}

/* The status in the frame of trailers, or -1. */
static int trailing_status(const http_reply_t *r) {
  for (size_t at = 0; at + FRAME_PREFIX <= r->body_size;) {
    size_t size = 0;
    for (size_t i = 1; i < FRAME_PREFIX; i++)
      size = size << 8 | r->body[at + i];
    if (size > r->body_size - at - FRAME_PREFIX) return -1;
    if (r->body[at] & FRAME_TRAILERS) {
      const char *text = (const char *)r->body + at + FRAME_PREFIX;
      const char *status = strcasestr(text, "grpc-status:");
      return status ? (int)strtol(status + sizeof "grpc-status:" - 1, NULL, 10) : -1;
    }
    at += FRAME_PREFIX + size;
  }
  return -1;
}

static reply_verdict_t judge_grpc(const http_reply_t *r, char *error, size_t error_size) {
  int status = r->grpc_status >= 0 ? r->grpc_status : trailing_status(r);
  if (status == GRPC_OK) return REPLY_TAKEN;
  if (status < 0)
    snprintf(error, error_size, "the reply is not one of a gRPC server");
  else
    snprintf(error, error_size, "gRPC status %d", status);
  return status == GRPC_EXHAUSTED || status == GRPC_UNAVAILABLE ? REPLY_LATER : REPLY_REFUSED;
}

static reply_verdict_t judge_otlp(const push_target_t *target, const http_reply_t *r, char *error,
                                  size_t error_size) {
  int64_t rejected;
  char *message, said[200];
  if (!otlp_read_response(r->body, r->body_size, &rejected, &message)) {
    snprintf(error, error_size, "the reply is not one of an OTLP receiver");
    return REPLY_REFUSED;
  }
  quote(target, message, said, sizeof said);
  free(message);
  if (rejected <= 0) return REPLY_TAKEN;
  snprintf(error, error_size, "%" PRId64 " profile%s rejected%s%s", rejected,
           rejected == 1 ? " was" : "s were", *said ? ": " : "", said);
  return REPLY_REFUSED;
}

reply_verdict_t reply_judge(const push_target_t *target, const http_reply_t *r, char *error,
                            size_t error_size) {
  if (!r->status) {
    snprintf(error, error_size, "%s", r->error);
    return r->is_permanent ? REPLY_REFUSED : REPLY_LATER;
  }
  if (r->status / 100 == 2) {
    if (target->protocol == PUSH_PARCA) return judge_grpc(r, error, error_size);
    if (target->protocol == PUSH_OTLP) return judge_otlp(target, r, error, error_size);
    return REPLY_TAKEN;
  }
  explain(target, r, error, error_size);
  bool is_later = r->status == 429 || r->status == 502 || r->status == 503 || r->status == 504;
  return is_later ? REPLY_LATER : REPLY_REFUSED;
}
