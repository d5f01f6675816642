/* SPDX-License-Identifier: MIT
 *
 * Defaults and limits of `sonde record`, as the user types them.
 */
#ifndef SONDE_RECORDER_DEFAULTS_H
#define SONDE_RECORDER_DEFAULTS_H

#include "sensor/sensor_table.h"

/* --sample and --wall, in Hz. */
#define DEFAULT_SAMPLE_HZ SENSOR_DEFAULT_HZ
#define SAMPLE_HZ_MAX     1000

/* Mean bytes between two sampled allocations, when no sensor is named; in KB of 1,024 bytes. */
#define DEFAULT_SAMPLE_KB    512
#define DEFAULT_SAMPLE_BYTES (DEFAULT_SAMPLE_KB * 1024u)

/* --stall: the threshold in milliseconds. */
#define DEFAULT_STALL_MS SENSOR_DEFAULT_STALL_MS
#define STALL_MS_MIN     50
#define STALL_MS_MAX     3600000

/* --budget, in percent of one CPU, if no sensor is named. */
#define DEFAULT_BUDGET_PERCENT 1

/* --cpu: percent of one CPU, and seconds. */
#define DEFAULT_CPU_PERCENT 80
#define DEFAULT_CPU_SECONDS 60

/* The same in texts. */
#define DEFAULT_HZ_TEXT     SENSOR_STRING(DEFAULT_SAMPLE_HZ)
#define DEFAULT_BUDGET_TEXT SENSOR_STRING(DEFAULT_BUDGET_PERCENT)
#define DEFAULT_CPU_TEXT    SENSOR_STRING(DEFAULT_CPU_PERCENT) "," SENSOR_STRING(DEFAULT_CPU_SECONDS)
#define DEFAULT_BLOCKS_TEXT "sample:" SENSOR_STRING(DEFAULT_SAMPLE_KB) "K"

#endif
