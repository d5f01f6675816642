/* SPDX-License-Identifier: MIT
 *
 * The labels of a program's profiles: those that follow from the recording, those that the
 * program publishes, and those of the user. Of equal names the last of this order counts.
 */
#ifndef SONDE_STORE_PUSH_LABELS_H
#define SONDE_STORE_PUSH_LABELS_H

#include "reader/reader.h"
#include "report/exports/profile/otlp.h"
#include "store/push/target.h"

typedef struct labels {
  pool_t pool;
  ARRAY(otlp_attribute_t) list; /* of different names, in the order of these */
} labels_t;

/* The attributes of an OTLP resource. False: out of memory. */
bool labels_of_resource(labels_t *out, const push_target_t *target, const reader_t *reader);

/* The labels of a series, by Prometheus' rules of names: `name` is the label __name__; other
 * characters than letters, digits and '_' become '_'. False: out of memory. */
bool labels_of_series(labels_t *out, const push_target_t *target, const reader_t *reader,
                      const char *name);

void labels_free(labels_t *labels);

#endif
