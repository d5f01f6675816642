/* SPDX-License-Identifier: MIT
 *
 * attach-cycles PID OBJECT COUNT: attaches to PID and leaves it, COUNT times, and prints how long
 * the borrowed threads were stopped. Exits with 1 if a cycle fails.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/attach_block.h"
#include "attach/attach.h"

typedef struct figures {
  uint64_t *ns;
  size_t count;
} figures_t;

static int by_value(const void *a, const void *b) {
  const uint64_t *x = a, *y = b;
  return *x < *y ? -1 : *x > *y;
}

static void print(const char *name, figures_t *f) {
  if (!f->count) return;
  qsort(f->ns, f->count, sizeof *f->ns, by_value);
  printf("%s n %zu p50 %.0f p99 %.0f max %.0f us\n", name, f->count,
         (double)f->ns[f->count / 2] / 1e3, (double)f->ns[f->count * 99 / 100] / 1e3,
         (double)f->ns[f->count - 1] / 1e3);
}

static bool cycle(pid_t pid, const char *object, attach_pauses_t *pauses, bool *kept) {
  problem_t problem;
  attach_t *a = attach_open(pid, &problem);
  bool loaded = a && attach_load(a, object, NULL, &problem);
  bool ran = loaded && attach_run(a, ATTACH_START, "count", 5000, &problem) &&
             attach_run(a, ATTACH_STOP, NULL, 5000, &problem);
  if (!ran) printf("failed: %s\n", problem.text);
  *kept = loaded && !attach_unload(a, 3000, &problem);
  if (*kept) printf("kept: %s\n", problem.text);
  if (a) *pauses = attach_pauses(a);
  attach_close(a);
  return ran;
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  size_t count = (size_t)atoi(argv[3]), failed = 0, left = 0;
  figures_t map = {calloc(count, 8), 0}, run = {calloc(count, 8), 0}, unmap = {calloc(count, 8), 0};
  for (size_t i = 0; i < count; i++) {
    attach_pauses_t pauses = {0};
    bool kept;
    failed += !cycle(atoi(argv[1]), argv[2], &pauses, &kept);
    left += kept;
    if (pauses.map_ns) map.ns[map.count++] = pauses.map_ns;
    if (pauses.run_ns) run.ns[run.count++] = pauses.run_ns;
    if (pauses.unmap_ns) unmap.ns[unmap.count++] = pauses.unmap_ns;
  }
  printf("cycles %zu failed %zu kept %zu\n", count, failed, left);
  print("map", &map);
  print("run", &run);
  print("unmap", &unmap);
  return failed > 0;
}
