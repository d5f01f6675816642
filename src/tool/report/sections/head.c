/* SPDX-License-Identifier: MIT
 *
 * The head of a report: the program, how it ended, and which data the recording lacks.
 */
#include <inttypes.h>
#include <sys/wait.h>

#include "analysis/summary/summary.h"
#include "base/wrap.h"
#include "report/json.h"
#include "report/report.h"
#include "report/sections/seccomp.h"
#include "symbol/short_name.h"

static void print_end(const reader_t *reader, FILE *out) {
  const record_header_t *h = reader_header(reader);
  int status = (int)h->exit_status;
  if (h->mode & RECORD_FROM_OUTSIDE) fprintf(out, "from outside, ");
  if (h->state != RECORD_FINISHED)
    fprintf(out, reader_recorder_loss(reader)
                     ? "incomplete: the recorder was killed"
                     : "unfinished: still running, or the recorder was killed");
  else if (h->exit_status == RECORD_STATUS_UNKNOWN)
    fprintf(out, "ended");
  else if (h->exit_status == RECORD_STATUS_RUNNING)
    fprintf(out, "still ran at the end");
  else if (WIFEXITED(status))
    fprintf(out, "ended with status %d", WEXITSTATUS(status));
  else
    fprintf(out, "killed by signal %d", WTERMSIG(status));
}

static void print_damage(uint64_t count, const char *what, const char *how, FILE *out) {
  if (count)
    fprintf(out, "  damaged    %" PRIu64 " %s%s %s\n", count, what, count == 1 ? "" : "s", how);
}

static void print_missing(const reader_t *reader, FILE *out) {
  const record_header_t *h = reader_header(reader);
  const reader_damage_t *d = reader_damage(reader);
  reader_loss_t loss = reader_recorder_loss(reader);
  if (loss)
    fprintf(out, "  missing    the recorder was killed: stalls, waits, CPU use, the last live\n"
                 "             blocks and the exit status after that\n");
  if (loss == READER_LOST_NEWEST)
    fprintf(out, "  missing    the newest events of each thread, up to 256 KB\n");
  if (h->stop_reason && h->stop_reason != RECORD_STOP_RECORDER)
    fprintf(out, "  missing    recording stopped early: %s\n", record_stop_text(h->stop_reason));
  if (h->gaps > (h->stop_reason ? 1 : 0))
    fprintf(out, "  missing    the events of %.1f s, in which the file could not be written: %s\n",
            (double)h->gaps_ns / 1e9, record_stop_text(h->gap_reason));
  if (h->lost_events)
    fprintf(out, "  missing    %" PRIu64 " events could not be written\n", h->lost_events);
  if (h->lost_stacks)
    fprintf(out, "  missing    the stacks of %" PRIu64 " events\n", h->lost_stacks);
  if (h->lost_definitions || d->missing_definitions)
    fprintf(out, "  missing    %" PRIu64 " definitions of stacks and frames\n",
            h->lost_definitions + d->missing_definitions);
  if (d->dropped_chunks)
    fprintf(out, "  missing    %" PRIu64 " chunks of events before %.3f s, overwritten (--limit)\n",
            d->dropped_chunks, (double)reader_ns(reader, d->complete_from) / 1e9);
  print_damage(d->damaged_chunks, "chunk", "of the file", out);
  print_damage(d->missing_chunks, "chunk", "missing", out);
  print_damage(d->bad_records, "record", "unreadable", out);
  if (d->truncated_bytes == RECORD_INCOMPLETE)
    fprintf(out, "  damaged    the file is truncated: what wrote it did not finish\n");
  else if (d->truncated_bytes)
    fprintf(out, "  damaged    the file is truncated: its last %" PRIu64 " bytes are missing\n",
            d->truncated_bytes);
  if (d->skipped_bytes)
    fprintf(out, "  damaged    %" PRIu64 " bytes are not chunks, the first at offset %" PRIu64 "\n",
            d->skipped_bytes, d->first_skipped_at);
}

/* After exec: which of the process's programs this is. */
static void print_program(const report_t *r, FILE *out) {
  const reader_t *reader = r->reader;
  uint32_t program = reader_program(reader), programs = reader_programs(reader);
  char which[64] = "the last one";
  if (programs < 2) return;
  if (program != programs) snprintf(which, sizeof which, "number %" PRIu32, program);
  wrap_format(out, (wrap_t){.indent = 13, .columns = r->columns},
              "  note       the process ran %" PRIu32 " programs (exec); this is %s%s\n", programs,
              which,
              program != programs || is_summary(reader) ? "" : "; '--program 1' reports the first");
}

static void print_argument(const char *text, FILE *out) {
  enum { SHOWN_MAX = 80 };
  char bytes[SHOWN_MAX + 1], escaped[SHORT_NAME_SIZE(2 * SHOWN_MAX)];
  snprintf(bytes, sizeof bytes, "%s", text);
  fputs(short_text(bytes, 0, escaped, sizeof escaped), out);
}

