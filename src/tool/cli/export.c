/* SPDX-License-Identifier: MIT
 *
 * sonde export: converts a recording to the formats of other tools. report/exports/ writes them.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/samples.h"
#include "base/output.h"
#include "cli/common/audit_recording.h"
#include "cli/common/export_csv.h"
#include "cli/common/export_timeline.h"
#include "cli/cli.h"
#include "cli/common/naming.h"
#include "cli/common/recording.h"
#include "cli/verbs.h"
#include "report/exports/chrome_trace.h"
#include "report/exports/collapsed.h"
#include "report/exports/profile/pprof.h"
#include "report/exports/profile/source.h"
#include "report/exports/call_log.h"
#include "report/report.h"
#include "sonde/status.h"

enum {
  KEY_AS = CLI_LONG_ONLY,
  KEY_BY,
  KEY_LEAST,
  KEY_DEPTH,
  KEY_BASELINE,
  KEY_PROGRAM,
  KEY_FULL_NAMES
};

static const cli_option_t options[] = {
    {KEY_AS, "as",
     "FORMAT:collapsed|pprof|firefox|speedscope|callgrind|heaptrack|massif|chrome-trace|calls|"
     "sarif|csv|xcprivacy",
     "collapsed (default): stacks with weights, for flame graphs\n"
     "pprof: a gzipped profile for pprof\n"
     "firefox: samples, waits, stalls, markers and blocks with their times, for "
     "profiler.firefox.com, gzipped\n"
     "speedscope: CPU time, waits and blocks of each thread in the order of time\n"
     "callgrind: CPU time, blocks and traced calls by line and call, for KCachegrind and "
     "callgrind_annotate\n"
     "heaptrack: every allocation and free, for heaptrack_gui and heaptrack_print\n"
     "massif: the live heap over time with call trees, for ms_print and massif-visualizer\n"
     "chrome-trace: traced calls, waits, stalls and memory use, for Perfetto and speedscope\n"
     "calls: traced calls as text, a line each: depth, duration, start and name\n"
     "sarif: audited calls, for code scanners\n"
     "csv: a list of the report, or audited calls, for spreadsheets\n"
     "xcprivacy: a draft of Apple's privacy manifest"},
    {KEY_BY, "by", "WHAT:sample|wait|wall|peak|leaked|allocated|temporary|stall|calls|usage|audit",
     "the weight: sample (CPU time); wait (time off the CPU), wall (both), in nanoseconds; peak, "
     "leaked, allocated (bytes); temporary (calls). Default: sample if there are samples, else "
     "peak. pprof has all times, or all weights of blocks. csv: functions by these; wait, stall, "
     "calls; wall (threads), usage (over time), audit (the default if recorded)"},
    {KEY_LEAST, "least", "DURATION", "chrome-trace and calls: skip shorter calls: 10us, 1.5ms"},
    {KEY_DEPTH, "depth", "N", "chrome-trace and calls: skip calls deeper than N"},
    {KEY_BASELINE, "baseline", "FILE", "sarif: mark findings that are not in this baseline as new"},
    RECORDING_PROGRAM_OPTION(KEY_PROGRAM, "convert"),
    {KEY_FULL_NAMES, "full-names", NULL,
     "collapsed, chrome-trace and calls: whole C++ and Rust names, which are long; by default "
     "without "
     "arguments, and without template arguments beyond 80 columns"},
    NAMING_FILE_OPTIONS,
    NAMING_APP_OPTIONS,
    {'o', "output", "FILE", "write to FILE (default: standard output)"},
    {0}};

static const cli_usage_t usage = {
    .verb = "export",
    .arguments = "FILE",
    .about = "Converts the recording FILE to a format of other tools.",
    .options = options,
    .examples = {
        {"sonde export run.sonde -o run.folded", "stacks for a flame graph of CPU time"},
        {"sonde export --by wait run.sonde -o run.folded", "for a flame graph of waits"},
        {"sonde export --by leaked run.sonde", "stacks with the bytes that were never freed"},
        {"sonde export --as pprof --by peak run.sonde -o run.pb.gz", "for 'go tool pprof'"},
        {"sonde export --as chrome-trace run.sonde -o run.json", "for ui.perfetto.dev"},
        {"sonde export --as calls --least 1ms run.sonde", "a log of the calls that took long"}}};

typedef struct request {
  naming_t naming;
  const char *path, *output, *by, *baseline;
  const char *audit;    /* a format of audited calls, or NULL */
  const char *timeline; /* a format with times, or NULL */
  bool chrome, pprof, csv, full_names;
  bool calls_log;   /* of the formats of traced calls, the text */
  uint32_t program; /* as recording_open_program takes it */
  trace_filter_t calls;
} request_t;

