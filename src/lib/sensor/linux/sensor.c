/* SPDX-License-Identifier: MIT */
#include "sensor/sensor.h"

#include "os/os.h"

/* The recorder of an attached agent samples, finds stalls and stops threads from outside. */
static const sensor_t *const sensors[] = {
#if defined(SONDE_ATTACHED)
    &sensor_malloc, &sensor_crash, &sensor_trace, &sensor_audit, &sensor_leaks
#else
#define SENSOR_ENTRY(name, ...) &sensor_##name,
    SENSOR_TABLE(SENSOR_ENTRY, SENSOR_ENTRY)
#undef SENSOR_ENTRY
#endif
};

#define EACH_SENSOR(function, ...)                                                                 \
  for (uint32_t i = 0; i < ARRAY_COUNT(sensors); i++)                                              \
    if (sensors[i]->function) sensors[i]->function(__VA_ARGS__)

static bool takes_requests;

/* The recorder's requests arrive by one signal; each sensor looks for its own in shared memory. A
 * program that only computes learns of a new setting here alone. */
static void on_request(const void *ucontext) {
  if (sensor_is_silenced()) return;
  EACH_SENSOR(on_request, (void *)(uintptr_t)ucontext);
  if (writer_control()) writer_poll(writer_control());
}

static void reconfigure(shm_control_t *control) {
  if (!sensor_is_silenced()) EACH_SENSOR(reconfigure, control);
}

bool sensor_is_silenced(void) {
  const shm_control_t *c = writer_control();
  if (!c || !load_relaxed(&c->unread_filter)) return false;
  os_calls_end();
  return true;
}

bool sensor_takes_requests(void) { return takes_requests; }

static void announce_requests(void) {
  shm_control_t *control = writer_control();
  if (control) store_release(&control->takes_signals, (uint32_t)takes_requests);
}

static void prepare_requests(void) {
  takes_requests = os_signal_prepare_for_others(on_request) == 0;
  announce_requests();
}

void sensor_start(void) {
  shm_control_t *control = writer_control();
#if !defined(SONDE_ATTACHED)
  prepare_requests();
#endif
  writer_on_request = reconfigure;
  EACH_SENSOR(start, control);
}

void sensor_hook(void) { EACH_SENSOR(hook, writer_control()); }
void sensor_fork(bool now) { EACH_SENSOR(fork, now); }
void sensor_after_fork(void) { EACH_SENSOR(after_fork); }

void sensor_restart(void) {
  announce_requests();
  EACH_SENSOR(restart, writer_control());
}

/* Where a handler cannot return, no signal of sonde may be delivered. */
void sensor_limit(uint32_t effects) {
  EACH_SENSOR(limit, effects);
  if (effects & SECCOMP_STOPS_TICKS)
    os_signal_retire();
  else if (takes_requests)
    prepare_requests();
}

void sensor_tick(const void *ucontext) { EACH_SENSOR(on_tick, ucontext); }
void sensor_leave(void) { EACH_SENSOR(leave, writer_control()); }
void sensor_stop(void) { EACH_SENSOR(stop, writer_control()); }
