/* SPDX-License-Identifier: MIT
 *
 * sonde pack: compresses or summarizes a recording.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analysis/summary/summary.h"
#include "base/output.h"
#include "cli/cli.h"
#include "cli/common/naming.h"
#include "cli/common/recording.h"
#include "cli/verbs.h"
#include "sonde/status.h"

enum { KEY_SUMMARY = CLI_LONG_ONLY, KEY_NAMES };

static const cli_option_t options[] = {
    {KEY_SUMMARY, "summary", NULL,
     "write at most 1 MB, without events: what report and diff need for allocations and samples"},
    {KEY_NAMES, "names", NULL,
     "store the names and lines of all stacks, for machines without the program's files"},
    NAMING_FILE_OPTIONS,
    {'o', "output", "FILE",
     "default: FILE.packed.sonde or FILE.summary.sonde, which\n"
     "must not exist"},
    {0}};

static const cli_usage_t usage = {
    .verb = "pack",
    .arguments = "FILE",
    .about = "Compresses the recording FILE, which stays unchanged. Every verb reads the result as "
             "it reads FILE. A summary has a bounded size. It keeps what was live at the peak "
             "and at the end, growth, threads, sizes, samples and stacks. It has no events, so "
             "'sonde history' and 'sonde events' cannot use it.",
    .options = options,
    .examples = {
        {"sonde pack run.sonde", "write run.packed.sonde"},
        {"sonde pack --names run.sonde", "the same, for a machine that lacks the program"},
        {"sonde pack --summary run.sonde", "write run.summary.sonde, to attach to a bug report"}}};

/* run.sonde becomes run.WORD.sonde. */
static char *default_output(const char *path, const char *word) {
  static const char ending[] = ".sonde";
  size_t n = strlen(path);
  char *out;
  if (n > sizeof ending - 1 && !strcmp(path + n - (sizeof ending - 1), ending))
    n -= sizeof ending - 1;
  return asprintf(&out, "%.*s.%s%s", (int)n, path, word, ending) < 0 ? NULL : out;
}

typedef struct request {
  const char *path, *output;
  bool has_default_output, summary, names;
  naming_t naming;
  pack_totals_t totals;
  terminal_progress_t progress;
} request_t;

/* Packs the program of READER, with the names of its functions if they are wanted. */
static int pack_reader(request_t *q, reader_t *reader, FILE *out) {
  frame_names_t *names = q->names ? frame_names_new(reader, &q->naming.options) : NULL;
  const pack_names_t source = {frame_names_stored, names};
  const pack_names_t *used = q->names ? &source : NULL;
  if (q->names && !names) return SONDE_ENOMEM;
  int status =
      q->summary
          ? summary_write(reader, used, out, &q->totals, terminal_progress_update, &q->progress)
          : pack_program(reader, used, out, &q->totals, terminal_progress_update, &q->progress);
  if (names) naming_note_missing(names);
  frame_names_free(names);
  return status;
}

/* Packs all programs of the process; each program has its own reader. */
static int pack_whole(request_t *q, reader_t *last, FILE *out) {
  char error[256];
  q->totals = (pack_totals_t){0};
  int status = pack_begin(last, RECORD_FEATURE_PACKED, out);
  for (uint32_t program = 1; status == 0 && program < reader_program(last); program++) {
    reader_t *reader;
    status = reader_open_program(&reader, q->path, program, error, sizeof error);
    if (status == 0) {
      status = pack_reader(q, reader, out);
      reader_close(reader);
    } else if (status == SONDE_ENOTFOUND) {
      status = 0; /* it recorded nothing */
    }
  }
  if (status == 0) status = pack_reader(q, last, out);
  return status == 0 ? pack_end(last, out) : status;
}

static int pack_to(request_t *q, reader_t *reader, FILE *out) {
  terminal_progress_start(&q->progress, "packing", 0);
  errno = 0;
  int status = q->summary ? pack_reader(q, reader, out) : pack_whole(q, reader, out);
  terminal_progress_end(&q->progress);
  if (fflush(out) || ferror(out)) status = SONDE_EIO;
  if (status == SONDE_EIO)
    return message_fail("'%s' cannot be written: %s", q->output, strerror(errno ? errno : EIO));
  return status < 0 ? message_fail("out of memory") : CLI_DONE;
}

/* The size of the file PATH; CHUNKS, which lacks the header, if that is not a regular file. */
static uint64_t size_of(const char *path, uint64_t chunks) {
  struct stat file;
  return stat(path, &file) == 0 && S_ISREG(file.st_mode) ? (uint64_t)file.st_size : chunks;
}

static void print_totals(const char *path, const char *output, const pack_totals_t *t) {
  uint64_t before = size_of(path, t->before), after = size_of(output, t->after);
  char a[24], b[24];
  printf("%s: %s, %.1f %% of %s (%s)\n", output, report_bytes((int64_t)after, a),
         before ? 100.0 * (double)after / (double)before : 100.0, path,
         report_bytes((int64_t)before, b));
  if (t->left_out) printf("%" PRIu64 " small stacks are combined into one\n", t->left_out);
}

static int pack_file(request_t *q) {
  reader_t *reader = recording_open(q->path);
  output_t out;
  if (!reader) return CLI_FAILED;
  if (q->summary && is_summary(reader)) {
    reader_close(reader);
    return message_fail("'%s' is already a summary", q->path);
  }
  FILE *stream = output_open_stream(&out, q->output, q->has_default_output, 0600);
  int status = CLI_FAILED;
  if (stream) {
    status = pack_to(q, reader, stream);
    status = output_close_stream(&out, stream, status);
  }
  if (status == CLI_DONE) print_totals(q->path, q->output, &q->totals);
  reader_close(reader);
  return status;
}

int verb_pack(int argc, char **argv) {
  cli_parser_t parser = cli_parser(&usage, argc, argv);
  request_t request = {0};
  const char *output = NULL, *wrong;
  int key;
  while ((key = cli_next(&parser)) > 0)
    switch (key) {
    case 'o': output = parser.value; break;
    case KEY_SUMMARY: request.summary = true; break;
    case KEY_NAMES: request.names = true; break;
    default:
      if (naming_take(&request.naming, key, parser.value, &wrong) && wrong)
        return cli_wrong_use(&usage, "%s", wrong);
    }
  if (key < 0) return parser.status;
  if (parser.rest_count != 1) return cli_wrong_use(&usage, "takes one recording");
  if ((request.naming.debug_dir_count || request.naming.sysroot_count) && !request.names)
    return cli_wrong_use(&usage, "--debug-dir and --sysroot need --names");
  request.path = parser.rest[0];
  request.has_default_output = !output;
  char *chosen = output ? strdup(output)
                        : default_output(request.path, request.summary ? "summary" : "packed");
  request.output = chosen;
  int status = chosen ? pack_file(&request) : message_fail("out of memory");
  free(chosen);
  return status;
}