/* the file of -o, while it is written */
static output_t output;

typedef enum weight { WEIGHT_BLOCKS, WEIGHT_SAMPLES, WEIGHT_WAIT, WEIGHT_WALL } weight_t;

/* False: a wrong word. *MEASURE is that of blocks. */
static bool parse_by(const request_t *request, const profile_source_t *source, weight_t *out,
                     measure_t *measure) {
  static const char *const words[] = {
      [WEIGHT_SAMPLES] = "sample", [WEIGHT_WAIT] = "wait", [WEIGHT_WALL] = "wall"};
  const char *by = request->by ? request->by : source->samples.ticks ? "sample" : "peak";
  *out = WEIGHT_BLOCKS;
  for (*measure = 0; *measure < MEASURE_GROWTH; ++*measure)
    if (!strcmp(by, measure_name(*measure))) return true;
  *measure = MEASURE_COUNT;
  for (*out = WEIGHT_SAMPLES; *out <= WEIGHT_WALL; ++*out)
    if (!strcmp(by, words[*out])) return true;
  return false;
}

static portions_t sample_times(const profile_source_t *source) {
  portions_t times = profile_source_sample_times(source);
  return export_sample_times(times.amount, times.counts);
}

static int write_pprof(const request_t *request, reader_t *reader, frame_names_t *names,
                       const profile_source_t *source, weight_t weight, FILE *out) {
  profile_rows_t rows;
  if (isatty(fileno(out)))
    return message_fail("a pprof profile is binary; write it to a file with -o");
  size_t size;
  bool good = weight == WEIGHT_BLOCKS
                  ? profile_rows_heap(&rows, &source->replay, true)
                  : profile_rows_times(&rows, &source->times, sample_times(source));
  uint8_t *bytes = good ? pprof_bytes(reader, names, &rows, 0, rows.rows.count, &size) : NULL;
  bool written = bytes && fwrite(bytes, 1, size, out) == size && fflush(out) == 0;
  profile_rows_free(&rows);
  free(bytes);
  if (!bytes) return message_fail("out of memory");
  if (written) return CLI_DONE;
  return message_fail("'%s' cannot be written: %s",
                      request->output ? request->output : "standard output", strerror(errno));
}

static int write_collapsed(const request_t *request, frame_names_t *names,
                           const profile_source_t *source, weight_t weight, measure_t measure,
                           FILE *out) {
  portions_t cpu = weight == WEIGHT_WALL ? sample_times(source) : (portions_t){0};
  if (weight != WEIGHT_WAIT && weight != WEIGHT_WALL)
    collapsed_write(names, &source->replay, &source->samples, measure, request->full_names, out);
  else if (!collapsed_write_times(names, &source->times, cpu, request->full_names, out))
    return message_fail("out of memory");
  return CLI_DONE;
}

