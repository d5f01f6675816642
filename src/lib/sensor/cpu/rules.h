/* SPDX-License-Identifier: MIT
 *
 * Decides when a thread or a process uses too much CPU: a pure function of the readings, after the
 * rule of Tencent's Matrix.
 *
 * An episode begins with a reading above the limit. The episode is dropped when its mean use falls
 * below half of the limit. After the set time the episode is reported if its mean use is above the
 * limit. For the same time after a report, no other episode is reported. A gap of CPU_GAP_NS
 * between two readings ends an episode.
 */
#ifndef SONDE_SENSOR_CPU_RULES_H
#define SONDE_SENSOR_CPU_RULES_H

#include <stdbool.h>
#include <stdint.h>

typedef struct cpu_rules {
  /* thousandths of a CPU: 800 is 80 % of one */
  uint32_t limit_permille;
  /* how long it must be exceeded */
  uint64_t seconds_ns;
} cpu_rules_t;

#define CPU_GAP_NS UINT64_C(5000000000)

/* Zeros at first. */
typedef struct cpu_track {
  bool read, tracked;
  uint64_t last_ns, last_cpu_ns;
  /* the start of the episode */
  uint64_t since_ns, since_cpu_ns;
  uint64_t quiet_until_ns;
} cpu_track_t;

/* An episode to report. */
typedef struct cpu_episode {
  uint64_t from_ns, to_ns, cpu_ns;
} cpu_episode_t;

/* Adds a reading: CPU_NS used in all until NOW_NS. True if the episode *OUT is to be reported. */
bool cpu_track_read(cpu_track_t *track, const cpu_rules_t *rules, uint64_t now_ns, uint64_t cpu_ns,
                    cpu_episode_t *out);

#endif
