/* SPDX-License-Identifier: MIT */
#include "cli/common/audit_recording.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/common/recording.h"
#include "report/json.h"
#include "reader/merge.h"

static bool read_calls(audit_recording_t *r) {
  merge_t *merge = merge_open(r->report.reader);
  const record_event_t *e;
  bool good = merge != NULL;
  while (good && (e = merge_next(merge)))
    good = audit_add(r->audit, e);
  merge_close(merge);
  return good;
}

static bool read_all(audit_recording_t *r) {
  r->audit = audit_new(r->report.reader);
  r->report.names = frame_names_new(r->report.reader, r->report.naming);
  return r->audit && r->report.names && read_calls(r) &&
         audited_open(&r->audited, &r->report, r->audit) == 0 &&
         findings_make(&r->findings, &r->audited, false) == 0;
}

bool audit_recording_open(audit_recording_t *r, const char *path,
                          const frame_names_options_t *naming, uint32_t program) {
  *r = (audit_recording_t){.report = {.path = path, .program = program, .naming = naming}};
  if (!recording_open_report(&r->report)) return false;
  if (!read_all(r)) {
    (void)message_fail("out of memory");
    return false;
  }
  if (r->audited.left_out) {
    (void)message_fail(
        "'%s': the process ran %u programs (exec), too many to compare; 'sonde report --program "
        "N' reports one",
        path, reader_programs(r->report.reader));
    return false;
  }
  if (audited_policy(&r->audited)) return true;
  (void)message_fail("'%s' has no audit; record with 'sonde record --audit'", path);
  return false;
}

void audit_recording_close(audit_recording_t *r) {
  findings_free(&r->findings);
  audited_close(&r->audited);
  audit_free(r->audit);
  frame_names_free(r->report.names);
  reader_close(r->report.reader);
}

bool audit_recording_has_format(const char *format) {
  return !strcmp(format, "sarif") || !strcmp(format, "csv") || !strcmp(format, "xcprivacy");
}

static int write_sarif(const audit_recording_t *r, const baseline_t *baseline, FILE *out) {
  json_object *sarif = sarif_json(&r->findings, baseline);
  if (!sarif) return message_fail("out of memory");
  fprintf(out, "%s\n", json_print(sarif, JSON_STYLE));
  json_object_put(sarif);
  return CLI_DONE;
}

static int write_as(const audit_recording_t *r, const char *format, const baseline_t *baseline,
                    FILE *out) {
  if (!strcmp(format, "sarif")) return write_sarif(r, baseline, out);
  if (!strcmp(format, "csv"))
    findings_csv(&r->findings, out);
  else
    findings_xcprivacy(&r->findings, out);
  return CLI_DONE;
}

int audit_recording_export(const char *path, const frame_names_options_t *naming, uint32_t program,
                           const char *format, const char *baseline, FILE *out) {
  audit_recording_t r;
  baseline_t known = {0};
  char error[256];
  if (baseline && !baseline_read(&known, baseline, error, sizeof error))
    return message_fail("%s", error);
  int status = CLI_FAILED;
  if (audit_recording_open(&r, path, naming, program))
    status = write_as(&r, format, baseline ? &known : NULL, out);
  audit_recording_close(&r);
  baseline_free(&known);
  return status;
}

/* Reads a baseline from a baseline file or from a recording. */
static bool read_known(const char *path, const frame_names_options_t *naming, baseline_t *out) {
  char error[256], magic[1] = "";
  FILE *file = fopen(path, "rbe");
  if (!file) {
    (void)message_fail("cannot read '%s': %s", path, strerror(errno));
    return false;
  }
  bool is_json = fread(magic, 1, 1, file) == 1 && *magic == '{';
  fclose(file);
  if (is_json) {
    if (baseline_read(out, path, error, sizeof error)) return true;
    (void)message_fail("%s", error);
    return false;
  }
  audit_recording_t r;
  bool good = audit_recording_open(&r, path, naming, 0) && baseline_of(out, &r.findings);
  audit_recording_close(&r);
  return good;
}

static void print_row(const finding_row_t *row) {
  printf("new  %s  %s(%s)  %s%s%s", row->category->id, finding_function(row), row->arguments,
         terminal_style(stdout, TERMINAL_BOLD), row->owner, terminal_style(stdout, TERMINAL_PLAIN));
  if (row->site) printf(", %s", row->site->function);
  printf("\n");
}

static json_object *row_json(const finding_row_t *row) {
  char fingerprint[17];
  json_object *o = json_new_object();
  snprintf(fingerprint, sizeof fingerprint, "%016" PRIx64, row->fingerprint);
  finding_add_json(row, o);
  if (row->site) json_add_text(o, "site", row->site->function);
  json_add_text(o, "fingerprint", fingerprint);
  return o;
}

/* The rows that are new: one a fingerprint, whatever the number of its stacks. Allocated; NULL: out
 * of memory. */
static const finding_row_t **find_new(const findings_t *f, const baseline_t *known, size_t *count) {
  const finding_row_t **rows = calloc(f->count + 1, sizeof *rows);
  *count = 0;
  for (size_t i = 0; rows && i < f->count; i++) {
    const finding_row_t *row = &f->rows[i];
    bool is_new = !row->allowed && !baseline_has(known, row->fingerprint);
    for (size_t k = 0; is_new && k < *count; k++)
      is_new = rows[k]->fingerprint != row->fingerprint;
    if (is_new) rows[(*count)++] = row;
  }
  return rows;
}

static void print_text(const finding_row_t **rows, size_t count, size_t most) {
  static const report_t style = {0};
  for (size_t i = 0; i < count && i < most; i++)
    print_row(rows[i]);
  if (count > most) report_more(&style, count - most, "new findings", stdout);
}

static void print_json(const finding_row_t **rows, size_t count, size_t most) {
  json_object *o = json_new_object(), *list = json_new_array();
  for (size_t i = 0; i < count && i < most; i++)
    json_append(list, row_json(rows[i]));
  json_add_text(o, "by", "audit");
  json_add_count(o, "new_findings", count);
  json_add(o, "findings", list);
  printf("%s\n", json_print(o, JSON_STYLE));
  json_object_put(o);
}

static int compare(const findings_t *f, const baseline_t *known, size_t most, bool json) {
  size_t count;
  const finding_row_t **rows = find_new(f, known, &count);
  if (!rows) return message_fail("out of memory");
  (json ? print_json : print_text)(rows, count, most);
  free(rows);
  return count ? CLI_FINDING : CLI_DONE;
}

int audit_recording_compare(const char *old, const char *new, const frame_names_options_t *naming,
                            size_t most, bool json) {
  audit_recording_t r;
  baseline_t known = {0};
  int status = CLI_FAILED;
  if (!read_known(old, naming, &known)) return CLI_FAILED;
  if (audit_recording_open(&r, new, naming, 0)) status = compare(&r.findings, &known, most, json);
  audit_recording_close(&r);
  baseline_free(&known);
  return status;
}
