/* SPDX-License-Identifier: MIT */
#include "top/heap.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analysis/malloc/replay.h"
#include "base/array.h"
#include "base/hash.h"
#include "recorder/control.h"
#include "recorder/process_facts.h"

enum { FRAMES_MAX = 256, NAMES_MAX = 512 };
#define WINDOW_NS UINT64_C(10000000000)
#define PERIOD_NS UINT64_C(1000000000)
#define RETRY_NS  UINT64_C(5000000000)
#define FILE_MAX  (64u << 20)
#define NO_AGENT  "without the agent: no allocations; start the program with 'sonde top -- CMD'"

static void set_why(top_heap_t *heap, const char *why) {
  top_heap_clear(heap);
  snprintf(heap->why, sizeof heap->why, "%s", why);
}

/* ---- the recorder ------------------------------------------------------------------------- */

typedef struct status {
  char path[PATH_MAX];
  double seconds;
} status_t;

/* Copies the value of a line "NAME VALUE" of REPLY. */
static bool value_of(const char *reply, const char *name, char *out, size_t size) {
  size_t length = strlen(name);
  out[0] = 0;
  for (const char *line = reply; line && *line; line = strchr(line, '\n')) {
    line += *line == '\n';
    if (strncmp(line, name, length) != 0 || line[length] != ' ') continue;
    snprintf(out, size, "%.*s", (int)strcspn(line + length + 1, "\n"), line + length + 1);
    return true;
  }
  return false;
}

/* A path that the recorder was given is relative to its folder; it is the program's parent. */
static void find_recording(pid_t pid, const char *path, char *out, size_t size) {
  process_facts_t facts = {0};
  if (*path != '/' && process_facts_read(pid, &facts))
    snprintf(out, size, "/proc/%d/cwd/%s", (int)facts.parent, path);
  else
    snprintf(out, size, "%s", path);
}

static bool read_status(pid_t pid, top_heap_t *heap, status_t *out) {
  char *reply = NULL, path[PATH_MAX - 64], seconds[32];
  bool failed = false;
  heap->malloc[0] = heap->sample[0] = 0;
  if (control_request(pid, "status", &reply, &failed) < 0) return false;
  bool good = !failed && value_of(reply, "recording", path, sizeof path) &&
              value_of(reply, "seconds", seconds, sizeof seconds) &&
              value_of(reply, "malloc", heap->malloc, sizeof heap->malloc);
  if (good) {
    (void)value_of(reply, "sample", heap->sample, sizeof heap->sample);
    find_recording(pid, path, out->path, sizeof out->path);
    out->seconds = strtod(seconds, NULL);
  }
  free(reply);
  return good;
}

void top_heap_command(top_heap_reader_t *r, const char *command, char *out, size_t size) {
  char *reply = NULL;
  bool failed = false;
  int status = control_request(r->pid, command, &reply, &failed);
  snprintf(out, size, "%s",
           status < 0 ? "no recorder: sensors are switched in programs started with "
                        "'sonde top -- CMD' or 'sonde record'"
           : failed   ? reply
                      : "");
  free(reply);
  r->next_ns = 0;
}

/* ---- the recording ------------------------------------------------------------------------ */

/* The sites that are being added up. */
typedef struct sites {
  top_heap_t *heap;
  hash_index_t index;
} sites_t;

static uint64_t hash_of_site(const void *sites, size_t i) {
  return hash_text(HASH_START, ((const sites_t *)sites)->heap->sites[i].name);
}

/* NULL: out of memory. */
static top_site_t *site_of(sites_t *s, const top_frame_t *frame) {
  const char *name = frame->function ? frame->function : frame->library;
  uint32_t *slot;
  if (!hash_reserve(&s->index, s->heap->site_count, hash_of_site, s)) return NULL;
  HASH_FIND(&s->index, hash_text(HASH_START, name), slot) {
    if (!strcmp(s->heap->sites[*slot - 1].name, name)) return &s->heap->sites[*slot - 1];
  }
  char *copy = strdup(name);
  if (!copy || !ARRAY_GROW(s->heap->sites, s->heap->site_count, s->heap->site_capacity)) {
    free(copy);
    return NULL;
  }
  top_site_t *site = &s->heap->sites[s->heap->site_count++];
  *slot = (uint32_t)s->heap->site_count;
  *site = (top_site_t){.name = copy, .is_own = frame->is_own};
  top_place(frame, site->place, sizeof site->place);
  return site;
}