void report_command_text(const report_t *r, FILE *out) {
  const reader_t *reader = r->reader;
  const char *argument;
  for (uint32_t i = 1; (argument = reader_argument(reader, i)) && i < 12; i++) {
    if (i > 1) fputc(' ', out);
    print_argument(argument, out);
  }
  fputc('\n', out);
}

void report_program_text(const report_t *r, FILE *out) {
  fprintf(out, "\n  program %-3" PRIu32 "", reader_program(r->reader));
  report_command_text(r, out);
  print_missing(r->reader, out);
  seccomp_text(r->reader, out);
}

void report_head_text(const report_t *r, FILE *out) {
  const record_header_t *h = reader_header(r->reader);
  fprintf(out, "%s%s%s\n", r->bold, r->path, r->plain);
  fprintf(out, "  program    ");
  report_command_text(r, out);
  double seconds = (double)(h->end_monotonic_ns - h->start_monotonic_ns) / 1e9;
  fprintf(out, "  process    %" PRIu32 ", %.3f s%s, ", h->pid, seconds,
          h->state == RECORD_FINISHED || reader_recorder_loss(r->reader) ? "" : " so far");
  print_end(r->reader, out);
  uint64_t threads = cpu_time_threads(r->cpu_time, r->reader);
  if (threads) fprintf(out, "; %" PRIu64 " thread%s", threads, threads == 1 ? "" : "s");
  fputc('\n', out);
  print_missing(r->reader, out);
  seccomp_text(r->reader, out);
  print_program(r, out);
}

static json_object *missing_json(const reader_t *reader) {
  const record_header_t *h = reader_header(reader);
  const reader_damage_t *d = reader_damage(reader);
  json_object *o = json_new_object();
  reader_loss_t loss = reader_recorder_loss(reader);
  if (loss) json_add_flag(o, "recorder", true);
  if (loss == READER_LOST_NEWEST) json_add_flag(o, "newest_events", true);
  if (h->stop_reason && h->stop_reason != RECORD_STOP_RECORDER)
    json_add_text(o, "stopped", record_stop_text(h->stop_reason));
  json_add_number(o, "gaps", h->gaps);
  if (h->gaps) {
    json_add_number(o, "gaps_ns", (int64_t)h->gaps_ns);
    json_add_text(o, "gap_reason", record_stop_text(h->gap_reason));
  }
  json_add_number(o, "events", (int64_t)h->lost_events);
  json_add_number(o, "stacks", (int64_t)h->lost_stacks);
  json_add_number(o, "definitions", (int64_t)(h->lost_definitions + d->missing_definitions));
  json_add_number(o, "chunks", (int64_t)d->missing_chunks);
  json_add_number(o, "dropped_chunks", (int64_t)d->dropped_chunks);
  json_add_number(o, "damaged_chunks", (int64_t)d->damaged_chunks);
  json_add_number(o, "damaged_records", (int64_t)d->bad_records);
  json_add_number(o, "skipped_bytes", (int64_t)d->skipped_bytes);
  if (d->truncated_bytes) json_add_flag(o, "truncated", true);
  return o;
}

static void add_missing(const reader_t *reader, json_object *o) {
  const reader_damage_t *d = reader_damage(reader);
  if (d->dropped_chunks) json_add_count(o, "complete_from_ns", reader_ns(reader, d->complete_from));
  json_add(o, "missing", missing_json(reader));
}

void report_command_json(const report_t *r, json_object *o) {
  const reader_t *reader = r->reader;
  json_object *arguments = json_new_array();
  const char *argument;
  for (uint32_t i = 1; (argument = reader_argument(reader, i)); i++)
    json_append(arguments, json_new_text(argument));
  if ((argument = reader_argument(reader, 0))) json_add_text(o, "exe", argument);
  json_add(o, "arguments", arguments);
}

void report_program_json(const report_t *r, json_object *o) {
  report_command_json(r, o);
  add_missing(r->reader, o);
  seccomp_json(r->reader, o);
}

void report_head_json(const report_t *r, json_object *o) {
  const record_header_t *h = reader_header(r->reader);
  json_add_number(o, "pid", h->pid);
  report_command_json(r, o);
  json_add_flag(o, "finished", h->state == RECORD_FINISHED);
  if (h->state == RECORD_FINISHED && RECORD_STATUS_IS_KNOWN(h->exit_status))
    json_add_number(o, "wait_status", h->exit_status);
  if (h->mode & RECORD_FROM_OUTSIDE) json_add_flag(o, "from_outside", true);
  json_add_number(o, "threads", (int64_t)cpu_time_threads(r->cpu_time, r->reader));
  json_add_number(o, "duration_ns", (int64_t)(h->end_monotonic_ns - h->start_monotonic_ns));
  if (reader_programs(r->reader) > 1) {
    json_add_number(o, "program", reader_program(r->reader));
    json_add_number(o, "programs", reader_programs(r->reader));
  }
  add_missing(r->reader, o);
  seccomp_json(r->reader, o);
}
