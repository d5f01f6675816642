/* SPDX-License-Identifier: MIT
 *
 * sonde store: adds recordings to a store.
 */
#include "store/store.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/parse.h"
#include "cli/cli.h"
#include "cli/common/naming.h"
#include "cli/common/recordings.h"
#include "cli/verbs.h"
#include "report/json.h"
#include "report/report.h"
#include "sonde/status.h"
#include "store/symbolize.h"

enum { KEY_TO = CLI_LONG_ONLY, KEY_DEVICE, KEY_BUILD, KEY_AGAIN, KEY_BEFORE, KEY_JSON };

static const cli_option_t options[] = {
    {KEY_TO, "to", "URL",
     "the store: sqlite:FILE (default: sonde/store.sqlite in XDG_DATA_HOME, ~/.local/share) or "
     "clickhouse://HOST[:PORT]/DATABASE"},
    {KEY_DEVICE, "device", "NAME", "the device that recorded them (default: this host's name)"},
    {KEY_BUILD, "build", "NAME",
     "the build that was recorded (default: the program's build-id, 12 digits)"},
    {KEY_JSON, "json", NULL, "print JSON (docs/json.md)"},
    CLI_GROUP("symbolize"),
    NAMING_FILE_OPTIONS,
    {KEY_AGAIN, "again", NULL, "also look up frames that have names, for better files"},
    CLI_GROUP("drop"),
    {KEY_BEFORE, "before", "DATE",
     "delete the sessions of the days before DATE: 2026-08-01, or 90d for the last 90 days"},
    {0}};

static const cli_part_t parts[] = {
    {.name = "symbolize",
     .form = "symbolize",
     .summary = "name the frames that have no name yet",
     .about =
         "Finds function, file and line of the frames in the store that have no name yet, from "
         "files with their build-ids: those of this machine, in the symbol index, and below "
         "--debug-dir and --sysroot.",
     .options = "to debug-dir sysroot again json",
     .examples = {{"sonde store symbolize", "name what the files of this machine can name"},
                  {"sonde store symbolize --debug-dir ./debug", "also look in a folder"},
                  {"sonde store symbolize --again --debug-dir ./debug",
                   "replace names that were found without debug information"}}},
    {.name = "drop",
     .form = "drop --before DATE",
     .summary = "delete old sessions",
     .about = "Deletes the sessions of the days before DATE, with their events. DATE is a day in "
              "UTC, or a number of days before today.",
     .options = "to before json",
     .examples = {{"sonde store drop --before 90d", "keep the last 90 days"},
                  {"sonde store drop --to sqlite:fleet.sqlite --before 2026-08-01",
                   "in another store, up to a day"}}},
    {0}};

static const cli_usage_t usage = {
    .verb = "store",
    .arguments = "FILE|FOLDER… | symbolize | drop --before DATE",
    .parts = parts,
    .parts_are = "commands",
    .about = "Adds recordings, packed recordings and summaries to a store: a database of many "
             "recordings, of many builds and devices, which 'sonde query' reads. Of a folder, adds "
             "all files *.sonde. A recording counts once, however often it is stored. After an "
             "interruption, run the same command again.",
    .options = options,
    .examples = {{"sonde store run.sonde", "add a recording to your own store"},
                 {"sonde store --to sqlite:fleet.sqlite --device pixel-7 uploads/",
                  "add a folder that a device uploaded"},
                 {"sonde store --build 1.4.2 nightly/*.sonde", "name the build"},
                 {"sonde store symbolize --debug-dir ./debug", "find functions and lines"},
                 {"sonde store drop --before 90d", "keep the last 90 days"}}};

typedef struct request {
  const char *url;
  session_labels_t labels;
  bool json;
  naming_t naming;
  bool again;
  const char *before;
  recordings_t recordings;
  store_counts_t counts;
  uint64_t unreadable;
} request_t;

