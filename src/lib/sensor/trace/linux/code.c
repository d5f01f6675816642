/* SPDX-License-Identifier: MIT */
#include "sensor/trace/code.h"

#include "base/bits.h"
#include "hook/entry.h"
#include "hook/filter.h"
#include "image/name.h"
#include "os/os.h"
#include "sensor/sensor.h"
#include "sensor/trace/imports.h"
#include "sensor/trace/trace.h"
#include "sonde/name.h"

/* REQUEST_OF_RUN: images that were not seen before may have run already. */
enum { REQUEST = 1, REQUEST_OF_RUN = 2 };

static struct {
  uint32_t lock;
  /* REQUEST_…: the holder of the lock, or the next one, switches to `on` */
  uint32_t requested;
  bool on;
  /* images that were scanned, a bit each */
  uint8_t seen[IMAGE_ID_MAX / 8 + 1];
  /* one of them can be patched */
  bool any;
} all;

bool code_section(const image_entry_t *e, const image_t *file, const char *name, uint64_t bytes_max,
                  section_t *out) {
  if (!image_section(file, name, out) || !out->address || out->size > bytes_max) return false;
  out->address += e->image.slide;
  all.any = true;
  return true;
}

bool code_contains(const image_t *i, uint64_t address, uint64_t bytes) {
  for (uint32_t k = 0; k < i->segment_count; k++) {
    const segment_t *s = &i->segments[k];
    uint64_t start = s->address + i->slide;
    if (s->flags & 1 /* PF_X */ && address >= start && address + bytes <= start + s->size)
      return true;
  }
  return false;
}

bool code_matches(image_id_t id, uint64_t function, const char *pattern, bool is_entry,
                  code_result_t *result) {
  sonde_name_t name;
  if (!*pattern) return true;
  if (name_in_image(id, function, true, &name) < 0 || !name.symbol) {
    result->unnamed += is_entry;
    return false;
  }
  return imports_match(pattern, name.symbol, name.image);
}

static bool scan_image(image_entry_t *e, void *result) {
  image_t file;
  uint8_t *seen = &all.seen[e->id / 8], bit = (uint8_t)(1u << e->id % 8);
  if (*seen & bit || !e->file || e->is_system || e->is_vdso) return true;
  if (image_open(&file, e->file) < 0) return true;
  if (entries_scan(e, &file, result)) {
    sleds_scan(e, &file);
    *seen |= bit;
  }
  image_close(&file);
  return true;
}

static bool may_patch(void) { return os_sync_code() || entry_is_alone(); }

static void patch_all(bool on, const char *pattern, const char *functions, bool is_new,
                      code_result_t *result) {
  if (on)
    functions_patch(functions, is_new, result);
  else
    functions_unpatch();
  if (on) image_list_each(scan_image, result);
  if (!all.any) return;
  if (on && !may_patch()) {
    result->why = "this kernel cannot synchronize changed code between threads (membarrier)";
  } else if (on) {
    sleds_patch(pattern, result);
    entries_patch(pattern, result);
  } else {
    sleds_unpatch();
    entries_unpatch();
  }
  (void)os_sync_code();
}

static bool take_request(void) {
  uint32_t none = 0;
  full_fence();
  return load_acquire(&all.requested) && cas_acq_rel(&all.lock, &none, 1u);
}

/* IS_NEW: the images that were not seen before have not run yet. One call may serve several
 * requests. */
static code_result_t switch_code(bool on, const char *pattern, const char *functions, bool is_new) {
  code_result_t result = {0};
  store_relaxed(&all.on, on);
  (void)__atomic_fetch_or(&all.requested, is_new ? REQUEST : REQUEST | REQUEST_OF_RUN,
                          __ATOMIC_ACQ_REL);
  while (take_request()) {
    uint32_t requested = __atomic_exchange_n(&all.requested, 0u, __ATOMIC_ACQ_REL);
    if (requested) {
      result.patched = result.unnamed = result.refused = 0;
      patch_all(load_relaxed(&all.on), pattern, functions, !(requested & REQUEST_OF_RUN), &result);
    }
    store_release(&all.lock, 0u);
  }
  return result;
}

