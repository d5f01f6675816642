/* SPDX-License-Identifier: MIT
 *
 * sonde export: a recording in a format that other tools read.
 *
 * collapsed: one line a stack, outermost function first, separated by semicolons, then a blank and
 * a weight; what flame graph tools take. chrome-trace: see report/exports/chrome_trace.h.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/samples.h"
#include "cli/common/audit_recording.h"
#include "cli/cli.h"
#include "cli/common/recording.h"
#include "cli/verbs.h"
#include "report/exports/chrome_trace.h"
#include "report/exports/pprof.h"
#include "report/report.h"
#include "sonde/status.h"

enum {
  KEY_AS = CLI_LONG_ONLY,
  KEY_BY,
  KEY_LEAST,
  KEY_DEPTH,
  KEY_BASELINE,
  KEY_PROGRAM,
  DEPTH_MAX = 4096
};

static const cli_option_t options[] = {
    {KEY_AS, "as", "FORMAT",
     "collapsed (the default): stacks with weights, for flame graphs;\n"
     "pprof: a profile for pprof and its like, gzipped;\n"
     "chrome-trace: traced calls in time, for Perfetto and speedscope;\n"
     "sarif, csv, xcprivacy: audited calls, for code scanners, for people,\n"
     "and as a draft of Apple's privacy manifest"},
    {KEY_BY, "by", "WHAT",
     "the weight: sample (CPU time), or bytes: peak, leaked, allocated;\nor temporary (calls). "
     "Default: sample if there are any, else peak"},
    {KEY_LEAST, "least", "DURATION", "chrome-trace: leave out shorter calls: 10us, 1.5ms"},
    {KEY_DEPTH, "depth", "N", "chrome-trace: leave out calls inside more than N - 1 others"},
    {KEY_BASELINE, "baseline", "FILE",
     "sarif: what this file of 'sonde audit baseline' has not is new"},
    RECORDING_PROGRAM_OPTION(KEY_PROGRAM, "write "),
    {'o', "output", "FILE", "where to; default standard output"},
    {0}};

static const cli_usage_t usage = {
    .verb = "export",
    .arguments = "FILE",
    .about = "Writes the recording FILE in a format that other tools read.",
    .options = options,
    .examples = {{"sonde export run.sonde -o run.folded", "stacks for a flame graph of CPU time"},
                 {"sonde export --by leaked run.sonde", "of what was never freed"},
                 {"sonde export --as pprof --by peak run.sonde -o run.pb.gz",
                  "for 'go tool pprof run.pb.gz'"},
                 {"sonde export --as chrome-trace run.sonde -o run.json", "for ui.perfetto.dev"}}};

typedef struct asked {
  const char *path, *output, *by, *baseline;
  const char *audit; /* the format, when it is one of audited calls */
  bool chrome, pprof;
  uint32_t program; /* as recording_open_program takes it */
  trace_filter_t calls;
} asked_t;

/* A function's name without what the format gives a meaning. */
static void put_name(const char *name, FILE *out) {
  for (; *name; name++)
    fputc(*name == ';' ? ':' : *name == '\n' ? ' ' : *name, out);
}

static void put_stack(const reader_t *reader, frame_names_t *names, uint32_t stack, uint64_t weight,
                      FILE *out) {
  static const record_frame_t *frames[DEPTH_MAX];
  const frame_name_t *found;
  int depth = reader_stack(reader, stack, frames, DEPTH_MAX);
  if (depth <= 0) fprintf(out, "[unknown]");
  if (depth > DEPTH_MAX) depth = DEPTH_MAX;
  for (int i = depth; i-- > 0;)
    for (int k = frame_names_of_frame(names, frames[i], &found); k-- > 0;) {
      put_name(found[k].function, out);
      if (i || k) fputc(';', out);
    }
  fprintf(out, " %" PRIu64 "\n", weight);
}

/* By name; MEASURE_COUNT stands for samples. */
static bool parse_by(const asked_t *asked, const samples_t *samples, measure_t *out) {
  const char *by = asked->by ? asked->by : samples->ticks ? "sample" : "peak";
  for (*out = 0; *out < MEASURE_GROWTH; ++*out)
    if (!strcmp(by, measure_name(*out))) return true;
  *out = MEASURE_COUNT;
  return !strcmp(by, "sample");
}

static int write_pprof(const asked_t *asked, reader_t *reader, frame_names_t *names,
                       const replay_t *replay, const samples_t *samples, bool cpu, FILE *out) {
  if (isatty(fileno(out)))
    return message_fail("a pprof profile is no text; give it a file with -o");
  int status = pprof_write(reader, names, replay, samples, cpu, out);
  if (status == SONDE_EIO)
    return message_fail("'%s' cannot be written: %s",
                        asked->output ? asked->output : "standard output", strerror(errno));
  return status < 0 ? message_fail("there is no memory") : CLI_DONE;
}

static void write_collapsed(const reader_t *reader, frame_names_t *names, const replay_t *replay,
                            const samples_t *samples, measure_t measure, FILE *out) {
  if (measure == MEASURE_COUNT)
    for (size_t i = 0; i < samples->stack_count; i++)
      put_stack(reader, names, samples->stacks[i].stack, samples->stacks[i].ticks, out);
  else
    for (size_t i = 0; i < replay->stack_count; i++) {
      int64_t weight = measure_of(&replay->stacks[i], measure);
      if (weight > 0) put_stack(reader, names, replay->stacks[i].stack, (uint64_t)weight, out);
    }
}

