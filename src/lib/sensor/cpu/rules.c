/* SPDX-License-Identifier: MIT */
#include "sensor/cpu/rules.h"

/* Whether CPU_NS is more than the limit, divided by PARTS, of TIME_NS. */
static bool exceeds(const cpu_rules_t *rules, uint64_t parts, uint64_t cpu_ns, uint64_t time_ns) {
  unsigned __int128 allowed = (unsigned __int128)rules->limit_permille * time_ns;
  return (unsigned __int128)cpu_ns * 1000 * parts > allowed;
}

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
    bool is_above = exceeds(rules, 1, cpu_ns - t->last_cpu_ns, passed);
    if (!t->tracked && is_above && now_ns >= t->quiet_until_ns) begin_here(t);
    if (t->tracked) {
      uint64_t time_ns = now_ns - t->since_ns, cost_ns = cpu_ns - t->since_cpu_ns;
      if (!exceeds(rules, 2, cost_ns, time_ns)) {
        t->tracked = false;
      } else if (time_ns >= rules->seconds_ns) {
        due = exceeds(rules, 1, cost_ns, time_ns);
        *out = (cpu_episode_t){t->since_ns, now_ns, cost_ns};
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
