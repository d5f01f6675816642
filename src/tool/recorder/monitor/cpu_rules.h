/* SPDX-License-Identifier: MIT
 *
 * When a thread or a process uses the CPU for too long: a pure function of readings, after the rule
 * of Tencent's Matrix.
 *
 * Watching begins with a reading above the limit. From then on the time used is weighed against the
 * limit: below half of it the episode is dropped; after the set time it is reported when it is
 * above the limit on the whole; then nothing is reported for as long again. A gap between two
 * readings, in which nobody knows what happened, ends an episode.
 */
#ifndef SONDE_RECORDER_MONITOR_CPU_RULES_H
#define SONDE_RECORDER_MONITOR_CPU_RULES_H

#include <stdbool.h>
#include <stdint.h>

typedef struct cpu_rules {
  double limit;        /* CPUs: 0.8 is 80 % of one */
  uint64_t seconds_ns; /* for so long */
} cpu_rules_t;

#define CPU_GAP_NS UINT64_C(5000000000)

/* Begins as zeros. */
typedef struct cpu_track {
  bool read, tracked;
  uint64_t last_ns, last_cpu_ns;
  uint64_t since_ns, since_cpu_ns; /* where the episode began */
  uint64_t quiet_until_ns;
} cpu_track_t;

/* An episode to report. */
typedef struct cpu_episode {
  uint64_t from_ns, to_ns, cpu_ns;
} cpu_episode_t;

/* A reading: CPU_NS used in all by NOW_NS. True when *OUT is to be reported. */
bool cpu_track_read(cpu_track_t *track, const cpu_rules_t *rules, uint64_t now_ns, uint64_t cpu_ns,
                    cpu_episode_t *out);

#endif
