/* SPDX-License-Identifier: MIT
 *
 * Writes the findings of an audit as CSV (RFC 4180), a line each.
 */
#include <inttypes.h>
#include <time.h>

#include "report/exports/audit_exports.h"
#include "report/exports/csv.h"

static void put_field(FILE *out, const char *text) {
  csv_put_field(out, text);
  fputc(',', out);
}

static void put_day(FILE *out, time_t expires) {
  char day[32] = "";
  struct tm tm;
  time_t last = expires - 1;
  if (expires && gmtime_r(&last, &tm)) strftime(day, sizeof day, "%Y-%m-%d", &tm);
  put_field(out, day);
}

void findings_csv(const findings_t *f, FILE *out) {
  fputs(
      "category,title,level,function,arguments,owner,library,caller,file,line,calls,first_seconds,"
      "last_seconds,allowed,expires,program,fingerprint\r\n",
      out);
  for (size_t i = 0; i < f->count; i++) {
    const finding_row_t *row = &f->rows[i];
    const audit_entry_t *s = row->sighting;
    const reader_t *reader = row->by->report.reader;
    const char *program = reader_argument(reader, 0);
    put_field(out, row->category->id);
    put_field(out, row->category->title);
    put_field(out, policy_level_word(row->category->level));
    put_field(out, finding_function(row));
    put_field(out, row->arguments);
    put_field(out, row->owner);
    put_field(out, row->site ? row->site->library : "");
    put_field(out, row->site ? row->site->function : "");
    put_field(out, row->site && row->site->file ? row->site->file : "");
    fprintf(out, "%" PRIu32 ",%" PRIu64 ",%.3f,%.3f,", row->site ? row->site->line : 0, s->count,
            (double)reader_ns(reader, s->first) / 1e9, (double)reader_ns(reader, s->last) / 1e9);
    put_field(out, row->allowed ? row->allowed->reason : "");
    put_day(out, row->allowed ? row->allowed->expires : 0);
    put_field(out, program ? program : "");
    fprintf(out, "%016" PRIx64 "\r\n", row->fingerprint);
  }
}
