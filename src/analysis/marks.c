/* SPDX-License-Identifier: MIT */
#include "analysis/marks.h"

#include <string.h>

#include "sonde/status.h"

int mark_find(reader_t *reader, const char *name, uint64_t *ns) {
  merge_t *merge = merge_open(reader);
  const record_event_t *e;
  size_t wanted = strlen(name);
  int status = merge ? SONDE_ENOTFOUND : SONDE_ENOMEM;
  while (merge && status != 0 && (e = merge_next(merge))) {
    const char *found;
    if (e->kind != EVENT_EXTENDED || e->subtype != EXTENDED_MARK) continue;
    if (record_name(e, &found) != wanted || memcmp(found, name, wanted)) continue;
    *ns = reader_ns(reader, e->time);
    status = 0;
  }
  merge_close(merge);
  return status;
}