bool code_was_patched(void) { return all.any || entry_exists(); }

code_result_t code_switch(bool on, const char *pattern, const char *functions) {
  return switch_code(on, pattern, functions, false);
}

/* ---- under a recorder ------------------------------------------------------------------------ */

static uint32_t followed; /* the trace generation that the code is patched for */

/* Readers add the records up. */
static void report_moves(shm_control_t *control, const code_result_t *result) {
  for (uint32_t i = 0; i < MOVE_FAULT_COUNT; i++) {
    const uint64_t record[2] = {i, i ? result->unmoved[i] : result->moved};
    if (record[1]) writer_table(TABLE_PATCHED, record, 2, NULL);
    add_relaxed(i ? &control->code_unmoved[i] : &control->code_moved, (uint32_t)record[1]);
  }
}

static void switch_reporting(shm_control_t *control, bool on, bool is_new) {
  code_result_t result = switch_code(on, control->trace_pattern, control->trace_pattern, is_new);
  if (!on) return;
  report_moves(control, &result);
  store_relaxed(&control->code_patched, result.patched);
  store_relaxed(&control->code_unnamed, result.unnamed);
  store_relaxed(&control->code_refused, result.refused);
  add_relaxed(&control->code_small, result.small); /* each image is scanned once */
  for (uint32_t i = 0; result.why && i < sizeof control->code_why - 1 && result.why[i]; i++)
    control->code_why[i] = result.why[i];
}

/* A forked child may have no recording. */
static void on_images_loaded(void *context) {
  shm_control_t *control = writer_control();
  (void)context;
  if (control && load_acquire(&followed) & 1) switch_reporting(control, true, true);
}

/* Patches images that are loaded while calls are traced. If imports are hooked, their filter
 * reports new images; and this may run inside the loader's malloc, too late to add that filter. */
static hook_filter_t images;
static bool watched;

static void watch_images(void) {
  if (watched || imports_are_followed()) return;
  images.on_images = on_images_loaded;
  watched = hook_filter_watch(&images);
}

static bool hooked;

static void follow(shm_control_t *control, bool is_new) {
  uint32_t generation = load_acquire(&control->trace_generation), before = load_relaxed(&followed);
  if (!hooked || generation == before) return;
  if (!cas_acq_rel(&followed, &before, generation)) return;
  if ((generation & 1) == (before & 1)) return;
  if (generation & 1) watch_images();
  switch_reporting(control, generation & 1, is_new);
}

static void reconfigure(shm_control_t *control) { follow(control, false); }

static void start(shm_control_t *control) {
  (void)control;
  (void)trace_prepare();
  code_allow_stops();
}

/* Whether nothing runs but this constructor: the program's code has not run yet. */
static bool is_at_start(void) {
#if defined(SONDE_ATTACHED)
  return false;
#else
  return entry_is_alone();
#endif
}

static void hook(shm_control_t *control) {
  functions_begin(control->trace_pattern);
  (void)imports_start(on_images_loaded);
  hooked = true;
  follow(control, is_at_start());
}

/* The slots and the code are already changed, since the parent's memory was copied. */
static void restart(shm_control_t *control) {
  trace_restart(control);
  reconfigure(control);
}

/* The recorder has ended tracing, so no call begins any more. */
static void leave_program(shm_control_t *control) {
  (void)control;
  if (!hooked) return;
  hooked = false;
  if (watched) (void)hook_filter_unwatch(&images);
  watched = false;
  imports_stop();
  (void)switch_code(false, "", "", false);
  store_release(&followed, 0u);
}

HIDDEN const sensor_t sensor_trace = {.start = start,
                                      .hook = hook,
                                      .reconfigure = reconfigure,
                                      .fork = trace_fork,
                                      .restart = restart,
                                      .leave = leave_program};
