/* SPDX-License-Identifier: MIT */
#include "recorder/monitor/cpu_rules.h"

static void begin_here(cpu_track_t *t) {
  t->tracked = true;
  t->since_ns = t->last_ns;
  t->since_cpu_ns = t->last_cpu_ns;
}

bool cpu_track_read(cpu_track_t *t, const cpu_rules_t *rules, uint64_t now_ns, uint64_t cpu_ns,
                    cpu_episode_t *out) {
  bool first = !t->read, due = false;
  uint64_t passed = now_ns - t->last_ns;
  if (first || passed > CPU_GAP_NS || cpu_ns < t->last_cpu_ns) {
    t->tracked = false;
  } else if (passed) {
    double used = (double)(cpu_ns - t->last_cpu_ns) / (double)passed;
    if (!t->tracked && used > rules->limit && now_ns >= t->quiet_until_ns) begin_here(t);
    if (t->tracked) {
      double time = (double)(now_ns - t->since_ns), cost = (double)(cpu_ns - t->since_cpu_ns);
      if (cost < rules->limit * time / 2) {
        t->tracked = false;
      } else if (now_ns - t->since_ns >= rules->seconds_ns) {
        due = cost > rules->limit * time;
        *out = (cpu_episode_t){t->since_ns, now_ns, cpu_ns - t->since_cpu_ns};
        t->tracked = false;
        if (due) t->quiet_until_ns = now_ns + rules->seconds_ns;
      }
    }
  }
  t->read = true;
  t->last_ns = now_ns;
  t->last_cpu_ns = cpu_ns;
  return due;
}
