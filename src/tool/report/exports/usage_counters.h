/* SPDX-License-Identifier: MIT
 *
 * The resources of the process that exports with counters show: Firefox Profiler and Chrome traces.
 */
#ifndef SONDE_REPORT_EXPORTS_USAGE_COUNTERS_H
#define SONDE_REPORT_EXPORTS_USAGE_COUNTERS_H

#include "analysis/usage.h"

typedef struct usage_counter {
  usage_field_t field;
  const char *name, *unit;
  const char *description;
} usage_counter_t;

static const usage_counter_t usage_counters[] = {
    {USAGE_RSS, "resident memory", "bytes", "Resident memory of the process"},
    {USAGE_SWAP, "swap", "bytes", "Memory of the process that is swapped out"},
    {USAGE_MINOR_FAULTS, "minor faults", "faults", "Page faults that read nothing from a disk"},
    {USAGE_MAJOR_FAULTS, "major faults", "faults", "Page faults that read from a disk"},
    {USAGE_DESCRIPTORS, "open descriptors", "descriptors", "Open file descriptors"},
};
enum { USAGE_COUNTERS = sizeof usage_counters / sizeof *usage_counters };

#endif