static void print_text(const request_t *q, store_t *store) {
  char sessions[24], present[24], events[24], bytes[24];
  printf("%s stored, %s there before, %s events\n", report_count(q->counts.sessions, sessions),
         report_count(q->counts.present, present), report_count(q->counts.events, events));
  printf("%s: %s\n", store_path(store), report_bytes((int64_t)store_size_bytes(store), bytes));
}

static void print_json(const request_t *q, store_t *store) {
  json_object *o = json_new_object();
  json_add_text(o, "store", store_path(store));
  json_add_count(o, "sessions", q->counts.sessions);
  json_add_count(o, "present", q->counts.present);
  json_add_count(o, "events", q->counts.events);
  json_add_count(o, "unreadable", q->unreadable);
  json_add_count(o, "size_bytes", store_size_bytes(store));
  puts(json_print(o, JSON_STYLE));
  json_object_put(o);
}

/* A recording that cannot be read does not keep the others out. */
static int put_all(request_t *q, store_t *store) {
  char error[STORE_PATH_MAX + 512];
  terminal_progress_t progress;
  store_result_t result = STORE_DONE;
  terminal_progress_start(&progress, "storing recordings", q->recordings.paths.count);
  for (size_t i = 0; i < q->recordings.paths.count && result != STORE_FAILED; i++) {
    result =
        store_put(store, q->recordings.paths.items[i], &q->labels, &q->counts, error, sizeof error);
    if (result == STORE_UNREADABLE) message_note("%s", error);
    q->unreadable += result == STORE_UNREADABLE;
    terminal_progress_step(&progress, i + 1);
  }
  terminal_progress_end(&progress);
  if (result == STORE_FAILED || !store_flush(store, &q->counts, error, sizeof error))
    return message_fail("%s", error);
  (q->json ? print_json : print_text)(q, store);
  return q->unreadable ? CLI_FAILED : CLI_DONE;
}

static int store_all(request_t *q, char **paths) {
  char error[STORE_PATH_MAX + 512];
  for (; *paths; paths++)
    if (!recordings_add(&q->recordings, *paths)) return CLI_FAILED;
  store_t *store = store_create(q->url, error, sizeof error);
  if (!store) return message_fail("%s", error);
  int status = put_all(q, store);
  store_close(store);
  return status;
}

/* ---- names -------------------------------------------------------------------------------- */

static void print_named(const request_t *q, const symbolize_counts_t *counts) {
  char images[24], addresses[24], named[24];
  if (!q->json) {
    printf("%s of %s addresses in %s images named\n", report_count(counts->named, named),
           report_count(counts->addresses, addresses), report_count(counts->images, images));
    return;
  }
  json_object *o = json_new_object();
  json_add_count(o, "images", counts->images);
  json_add_count(o, "addresses", counts->addresses);
  json_add_count(o, "named", counts->named);
  puts(json_print(o, JSON_STYLE));
  json_object_put(o);
}

static int symbolize(const request_t *q) {
  char error[STORE_PATH_MAX + 512];
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  const symbolize_options_t how = {.debug_dirs = q->naming.debug_dirs,
                                   .sysroots = q->naming.sysroots,
                                   .again = q->again,
                                   .threads = processors > 0 ? (unsigned)processors : 1};
  symbolize_counts_t counts;
  store_t *store = store_open(q->url, &(copy_need_t){.is_whole = true}, error, sizeof error);
  if (!store) return message_fail("%s", error);
  int status = store_symbolize(store_engine(store), &how, &counts);
  if (status == 0 && store_write_names(store, error, sizeof error))
    print_named(q, &counts);
  else if (status == 0)
    status = message_fail("%s", error);
  else
    status = status == SONDE_ENOMEM
                 ? message_fail("out of memory")
                 : message_fail("'%s': %s", store_path(store), engine_error(store_engine(store)));
  store_close(store);
  return status;
}

/* ---- old sessions ------------------------------------------------------------------------- */

