/* SPDX-License-Identifier: MIT
 *
 * Writes a recording as a pprof profile (profile.proto, gzipped), for pprof, Go's tools, Grafana
 * and others.
 */
#ifndef SONDE_REPORT_EXPORTS_PPROF_H
#define SONDE_REPORT_EXPORTS_PPROF_H

#include <stdio.h>

#include "analysis/malloc/replay.h"
#include "analysis/samples.h"
#include "report/frame_names.h"

/* Writes the allocations of REPLAY, or SAMPLES if CPU. Allocations have six values: objects and
 * bytes allocated, in use at the end, and in use at the peak. Returns 0, SONDE_ENOMEM, or SONDE_EIO
 * with errno. */
int pprof_write(reader_t *reader, frame_names_t *names, const replay_t *replay,
                const samples_t *samples, bool cpu, FILE *out);

#endif
