/* SPDX-License-Identifier: MIT
 *
 * A profile of pprof (profile.proto, gzipped), for pprof, Go's tools, Grafana and others.
 */
#ifndef SONDE_REPORT_EXPORTS_PROFILE_PPROF_H
#define SONDE_REPORT_EXPORTS_PROFILE_PPROF_H

#include "report/exports/profile/rows.h"
#include "report/frame_names.h"

/* The rows FROM to TO, exclusive, as a gzipped profile of *SIZE bytes, which the caller frees.
 * NULL: out of memory. */
uint8_t *pprof_bytes(const reader_t *reader, frame_names_t *names, const profile_rows_t *rows,
                     size_t from, size_t to, size_t *size);

#endif