/* DATE, or the day that is so many days before today. */
static bool read_before(const char *text, int64_t *day) {
  char *end;
  long days = strtol(text, &end, 10);
  if (end == text || strcmp(end, "d") != 0) return parse_day(text, day);
  *day = time(NULL) / (24 * 60 * 60) - days;
  return days >= 0 && *day >= 0;
}

static void print_dropped(const request_t *q, store_t *store, int64_t day, uint64_t dropped) {
  char date[24], count[24], bytes[24];
  time_t start = (time_t)day * 24 * 60 * 60;
  struct tm utc;
  strftime(date, sizeof date, "%Y-%m-%d", gmtime_r(&start, &utc));
  if (!q->json) {
    const char *plural = dropped == 1 ? "" : "s";
    printf("%s session%s before %s dropped\n", report_count(dropped, count), plural, date);
    printf("%s: %s\n", store_path(store), report_bytes((int64_t)store_size_bytes(store), bytes));
    return;
  }
  json_object *o = json_new_object();
  json_add_text(o, "store", store_path(store));
  json_add_text(o, "before", date);
  json_add_count(o, "dropped", dropped);
  json_add_count(o, "size_bytes", store_size_bytes(store));
  puts(json_print(o, JSON_STYLE));
  json_object_put(o);
}

static int drop(const request_t *q) {
  char error[STORE_PATH_MAX + 512];
  int64_t day;
  uint64_t dropped;
  if (!q->before) return cli_wrong_use(&usage, "drop needs --before DATE");
  if (!read_before(q->before, &day))
    return cli_wrong_use(&usage, "--before takes a day such as 2026-08-01, or 90d");
  store_t *store = store_open(q->url, &(copy_need_t){0}, error, sizeof error);
  if (!store) return message_fail("%s", error);
  bool good = store_drop_before(store, &day, &dropped, error, sizeof error);
  if (good) print_dropped(q, store, day, dropped);
  store_close(store);
  return good ? CLI_DONE : message_fail("%s", error);
}

/* ---- the verb ----------------------------------------------------------------------------- */

int verb_store(int argc, char **argv) {
  cli_parser_t parser = cli_parser(&usage, argc, argv);
  struct utsname host;
  request_t request = {0};
  int key;
  while ((key = cli_next(&parser)) > 0)
    switch (key) {
    case KEY_TO: request.url = parser.value; break;
    case KEY_DEVICE: request.labels.device = parser.value; break;
    case KEY_BUILD: request.labels.build = parser.value; break;
    case KEY_JSON: request.json = true; break;
    case KEY_AGAIN: request.again = true; break;
    case KEY_BEFORE: request.before = parser.value; break;
    default: {
      const char *wrong;
      if (naming_take(&request.naming, key, parser.value, &wrong) && wrong)
        return cli_wrong_use(&usage, "%s", wrong);
    }
    }
  if (key < 0) return parser.status;
  if (!parser.rest_count) return cli_wrong_use(&usage, "takes recordings or folders of them");
  bool is_drop = !strcmp(parser.rest[0], "drop"), is_naming = !strcmp(parser.rest[0], "symbolize");
  if ((is_drop || is_naming) && parser.rest_count > 1)
    return cli_wrong_use(&usage, "%s takes no files", parser.rest[0]);
  if (request.before && !is_drop) return cli_wrong_use(&usage, "--before needs 'drop'");
  if (is_drop) return drop(&request);
  if (is_naming) return symbolize(&request);
  if (request.again || request.naming.debug_dir_count || request.naming.sysroot_count)
    return cli_wrong_use(&usage, "--debug-dir, --sysroot and --again need 'symbolize'");
  if (!request.labels.device) request.labels.device = uname(&host) == 0 ? host.nodename : "unknown";
  int status = store_all(&request, parser.rest);
  recordings_free(&request.recordings);
  return status;
}
