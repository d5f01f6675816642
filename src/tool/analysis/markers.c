/* SPDX-License-Identifier: MIT */
#include "analysis/markers.h"

#include <string.h>

#include "sonde/status.h"
#include "reader/body.h"
#include "reader/merge.h"

bool marker_is(const record_event_t *e, const char *name) {
  const char *found;
  if (e->kind != EVENT_EXTENDED || e->subtype != EXTENDED_MARKER) return false;
  size_t size = body_text(e, &found);
  return size == strlen(name) && !memcmp(found, name, size);
}

int marker_find(reader_t *reader, const char *name, uint64_t *ns) {
  merge_t *merge = merge_open(reader);
  const record_event_t *e;
  int status = merge ? SONDE_ENOTFOUND : SONDE_ENOMEM;
  while (merge && status != 0 && (e = merge_next(merge))) {
    if (!marker_is(e, name)) continue;
    *ns = reader_ns(reader, e->time);
    status = 0;
  }
  merge_close(merge);
  return status;
}
