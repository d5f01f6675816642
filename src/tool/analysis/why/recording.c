/* SPDX-License-Identifier: MIT
 *
 * Rules: data that the recording lacks, when a report of the rest would mislead.
 */
#include <stdio.h>

#include "analysis/why/rules.h"

static void add_lost(const char *what, double score, findings_list_t *out) {
  finding_t f = {.kind = WHY_LOST, .score = score};
  WHY_SAY(f.what, "%s", what);
  WHY_SAY(f.evidence, "the head of 'sonde report'");
  findings_list_add(out, &f);
}

void why_recording_rules(why_t *w, findings_list_t *out) {
  if (!w->reader) return;
  char text[200], a[WHY_AMOUNT_MAX];
  const record_header_t *h = reader_header(w->reader);
  const reader_damage_t *d = reader_damage(w->reader);
  if (reader_recorder_loss(w->reader))
    add_lost("The recorder was killed, so the end of the run is missing", 40, out);
  if (h->stop_reason && h->stop_reason != RECORD_STOP_RECORDER) {
    WHY_SAY(text, "Recording stopped early: %s", record_stop_text(h->stop_reason));
    add_lost(text, 38, out);
  } else if ((double)h->gaps_ns > WHY_LOST_SHARE * (double)w->duration_ns) {
    WHY_SAY(text, "The events of %s are missing: %s", why_seconds((double)h->gaps_ns, a),
            record_stop_text(h->gap_reason));
    add_lost(text, 36, out);
  }
  uint64_t events = w->replay ? w->replay->events : 0;
  if ((double)h->lost_events > WHY_LOST_SHARE * (double)(events + h->lost_events)) {
    WHY_SAY(text, "%llu events could not be written", (unsigned long long)h->lost_events);
    add_lost(text, 34, out);
  }
  if (d->truncated_bytes)
    add_lost("The file is truncated, so its newest events are missing", 39, out);
  else if (d->damaged_chunks || d->skipped_bytes)
    add_lost("The file is damaged, so a part of the events is missing", 39, out);
}
