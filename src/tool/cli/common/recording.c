/* SPDX-License-Identifier: MIT */
#include "cli/common/recording.h"

#include <sys/stat.h>

#include "analysis/summary/summary.h"
#include "cli/cli.h"

reader_t *recording_open_program(const char *path, uint32_t program) {
  reader_t *reader;
  char error[256] = "";
  if (reader_open_program(&reader, path, program, error, sizeof error) < 0) {
    (void)message_fail("'%s': %s", path, error);
    return NULL;
  }
  if (reader_recorder_loss(reader))
    message_note("'%s' is incomplete: its recorder was killed before the program ended", path);
  return reader;
}

bool recording_is_output(const char *path, const char *output) {
  struct stat recording, file;
  if (!output || stat(path, &recording) < 0 || stat(output, &file) < 0) return false;
  if (recording.st_dev != file.st_dev || recording.st_ino != file.st_ino) return false;
  message_fail("'%s' is the recording, which -o would replace; name another file", output);
  return true;
}

reader_t *recording_open(const char *path) { return recording_open_program(path, 0); }

bool recording_program(const char *text, uint32_t *out) {
  long number;
  if (!parse_number(text, 1, UINT16_MAX, &number)) return false;
  *out = (uint32_t)number;
  return true;
}

reader_t *recording_open_events(const char *path, uint32_t program) {
  reader_t *reader = recording_open_program(path, program);
  if (!reader || !is_summary(reader)) return reader;
  reader_close(reader);
  (void)message_fail("'%s' is a summary, which has no events", path);
  return NULL;
}

void recording_close(reader_t *reader, const char *path) {
  const reader_damage_t *d = reader ? reader_damage(reader) : NULL;
  if (d && (d->damaged_chunks || d->missing_chunks || d->skipped_bytes || d->bad_records ||
            d->truncated_bytes))
    message_note("'%s' is damaged: events are missing; 'sonde report' counts what was read", path);
  reader_close(reader);
}

bool recording_open_report(report_t *r) {
  r->reader = recording_open_program(r->path, r->program);
  r->bold = terminal_style(stdout, TERMINAL_BOLD);
  r->dim = terminal_style(stdout, TERMINAL_DIM);
  r->plain = terminal_style(stdout, TERMINAL_PLAIN);
  r->columns = r->full_names ? 0 : terminal_columns(stdout);
  return r->reader != NULL;
}
