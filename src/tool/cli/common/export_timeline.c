/* SPDX-License-Identifier: MIT */
#include "cli/common/export_timeline.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/common/timeline.h"
#include "report/exports/page/callgrind.h"
#include "report/exports/page/firefox.h"
#include "report/exports/page/heaptrack.h"
#include "report/exports/page/massif.h"
#include "report/exports/page/speedscope.h"
#include "sonde/status.h"

enum {
#define FORMAT_ENUM(key, word, binary) FORMAT_##key,
  EXPORT_TIMELINE_FORMATS(FORMAT_ENUM)
#undef FORMAT_ENUM
      FORMATS
};

static const struct {
  const char *word;
  bool is_binary;
} formats[FORMATS] = {
#define FORMAT_ENTRY(key, word, binary) {word, binary},
    EXPORT_TIMELINE_FORMATS(FORMAT_ENTRY)
#undef FORMAT_ENTRY
};

/* FORMATS: none. */
static int number_of(const char *word) {
  int i = 0;
  while (i < FORMATS && strcmp(word, formats[i].word) != 0)
    i++;
  return i;
}

const char *export_timeline_format(const char *word) {
  int number = number_of(word);
  return number < FORMATS ? formats[number].word : NULL;
}

portions_t export_sample_times(uint64_t sampled_ns, uint64_t samples) {
  return (portions_t){.amount = sampled_ns ? sampled_ns : samples * 10000000, .counts = samples};
}

static portions_t sample_times(const timeline_t *t) {
  const cpu_times_t sum = cpu_time_sum(&t->sections.cpu_time);
  uint64_t samples = 0;
  for (size_t i = 0; i < t->events.samples.count; i++)
    samples += t->events.samples.items[i].count;
  return export_sample_times(sum.sampled_ns, samples);
}

static int write_format(timeline_t *t, const page_source_t *source, int format, FILE *out) {
  if (format == FORMAT_FIREFOX) return firefox_write(source, sample_times(t), out);
  return format == FORMAT_SPEEDSCOPE ? speedscope_write(source, sample_times(t), out)
                                     : callgrind_write(source, sample_times(t), out);
}

/* A format of allocations alone, with a pass of its own. */
static int export_allocations(report_t *report, int format, FILE *out) {
  report->names = frame_names_new(report->reader, report->naming);
  int status = !report->names            ? SONDE_ENOMEM
               : format == FORMAT_MASSIF ? massif_write(report, out)
                                         : heaptrack_write(report, out);
  frame_names_free(report->names);
  return status < 0 ? message_fail("out of memory") : CLI_DONE;
}

int export_timeline(report_t *report, const char *format, FILE *out) {
  int number = number_of(format);
  if (formats[number].is_binary && isatty(fileno(out)))
    return message_fail("this format is binary; write it to a file with -o");
  if (number == FORMAT_HEAPTRACK || number == FORMAT_MASSIF)
    return export_allocations(report, number, out);
  timeline_t *timeline = calloc(1, sizeof *timeline);
  page_source_t source;
  if (!timeline) return message_fail("out of memory");
  int status = timeline_run(timeline, report, &source);
  if (status == 0) status = write_format(timeline, &source, number, out);
  timeline_free(timeline);
  free(timeline);
  return status < 0 ? message_fail("out of memory") : CLI_DONE;
}
