/* SPDX-License-Identifier: MIT
 *
 * Defaults and limits of `sonde record`, as the user types them.
 */
#ifndef SONDE_RECORDER_DEFAULTS_H
#define SONDE_RECORDER_DEFAULTS_H

/* --sample and --wall, in Hz. 99 does not divide the periods that programs use for their timers. */
#define DEFAULT_SAMPLE_HZ 99
#define SAMPLE_HZ_MAX     1000

/* Mean bytes between two sampled allocations, when no sensor is named. */
#define DEFAULT_SAMPLE_BYTES (512u << 10)

/* --stall: the threshold in milliseconds. */
#define DEFAULT_STALL_MS 250
#define STALL_MS_MIN     50
#define STALL_MS_MAX     3600000

/* --cpu: percent of one CPU, and seconds. */
#define DEFAULT_CPU_PERCENT 80
#define DEFAULT_CPU_SECONDS 60

#endif