/* Of what was not recorded. */
static int refuse(const request_t *request, const profile_source_t *source, weight_t weight,
                  measure_t measure) {
  if (measure == MEASURE_TEMPORARY && source->replay.sample_bytes)
    return message_fail(
        "'%s' has sampled blocks, so temporary allocations are unknown; record with "
        "'--malloc=all'",
        request->path);
  if ((weight == WEIGHT_WAIT || weight == WEIGHT_WALL) && !source->times.waits)
    return message_fail("'%s' has no waits; record with 'sonde record --wall'", request->path);
  return CLI_DONE;
}

static int write_stacks(const request_t *request, reader_t *reader, const profile_source_t *source,
                        FILE *out) {
  weight_t weight;
  measure_t measure;
  if (!parse_by(request, source, &weight, &measure))
    return cli_wrong_use(&usage,
                         "--by takes sample, wait, wall, peak, leaked, allocated or temporary");
  int status = refuse(request, source, weight, measure);
  if (status != CLI_DONE) return status;
  frame_names_t *names = frame_names_new(reader, &request->naming.options);
  if (!names) return message_fail("out of memory");
  status = request->pprof ? write_pprof(request, reader, names, source, weight, out)
                          : write_collapsed(request, names, source, weight, measure, out);
  naming_note_missing(names);
  frame_names_free(names);
  return status;
}

static FILE *open_output(const request_t *request) {
  return request->output ? output_open_stream(&output, request->output, false, 0666) : stdout;
}

static int close_output(const request_t *request, FILE *out, int status) {
  return request->output ? output_close_stream(&output, out, status) : status;
}

static int write_to(const request_t *request, reader_t *reader, const profile_source_t *source) {
  FILE *out = open_output(request);
  if (!out) return CLI_FAILED;
  return close_output(request, out, write_stacks(request, reader, source, out));
}

/* Says so before a file is written that no viewer opens. */
static void note_size(const request_t *request, reader_t *reader) {
  chrome_trace_size_t size;
  if (chrome_trace_size(reader, &request->calls, &size) < 0 || !size.bytes) return;
  message_note("the timeline has %" PRIu64 " calls and takes about %.1f GB; '--least 10us' keeps "
               "%" PRIu64 " of them, '--depth N' the outer ones",
               size.calls, (double)size.bytes / 1e9, size.longer_calls);
}

/* False: the format has nothing of this recording; an error was printed. */
static bool has_calls(const request_t *request, reader_t *reader) {
  if (calls_bytes(reader)) return true;
  int times = request->calls_log ? 0 : chrome_trace_has_times(reader);
  if (times > 0) return true;
  if (times < 0)
    message_fail("out of memory");
  else if (request->calls_log)
    message_fail("'%s' has no traced calls; record with 'sonde record --trace'", request->path);
  else
    message_fail("'%s' has no traced calls, waits or stalls; record with 'sonde record --trace', "
                 "'--wall' or '--stall'",
                 request->path);
  return false;
}

static int export_calls(const request_t *request, reader_t *reader) {
  if (!has_calls(request, reader)) return CLI_FAILED;
  if (!request->calls_log) note_size(request, reader);
  frame_names_t *names = frame_names_new(reader, &request->naming.options);
  FILE *out = names ? open_output(request) : NULL;
  int status = CLI_FAILED;
  if (out) {
    int written =
        request->calls_log
            ? call_log_write(reader, names, &request->calls, request->full_names, out)
            : chrome_trace_write(reader, names, &request->calls, request->full_names, out);
    status = written < 0 ? message_fail("out of memory") : CLI_DONE;
    status = close_output(request, out, status);
    naming_note_missing(names);
  }
  frame_names_free(names);
  return status;
}

static int export_report(const request_t *request, reader_t *reader) {
  report_t report = {.path = request->path,
                     .program = request->program,
                     .reader = reader,
                     .naming = &request->naming.options,
                     .bold = "",
                     .dim = "",
                     .plain = ""};
  FILE *out = open_output(request);
  if (!out) return CLI_FAILED;
  int status = request->csv ? export_csv(&report, request->by, out)
                            : export_timeline(&report, request->timeline, out);
  return close_output(request, out, status);
}

