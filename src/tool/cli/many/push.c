/* SPDX-License-Identifier: MIT
 *
 * sonde push: sends the profiles of recordings to a server.
 */
#include "store/push/push.h"

#include <string.h>

#include "cli/cli.h"
#include "cli/common/naming.h"
#include "cli/common/push_recording.h"
#include "cli/common/recording.h"
#include "cli/common/recordings.h"
#include "cli/verbs.h"
#include "report/json.h"
#include "report/report.h"
#include "store/push/follow.h"

enum {
  KEY_TO = CLI_LONG_ONLY,
  KEY_LABEL,
  KEY_HEADER_FILE,
  KEY_RETRY,
  KEY_TIMEOUT,
  KEY_EVERY,
  KEY_PROGRAM,
  KEY_JSON
};

enum { LABELS_MAX = 64 };

static const cli_option_t options[] = {
    {KEY_TO, "to", "URL",
     "http[s]://HOST[:PORT][/PATH] takes OTLP profiles; pyroscope+http[s]://… and "
     "parca+http[s]://… "
     "take pprof profiles"},
    {KEY_LABEL, "label", "NAME=VALUE",
     "a label of the profiles; may be repeated. service.name and others also come from "
     "OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES"},
    {KEY_HEADER_FILE, "header-file", "FILE",
     "headers of the requests, lines 'Name: value', such as credentials; also "
     "SONDE_PUSH_HEADERS and, for OTLP, OTEL_EXPORTER_OTLP_HEADERS"},
    {KEY_RETRY, "retry", "DURATION",
     "send a request again for so long if the server cannot take it (default: 60s; 0: once)"},
    {KEY_TIMEOUT, "timeout", "DURATION", "wait so long for the reply to a request (default: 60s)"},
    {KEY_EVERY, "every", "DURATION",
     "push a recording while it is written: what is new, every DURATION (at least 1s), until it is "
     "complete. Ctrl-C ends it with a last push"},
    RECORDING_PROGRAM_OPTION(KEY_PROGRAM, "push"),
    {KEY_JSON, "json", NULL, "print JSON (docs/json.md)"},
    NAMING_FILE_OPTIONS,
    NAMING_APP_OPTIONS,
    {0}};

static const cli_usage_t usage = {
    .verb = "push",
    .arguments = "FILE|FOLDER… --to URL",
    .about =
        "Sends the profiles of recordings to a server: CPU time, waits, and allocated and live "
        "memory by stack. The server takes OpenTelemetry's profiles over HTTP (their layout is "
        "in development; sonde writes that of version 1.10), or is Pyroscope or Parca. "
        "Nothing but what docs/privacy.md lists is sent, and nothing without --to.",
    .options = options,
    .examples = {
        {"sonde push run.sonde --to http://localhost:4318", "to an OpenTelemetry collector"},
        {"sonde push run.sonde --to pyroscope+http://localhost:4040 --label env=test",
         "to Pyroscope, with a label"},
        {"sonde push run.sonde --to parca+http://localhost:7070", "to Parca"},
        {"sonde push run.sonde --to http://localhost:4318 --every 60s",
         "while it is being recorded"},
        {"sonde push runs/ --to https://host --header-file ~/.config/token",
         "with credentials from a file"}}};

typedef struct request {
  const char *url, *header_file;
  const char *labels[LABELS_MAX];
  int label_count;
  double retry_ns, timeout_ns, every_ns;
  uint32_t program;
  bool json;
  naming_t naming;
  recordings_t recordings;
  push_counts_t counts;
  uint64_t pushed, unreadable;
} request_t;

/* ---- output ------------------------------------------------------------------------------- */

static const char *plural(uint64_t count) { return count == 1 ? "" : "s"; }

static void print_text(const request_t *q, const push_target_t *target) {
  const push_counts_t *c = &q->counts;
  char pushed[24], profiles[24], stacks[24], requests[24], bytes[24];
  printf("%s recording%s pushed to %s: %s profile%s, %s stack%s, %s request%s, %s\n",
         report_count(q->pushed, pushed), plural(q->pushed), target->host,
         report_count(c->profiles, profiles), plural(c->profiles), report_count(c->stacks, stacks),
         plural(c->stacks), report_count(c->requests, requests), plural(c->requests),
         report_bytes((int64_t)c->bytes, bytes));
}

static void print_json(const request_t *q, const push_target_t *target) {
  static const char *const protocols[] = {"otlp", "pyroscope", "parca"};
  json_object *o = json_new_object();
  json_add_text(o, "host", target->host);
  json_add_text(o, "protocol", protocols[target->protocol]);
  json_add_count(o, "recordings", q->pushed);
  json_add_count(o, "profiles", q->counts.profiles);
  json_add_count(o, "stacks", q->counts.stacks);
  json_add_count(o, "requests", q->counts.requests);
  json_add_count(o, "retries", q->counts.retries);
  json_add_count(o, "sent_bytes", q->counts.bytes);
  json_add_count(o, "unreadable", q->unreadable);
  puts(json_print(o, JSON_STYLE));
  json_object_put(o);
}

