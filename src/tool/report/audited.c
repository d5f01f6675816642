/* SPDX-License-Identifier: MIT */
#include "report/audited.h"

#include <stdlib.h>

#include "sonde/status.h"
#include "reader/merge.h"

static bool in_window(const report_t *r, const record_event_t *e) {
  if (!r->window) return true;
  uint64_t ns = reader_ns(r->reader, e->time);
  return ns >= r->window->from_ns && (!r->window->to_ns || ns <= r->window->to_ns);
}

static bool read_calls(audited_program_t *p) {
  merge_t *merge = merge_open(p->report.reader);
  const record_event_t *e;
  bool good = merge != NULL;
  while (good && (e = merge_next(merge)))
    good = !in_window(&p->report, e) || audit_add(p->audit, e);
  merge_close(merge);
  return good;
}

static void close_program(audited_program_t *p) {
  audit_free(p->audit);
  frame_names_free(p->report.names);
  reader_close(p->report.reader);
}

/* Opens program NUMBER of REPORT's recording. */
static int open_program(audited_program_t *p, const report_t *report, uint32_t number) {
  char error[256];
  *p = (audited_program_t){.report = *report};
  p->report.names = NULL;
  p->report.reader = NULL;
  int status = reader_open_program(&p->report.reader, report->path, number, error, sizeof error);
  if (status < 0) return status;
  p->audit = audit_new(p->report.reader);
  p->report.names = frame_names_new(p->report.reader, report->naming);
  bool audited =
      reader_header(p->report.reader)->mode & RECORD_AUDIT || (p->audit && p->audit->policy);
  if (p->audit && p->report.names && (!audited || read_calls(p))) return 0;
  close_program(p);
  return SONDE_ENOMEM;
}

/* Adds program NUMBER, unless it recorded nothing or no audit. */
static int add_program(audited_t *out, const report_t *report, uint32_t number) {
  audited_program_t *p = &out->programs[out->count];
  int status = open_program(p, report, number);
  if (status == SONDE_ENOTFOUND) return 0;
  if (status < 0) return status;
  if (audit_has_data(p->audit))
    out->count++;
  else
    close_program(p);
  return 0;
}

/* The tracer records its end once, in the last program: earlier programs are complete if a later
 * one was traced. */
static void end_coverages(audited_t *all) {
  for (size_t i = 0; i + 1 < all->count; i++)
    all->programs[i].audit->coverage.ended |= all->programs[i + 1].audit->coverage.recorded;
}

int audited_open(audited_t *out, const report_t *report, audit_t *audit) {
  uint32_t last = reader_program(report->reader), first = report->program ? last : 1;
  *out = (audited_t){0};
  if (last >= first + AUDITED_MAX) first = last - AUDITED_MAX + 1;
  if (!report->program) out->left_out = first - 1;
  out->programs = calloc(last - first + 2, sizeof *out->programs);
  int status = out->programs ? 0 : SONDE_ENOMEM;
  for (uint32_t number = first; status == 0 && number < last; number++)
    status = add_program(out, report, number);
  if (out->programs)
    out->programs[out->count++] = (audited_program_t){.report = *report, .audit = audit};
  end_coverages(out);
  return status;
}

void audited_close(audited_t *audited) {
  for (size_t i = 0; i + 1 < audited->count; i++)
    close_program(&audited->programs[i]);
  free(audited->programs);
  *audited = (audited_t){0};
}

bool audited_has_data(const audited_t *audited) {
  for (size_t i = 0; i < audited->count; i++)
    if (audit_has_data(audited->programs[i].audit)) return true;
  return false;
}

const policy_t *audited_policy(const audited_t *audited) {
  for (size_t i = audited->count; i-- > 0;)
    if (audited->programs[i].audit->policy) return audited->programs[i].audit->policy;
  return NULL;
}

uint64_t audited_calls(const audited_t *audited) {
  uint64_t calls = 0;
  for (size_t i = 0; i < audited->count; i++)
    calls += audited->programs[i].audit->calls;
  return calls;
}
