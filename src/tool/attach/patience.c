/* SPDX-License-Identifier: MIT
 *
 * The kernel adds the time that a thread waits for a CPU to its schedstat only when it gets one. So
 * the time is found from the other side: a thread that is ready may use what CPU time it got.
 */
#include "attach/patience.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/proc_file.h"
#include "os/os.h"

/* In any case a limit ends after this many times itself. */
#define FACTOR_MAX 30u

/* CPU time of the thread; 0: unknown. */
static uint64_t cpu_of(const patience_t *p) {
  char name[64], text[128];
  uint64_t ns;
  snprintf(name, sizeof name, "task/%d/schedstat", (int)p->tid);
  bool known = proc_file_read(p->pid, name, text, sizeof text) > 0;
  return known && sscanf(text, "%" SCNu64, &ns) == 1 ? ns : 0;
}

static bool is_ready(const patience_t *p) {
  char name[64], text[512];
  snprintf(name, sizeof name, "task/%d/stat", (int)p->tid);
  if (proc_file_read(p->pid, name, text, sizeof text) <= 0) return false;
  const char *name_end = strrchr(text, ')');
  return name_end && strncmp(name_end, ") R", 3) == 0;
}

uint64_t patience_counted_ns(uint64_t passed_ns, uint64_t cpu_ns, bool ready) {
  if (passed_ns > PATIENCE_STEP_NS) passed_ns = PATIENCE_STEP_NS;
  return ready && cpu_ns < passed_ns ? cpu_ns : passed_ns;
}

patience_t patience_begin(pid_t pid, pid_t tid, uint64_t limit_ns) {
  uint64_t now_ns = os_monotonic_ns();
  patience_t p = {.pid = pid,
                  .tid = tid,
                  .left_ns = limit_ns,
                  .end_ns = now_ns + FACTOR_MAX * limit_ns,
                  .seen_ns = now_ns};
  p.cpu_ns = cpu_of(&p);
  return p;
}

bool patience_is_over(patience_t *p) {
  bool ready = is_ready(p);
  uint64_t now_ns = os_monotonic_ns(), cpu_ns = cpu_of(p);
  uint64_t used_ns = cpu_ns > p->cpu_ns ? cpu_ns - p->cpu_ns : 0;
  uint64_t counted_ns = patience_counted_ns(now_ns - p->seen_ns, used_ns, ready);
  p->seen_ns = now_ns;
  p->cpu_ns = cpu_ns;
  p->left_ns -= counted_ns < p->left_ns ? counted_ns : p->left_ns;
  return !p->left_ns || now_ns >= p->end_ns;
}