static void add_stack(sites_t *s, top_sampler_t *sampler, const reader_t *reader,
                      const stack_totals_t *totals, double seconds) {
  const record_frame_t *recorded[FRAMES_MAX];
  frame_t frames[FRAMES_MAX];
  top_frame_t names[NAMES_MAX];
  if (!totals->live.bytes && !totals->allocated.bytes) return;
  int depth = reader_program_stack(reader, totals->stack, recorded, FRAMES_MAX), kept = 0;
  if (depth > FRAMES_MAX) depth = FRAMES_MAX;
  for (int i = 0; i < depth; i++)
    if (!reader_is_agent(reader, recorded[i]))
      frames[kept++] =
          (frame_t){.pc = recorded[i]->pc, .exact = (recorded[i]->flags & FRAME_EXACT) != 0};
  int count = top_sampler_names(sampler, frames, (uint32_t)kept, names, NAMES_MAX);
  int owner = top_owner(names, count);
  top_site_t *site = owner < 0 ? NULL : site_of(s, &names[owner]);
  if (!site) return;
  site->bytes_per_s += (double)totals->allocated.bytes / seconds;
  site->live_bytes += totals->live.bytes;
}

static int by_rate(const void *left, const void *right) {
  const top_site_t *a = left, *b = right;
  if (a->bytes_per_s > b->bytes_per_s || a->bytes_per_s < b->bytes_per_s)
    return a->bytes_per_s > b->bytes_per_s ? -1 : 1;
  if (a->live_bytes != b->live_bytes) return a->live_bytes > b->live_bytes ? -1 : 1;
  return strcmp(a->name, b->name);
}

/* Replays the recording of STATUS. False if it cannot be read. */
static bool replay(top_heap_t *heap, top_sampler_t *sampler, const status_t *status) {
  char error[256];
  reader_t *reader;
  replay_t totals = {0};
  uint64_t now_ns = (uint64_t)(status->seconds * 1e9);
  uint64_t from_ns = now_ns > WINDOW_NS ? now_ns - WINDOW_NS : 0;
  double seconds = (double)(now_ns - from_ns) / 1e9;
  const replay_options_t options = {.from_ns = from_ns};
  if (reader_open_program(&reader, status->path, 0, error, sizeof error) < 0) return false;
  bool good = seconds > 0 && replay_run(&totals, reader, &options) == 0;
  if (good) {
    sites_t sites = {.heap = heap};
    top_heap_clear(heap);
    for (size_t i = 0; i < totals.stack_count; i++)
      add_stack(&sites, sampler, reader, &totals.stacks[i], seconds);
    hash_free(&sites.index);
    if (heap->site_count) qsort(heap->sites, heap->site_count, sizeof *heap->sites, by_rate);
    heap->is_known = true;
    heap->is_estimate = totals.sample_bytes || !strncmp(heap->malloc, "sample:", 7);
    heap->is_lower = totals.incomplete || reader_damage(reader)->dropped_chunks != 0;
    heap->live_bytes = totals.live.bytes;
    heap->bytes_per_s = (double)totals.allocated.bytes / seconds;
    replay_free(&totals);
  }
  reader_close(reader);
  return good;
}

static void read_now(top_heap_reader_t *r, top_sampler_t *sampler, top_heap_t *heap) {
  status_t status;
  struct stat file;
  uint64_t before_ns = top_own_cpu_ns();
  if (!read_status(r->pid, heap, &status)) {
    set_why(heap, NO_AGENT);
    r->next_ns += RETRY_NS;
    return;
  }
  if (!strcmp(heap->malloc, "off"))
    set_why(heap, "allocations: the sensor malloc is off; m switches it on");
  else if (stat(status.path, &file) == 0 && file.st_size > FILE_MAX)
    set_why(heap, "no allocations: the recording is too large to follow; see 'sonde report'");
  else if (!replay(heap, sampler, &status))
    set_why(heap, "no allocations: the recording cannot be read");
  top_costs_add(&r->costs, top_own_cpu_ns() - before_ns);
  r->next_ns += top_period_ns(PERIOD_NS, top_costs_least(&r->costs), TOP_HEAP_SHARE);
}

void top_heap_read(top_heap_reader_t *r, top_sampler_t *sampler, top_model_t *model,
                   uint64_t now_ns) {
  if (now_ns < r->next_ns) return;
  r->next_ns = now_ns;
  read_now(r, sampler, &model->heap);
}
