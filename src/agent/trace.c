/* SPDX-License-Identifier: MIT
 *
 * XRay sleds follow the recorder: patched while calls are traced, taken back when they are not. The
 * recorder's wish is noticed at start and at the next slow moment of a sensor (write_look), which a
 * program that allocates has often.
 */
#include "agent/agent.h"
#include "record/write.h"
#include "sensor/trace.h"
#include "sensor/trace_sleds.h"

static void (*others)(scratch_control_t *control);
static uint32_t followed; /* the generation that the sleds are patched for */

static void follow(scratch_control_t *control) {
  uint32_t generation = load_acquire(&control->trace_generation), before = load_relaxed(&followed);
  if (generation == before || !cas_acq_rel(&followed, &before, generation)) return;
  if ((generation & 1) == (before & 1)) return;
  sleds_told_t told = sleds_switch(generation & 1, control->trace_pattern);
  if (!(generation & 1)) return;
  store_relaxed(&control->sleds_patched, told.patched);
  store_relaxed(&control->sleds_unnamed, told.unnamed);
  store_relaxed(&control->sleds_refused, told.refused);
}

static void asked(scratch_control_t *control) {
  if (others) others(control);
  follow(control);
}

void agent_trace_start(void) {
  others = write_asked;
  write_asked = asked;
  follow(write_control());
}
