/* SPDX-License-Identifier: MIT
 *
 * Code that was left room for a tracer follows the recorder: patched while calls are traced, taken
 * back when they are not. The recorder's wish is noticed at start and at the next slow moment of a
 * sensor (writer_poll), which a program that allocates has often.
 */
#include "agent/agent.h"
#include "hook/filter.h"
#include "record/writer.h"
#include "sensor/trace/imports.h"
#include "sensor/trace/trace.h"
#include "sensor/trace/code.h"

static void (*others)(shm_control_t *control);
static uint32_t followed; /* the generation that the code is patched for */

static void change(shm_control_t *control, bool on) {
  code_result_t told = code_switch(on, control->trace_pattern);
  if (!on) return;
  store_relaxed(&control->code_patched, told.patched);
  store_relaxed(&control->code_unnamed, told.unnamed);
  store_relaxed(&control->code_refused, told.refused);
  add_relaxed(&control->code_small, told.small); /* an image is looked at once */
  for (uint32_t i = 0; told.why && i < sizeof control->code_why - 1 && told.why[i]; i++)
    control->code_why[i] = told.why[i];
}

/* Images that come while calls are traced: unless they are followed for their imports already, for
 * which this is too late, since it may be inside the loader's own malloc. */
static void watch_images(void) {
  static hook_filter_t images;
  static bool watched;
  if (watched || imports_are_followed()) return;
  images.came = agent_images_came;
  watched = hook_filter_watch(&images);
}

static void follow(shm_control_t *control) {
  uint32_t generation = load_acquire(&control->trace_generation), before = load_relaxed(&followed);
  if (generation == before || !cas_acq_rel(&followed, &before, generation)) return;
  if ((generation & 1) == (before & 1)) return;
  if (generation & 1) watch_images();
  change(control, generation & 1);
}

/* In a child of fork there may be no recording. */
void agent_images_came(void *context) {
  shm_control_t *control = writer_control();
  (void)context;
  if (control && load_acquire(&followed) & 1) change(control, true);
}

static void asked(shm_control_t *control) {
  if (others) others(control);
  follow(control);
}

void agent_trace_start(void) {
  others = writer_on_request;
  writer_on_request = asked;
  follow(writer_control());
}