static int write_stacks(const asked_t *asked, reader_t *reader, const replay_t *replay,
                        const samples_t *samples, FILE *out) {
  measure_t measure;
  if (!parse_by(asked, samples, &measure))
    return cli_wrong_use(&usage, "--by takes sample, peak, leaked, allocated or temporary");
  frame_names_t *names = frame_names_new(reader);
  if (!names) return message_fail("there is no memory");
  int status = CLI_DONE;
  if (asked->pprof)
    status = write_pprof(asked, reader, names, replay, samples, measure == MEASURE_COUNT, out);
  else
    write_collapsed(reader, names, replay, samples, measure, out);
  frame_names_free(names);
  return status;
}

static FILE *open_output(const asked_t *asked) {
  FILE *out = asked->output ? fopen(asked->output, "we") : stdout;
  if (!out) (void)message_fail("'%s' cannot be made: %s", asked->output, strerror(errno));
  return out;
}

static int close_output(const asked_t *asked, FILE *out, int status) {
  if (asked->output && (ferror(out) | fclose(out)) != 0 && status == CLI_DONE)
    return message_fail("'%s' cannot be written: %s", asked->output, strerror(errno));
  return status;
}

static int write_to(const asked_t *asked, reader_t *reader, const replay_t *replay,
                    const samples_t *samples) {
  FILE *out = open_output(asked);
  if (!out) return CLI_FAILED;
  return close_output(asked, out, write_stacks(asked, reader, replay, samples, out));
}

static int export_calls(const asked_t *asked, reader_t *reader) {
  if (!calls_bytes(reader))
    return message_fail("'%s' holds no traced calls; 'sonde record --trace' records them",
                        asked->path);
  frame_names_t *names = frame_names_new(reader);
  FILE *out = names ? open_output(asked) : NULL;
  int status = CLI_FAILED;
  if (out) {
    status = chrome_trace_write(reader, names, &asked->calls, out) < 0
                 ? message_fail("there is no memory")
                 : CLI_DONE;
    status = close_output(asked, out, status);
  }
  frame_names_free(names);
  return status;
}

static bool add_sample(void *samples, const record_event_t *e) {
  return e->kind != EVENT_SAMPLE || samples_add(samples, e);
}

static int export_audited(const asked_t *asked) {
  FILE *out = open_output(asked);
  if (!out) return CLI_FAILED;
  return close_output(
      asked, out, export_audit(asked->path, asked->program, asked->audit, asked->baseline, out));
}

static int export_recording(const asked_t *asked) {
  reader_t *reader = recording_open_program(asked->path, asked->program);
  if (!reader) return CLI_FAILED;
  if (asked->chrome) {
    int done = export_calls(asked, reader);
    reader_close(reader);
    return done;
  }
  replay_t replay;
  samples_t samples = {0};
  replay_options_t window = {.other = add_sample, .other_context = &samples};
  int status =
      replay_run(&replay, reader, &window) < 0 ? message_fail("there is no memory") : CLI_DONE;
  if (status == CLI_DONE) {
    samples_rank(&samples);
    status = write_to(asked, reader, &replay, &samples);
    replay_free(&replay);
  }
  samples_free(&samples);
  reader_close(reader);
  return status;
}

int verb_export(int argc, char **argv) {
  cli_parser_t parser = cli_parser(&usage, argc, argv);
  asked_t asked = {0};
  long depth;
  int key;
  while ((key = cli_next(&parser)) > 0)
    switch (key) {
    case KEY_AS:
      asked.chrome = !strcmp(parser.value, "chrome-trace");
      asked.audit = export_audit_knows(parser.value) ? parser.value : NULL;
      asked.pprof = !strcmp(parser.value, "pprof");
      if (!asked.chrome && !asked.audit && !asked.pprof && strcmp(parser.value, "collapsed"))
        return cli_wrong_use(
            &usage,
            "knows the formats collapsed, pprof, chrome-trace, sarif, csv and xcprivacy, "
            "not '%s'",
            parser.value);
      break;
    case KEY_LEAST:
      if (parse_duration(parser.value, &asked.calls.min_ns)) break;
      return cli_wrong_use(&usage, "--least takes a duration such as 10us");
    case KEY_DEPTH:
      if (!parse_number(parser.value, 1, 1000000, &depth))
        return cli_wrong_use(&usage, "--depth takes a number from 1 up");
      asked.calls.max_depth = (uint32_t)depth;
      break;
    case KEY_BASELINE: asked.baseline = parser.value; break;
    case KEY_PROGRAM:
      if (!recording_program(parser.value, &asked.program))
        return cli_wrong_use(&usage, RECORDING_PROGRAM_WRONG);
      break;
    case KEY_BY: asked.by = parser.value; break;
    case 'o': asked.output = parser.value; break;
    }
  if (key < 0) return parser.status;
  if (parser.rest_count != 1) return cli_wrong_use(&usage, "takes one recording");
  asked.path = parser.rest[0];
  return asked.audit ? export_audited(&asked) : export_recording(&asked);
}