/* ---- pushing ------------------------------------------------------------------------------ */

/* A recording that cannot be read does not keep the others out; a server that takes nothing does.
 */
static bool push_all(request_t *q, push_t *push) {
  for (size_t i = 0; i < q->recordings.paths.count; i++) {
    const push_input_t input = {q->recordings.paths.items[i], q->program, &q->naming.options};
    push_result_t result = push_recording_file(push, &input, &q->counts);
    q->pushed += result == PUSH_DONE;
    q->unreadable += result == PUSH_EMPTY;
    if (result == PUSH_FAILED) return false;
  }
  return true;
}

static bool push_each(request_t *q, const push_target_t *target, const push_limits_t *limits,
                      char **paths) {
  char error[PUSH_ERROR_MAX];
  for (; *paths; paths++)
    if (!recordings_add(&q->recordings, *paths)) return false;
  push_t *push = push_new(target, limits, error, sizeof error);
  if (!push) (void)message_fail("%s", error);
  bool good = push && push_all(q, push);
  push_free(push);
  return good;
}

/* One recording, while it is written. */
static bool push_while_written(request_t *q, push_target_t *target, const push_limits_t *limits,
                               const char *path) {
  push_follow_t follow = {.path = path,
                          .program = q->program,
                          .naming = &q->naming.options,
                          .every_s = q->every_ns * 1e-9};
  push_result_t result = push_follow(&follow, target, limits, &q->counts);
  q->pushed += result == PUSH_DONE;
  if (result == PUSH_EMPTY) message_note("'%s': nothing was recorded that is pushed", path);
  return result != PUSH_FAILED;
}

static int run(request_t *q, char **paths) {
  char error[PUSH_ERROR_MAX];
  push_target_t target;
  if (!push_target_read(&target, q->url, q->header_file, error, sizeof error))
    return message_fail("%s", error);
  const push_limits_t limits = {.retry_s = q->retry_ns * 1e-9, .request_s = q->timeout_ns * 1e-9};
  int status = CLI_FAILED;
  for (int i = 0; i < q->label_count; i++)
    if (!push_target_label(&target, q->labels[i])) {
      (void)cli_wrong_use(&usage, "--label takes NAME=VALUE");
      goto end;
    }
  if (q->every_ns > 0 ? push_while_written(q, &target, &limits, *paths)
                      : push_each(q, &target, &limits, paths)) {
    (q->json ? print_json : print_text)(q, &target);
    status = q->unreadable ? CLI_FAILED : CLI_DONE;
  }
end:
  push_target_free(&target);
  return status;
}

/* Returns what is wrong, or NULL. */
static const char *take_option(request_t *q, int key, const char *value) {
  const char *wrong = NULL;
  switch (key) {
  case KEY_TO: q->url = value; break;
  case KEY_HEADER_FILE: q->header_file = value; break;
  case KEY_JSON: q->json = true; break;
  case KEY_LABEL:
    if (q->label_count == LABELS_MAX) return "--label can be repeated up to 64 times";
    q->labels[q->label_count++] = value;
    break;
  case KEY_RETRY:
    q->retry_ns = 0;
    if (!strcmp(value, "0") || parse_duration(value, &q->retry_ns)) break;
    return "--retry takes a duration such as 30s, or 0";
  case KEY_TIMEOUT:
    if (parse_duration(value, &q->timeout_ns) && q->timeout_ns >= 1e6) break;
    return "--timeout takes a duration such as 30s, from 1ms";
  case KEY_EVERY:
    if (parse_duration(value, &q->every_ns) && q->every_ns >= 1e9) break;
    return "--every takes a duration such as 60s, from 1s";
  case KEY_PROGRAM: return recording_program(value, &q->program) ? NULL : RECORDING_PROGRAM_WRONG;
  default: (void)naming_take(&q->naming, key, value, &wrong);
  }
  return wrong;
}

int verb_push(int argc, char **argv) {
  cli_parser_t parser = cli_parser(&usage, argc, argv);
  request_t request = {.retry_ns = 60e9, .timeout_ns = 60e9};
  int key;
  while ((key = cli_next(&parser)) > 0) {
    const char *wrong = take_option(&request, key, parser.value);
    if (wrong) return cli_wrong_use(&usage, "%s", wrong);
  }
  if (key < 0) return parser.status;
  if (!parser.rest_count) return cli_wrong_use(&usage, "takes recordings or folders of them");
  if (!request.url) return cli_wrong_use(&usage, "--to says where to; nothing is sent without it");
  if (request.every_ns > 0 && parser.rest_count > 1)
    return cli_wrong_use(&usage, "--every takes one recording");
  int status = run(&request, parser.rest);
  recordings_free(&request.recordings);
  naming_free(&request.naming);
  return status;
}