static int export_audited(const request_t *request) {
  FILE *out = open_output(request);
  if (!out) return CLI_FAILED;
  return close_output(request, out,
                      audit_recording_export(request->path, &request->naming.options,
                                             request->program, request->audit, request->baseline,
                                             out));
}

static int export_recording(const request_t *request) {
  if (recording_is_output(request->path, request->output)) return CLI_FAILED;
  reader_t *reader = recording_open_program(request->path, request->program);
  if (!reader) return CLI_FAILED;
  if (request->audit && reader_header(reader)->mode & RECORD_AUDIT) {
    recording_close(reader, request->path);
    return export_audited(request);
  }
  if (request->chrome || request->timeline || request->csv) {
    int done = request->chrome ? export_calls(request, reader) : export_report(request, reader);
    recording_close(reader, request->path);
    return done;
  }
  profile_source_t source;
  int status = CLI_FAILED;
  if (profile_source_read(&source, reader, true) < 0) {
    status = message_fail("out of memory");
  } else {
    status = write_to(request, reader, &source);
    profile_source_free(&source);
  }
  recording_close(reader, request->path);
  return status;
}

int verb_export(int argc, char **argv) {
  cli_parser_t parser = cli_parser(&usage, argc, argv);
  request_t request = {0};
  const char *wrong;
  long depth;
  int key;
  while ((key = cli_next(&parser)) > 0)
    switch (key) {
    case KEY_AS:
      request.calls_log = !strcmp(parser.value, "calls");
      request.chrome = request.calls_log || !strcmp(parser.value, "chrome-trace");
      request.audit = audit_recording_has_format(parser.value) ? parser.value : NULL;
      request.pprof = !strcmp(parser.value, "pprof");
      request.csv = !strcmp(parser.value, "csv");
      request.timeline = export_timeline_format(parser.value);
      if (!request.chrome && !request.audit && !request.pprof && !request.timeline &&
          strcmp(parser.value, "collapsed"))
        return cli_wrong_use(
            &usage,
            "the formats are collapsed, pprof, firefox, speedscope, callgrind, "
            "heaptrack, massif, chrome-trace, calls, sarif, csv and xcprivacy, not '%s'",
            parser.value);
      break;
    case KEY_LEAST:
      if (parse_duration(parser.value, &request.calls.min_ns)) break;
      return cli_wrong_use(&usage, "--least takes a duration such as 10us");
    case KEY_DEPTH:
      if (!parse_number(parser.value, 1, 1000000, &depth))
        return cli_wrong_use(&usage, "--depth takes a number from 1 up");
      request.calls.max_depth = (uint32_t)depth;
      break;
    case KEY_FULL_NAMES: request.full_names = true; break;
    case KEY_BASELINE: request.baseline = parser.value; break;
    case KEY_PROGRAM:
      if (!recording_program(parser.value, &request.program))
        return cli_wrong_use(&usage, RECORDING_PROGRAM_WRONG);
      break;
    case KEY_BY: request.by = parser.value; break;
    case 'o': request.output = parser.value; break;
    default:
      if (naming_take(&request.naming, key, parser.value, &wrong) && wrong)
        return cli_wrong_use(&usage, "%s", wrong);
    }
  if (key < 0) return parser.status;
  if (parser.rest_count != 1) return cli_wrong_use(&usage, "takes one recording");
  request.path = parser.rest[0];
  const char *by = request.by && strcmp(request.by, "audit") ? request.by : NULL;
  if (request.csv && !export_csv_has_list(by))
    return cli_wrong_use(&usage, "csv has no list '%s'", by);
  if (request.csv && by) request.audit = NULL;
  int status = request.audit && (request.by || !request.csv) ? export_audited(&request)
                                                             : export_recording(&request);
  naming_free(&request.naming);
  return status;
}
