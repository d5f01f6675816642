/* SPDX-License-Identifier: MIT
 *
 * sonde pack: a recording made small, to keep and to send.
 *
 * The result is written beside its place and put there when it is whole, so a pack that is
 * interrupted leaves nothing half done.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analysis/summary/summary.h"
#include "cli/cli.h"
#include "cli/common/recording.h"
#include "cli/verbs.h"
#include "sonde/status.h"

enum { KEY_SUMMARY = CLI_LONG_ONLY };

static const cli_option_t options[] = {
    {KEY_SUMMARY, "summary", NULL,
     "at most 1 MB, without the events: what report and diff need of the\nallocations and samples"},
    {'o', "output", "FILE", "where to; default FILE.packed.sonde, or FILE.summary.sonde"},
    {0}};

static const cli_usage_t usage = {
    .verb = "pack",
    .arguments = "FILE",
    .about = "Compresses the recording FILE. Every verb reads the result as it reads FILE, and\n"
             "finds the same in it; FILE stays as it is. A summary holds what was live at the\n"
             "peak and at the end, growth, threads, sizes, samples and stacks, however large FILE\n"
             "is; 'sonde history' and 'sonde events' have nothing to read there.",
    .options = options,
    .examples = {
        {"sonde pack run.sonde", "into run.packed.sonde"},
        {"sonde pack --summary run.sonde", "into run.summary.sonde, to attach to a report"}}};

/* run.sonde becomes run.WORD.sonde. */
static char *default_output(const char *path, const char *word) {
  static const char ending[] = ".sonde";
  size_t n = strlen(path);
  char *out;
  if (n > sizeof ending - 1 && !strcmp(path + n - (sizeof ending - 1), ending))
    n -= sizeof ending - 1;
  return asprintf(&out, "%.*s.%s%s", (int)n, path, word, ending) < 0 ? NULL : out;
}

/* All programs of the process: those before the last one by readers of their own. */
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
      status = 0; /* it has left nothing */
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
  return status < 0 ? message_fail("there is no memory") : CLI_DONE;
}

static void tell(const char *path, const char *output, const pack_totals_t *t) {
  printf("%s: %" PRIu64 " bytes, %.1f %% of %s\n", output, t->after,
         t->before ? 100.0 * (double)t->after / (double)t->before : 100.0, path);
  if (t->left_out)
    printf("%" PRIu64 " stacks with little of everything are summed up in one\n", t->left_out);
}

static int pack_file(const char *path, const char *output, bool summary) {
  reader_t *reader = recording_open(path);
  char *part;
  if (!reader) return CLI_FAILED;
  if (summary && is_summary(reader)) {
    reader_close(reader);
    return message_fail("'%s' is a summary already", path);
  }
  if (asprintf(&part, "%s.%d.part", output, (int)getpid()) < 0) part = NULL;
  int fd = part ? open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
  FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
  int status = CLI_FAILED;
  pack_totals_t totals;
  if (!out) {
    message_fail("'%s' cannot be made: %s", output, strerror(errno));
  } else {
    status = pack_to(reader, path, out, output, summary, &totals);
    if (fclose(out) && status == CLI_DONE)
      status = message_fail("'%s' cannot be written: %s", output, strerror(errno));
    if (status == CLI_DONE && rename(part, output) < 0)
      status = message_fail("'%s' cannot be made: %s", output, strerror(errno));
    if (status == CLI_DONE)
      tell(path, output, &totals);
    else
      unlink(part);
  }
  free(part);
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
      chosen ? pack_file(parser.rest[0], chosen, summary) : message_fail("there is no memory");
  free(chosen);
  return status;
}
