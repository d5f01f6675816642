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
#include "cli/common/recording.h"
#include "cli/verbs.h"
#include "sonde/status.h"

enum { KEY_SUMMARY = CLI_LONG_ONLY };

static const cli_option_t options[] = {
    {KEY_SUMMARY, "summary", NULL,
     "write at most 1 MB, without events: what report and diff need for allocations and samples"},
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

/* Packs all programs of the process; each program has its own reader. */
static int pack_whole(reader_t *last, const char *path, FILE *out, pack_totals_t *totals,
                      terminal_progress_t *progress) {
  char error[256];
  int status = pack_begin(last, out, totals);
  for (uint32_t program = 1; status == 0 && program < reader_program(last); program++) {
    reader_t *reader;
    status = reader_open_program(&reader, path, program, error, sizeof error);
    if (status == 0) {
      status = pack_program(reader, out, totals, terminal_progress_update, progress);
      reader_close(reader);
    } else if (status == SONDE_ENOTFOUND) {
      status = 0; /* it recorded nothing */
    }
  }
  return status == 0 ? pack_program(last, out, totals, terminal_progress_update, progress) : status;
}

static int pack_to(reader_t *reader, const char *path, FILE *out, const char *output, bool summary,
                   pack_totals_t *totals) {
  terminal_progress_t progress;
  terminal_progress_start(&progress, "packing", 0);
  errno = 0;
  int status = summary ? summary_write(reader, out, totals, terminal_progress_update, &progress)
                       : pack_whole(reader, path, out, totals, &progress);
  terminal_progress_end(&progress);
  if (fflush(out) || ferror(out)) status = SONDE_EIO;
  if (status == SONDE_EIO)
    return message_fail("'%s' cannot be written: %s", output, strerror(errno ? errno : EIO));
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

static int pack_file(const char *path, const char *output, bool is_default, bool summary) {
  reader_t *reader = recording_open(path);
  output_t out;
  if (!reader) return CLI_FAILED;
  if (summary && is_summary(reader)) {
    reader_close(reader);
    return message_fail("'%s' is already a summary", path);
  }
  FILE *stream = output_open_stream(&out, output, is_default, 0600);
  int status = CLI_FAILED;
  pack_totals_t totals;
  if (stream) {
    status = pack_to(reader, path, stream, output, summary, &totals);
    status = output_close_stream(&out, stream, status);
  }
  if (status == CLI_DONE) print_totals(path, output, &totals);
  reader_close(reader);
  return status;
}

int verb_pack(int argc, char **argv) {
  cli_parser_t parser = cli_parser(&usage, argc, argv);
  const char *output = NULL;
  bool summary = false;
  int key;
  while ((key = cli_next(&parser)) > 0)
    switch (key) {
    case 'o': output = parser.value; break;
    case KEY_SUMMARY: summary = true; break;
    }
  if (key < 0) return parser.status;
  if (parser.rest_count != 1) return cli_wrong_use(&usage, "takes one recording");
  char *chosen =
      output ? strdup(output) : default_output(parser.rest[0], summary ? "summary" : "packed");
  int status =
      chosen ? pack_file(parser.rest[0], chosen, !output, summary) : message_fail("out of memory");
  free(chosen);
  return status;
}
