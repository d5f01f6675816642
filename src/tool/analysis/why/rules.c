/* SPDX-License-Identifier: MIT */
#include "analysis/why/rules.h"

#include <stdio.h>

char *why_seconds(double ns, char out[WHY_AMOUNT_MAX]) {
  if (ns >= 1e9)
    snprintf(out, WHY_AMOUNT_MAX, "%.2f s", ns / 1e9);
  else if (ns >= 1e6)
    snprintf(out, WHY_AMOUNT_MAX, "%.0f ms", ns / 1e6);
  else
    snprintf(out, WHY_AMOUNT_MAX, "%.0f µs", ns / 1e3);
  return out;
}

char *why_bytes(double bytes, char out[WHY_AMOUNT_MAX]) {
  static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
  int unit = 0;
  while (bytes >= 1000 && unit < 4) {
    bytes /= 1000;
    unit++;
  }
  snprintf(out, WHY_AMOUNT_MAX, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
  return out;
}

void why_find(why_t *w, findings_list_t *out) {
  static why_rule_t *const rules[] = {
      why_crash_rules, why_lock_rules,    why_cpu_rules,      why_cost_rules,   why_disk_rules,
      why_stall_rules, why_memory_rules,  why_thread_rules,   why_wakeup_rules, why_resource_rules,
      why_call_rules,  why_blocked_rules, why_recording_rules};
  out->count = 0;
  w->failed |= !why_group_ticks(w);
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
    rules[i](w, out);
  findings_list_rank(out);
}
