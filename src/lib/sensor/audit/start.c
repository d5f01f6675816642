/* SPDX-License-Identifier: MIT */
#include "sensor/audit/start.h"

#include "hook/trampoline.h"
#include "record/writer.h"
#include "sensor/audit/hooks.h"
#include "sensor/audit/memory.h"
#include "sensor/malloc/api.h"
#include "sensor/malloc/standalone.h"
#include "sensor/sensor.h"
#include "sonde/status.h"

static enum { NO_AUDIT, OWN_AUDIT, RECORDERS_AUDIT } state;
static bool own_file; /* audit_begin created the recording, and audit_end ends it */

/* The last policy. It stays mapped, since pointers to its trampolines may outlive the audit, and is
 * used again if the next policy is equal. */
static struct {
  char *data;
  uint64_t size;
  uint64_t recording; /* that contains it */
} last;

static uint64_t recordings; /* count of those created by audit_begin */

/* A permanent copy of the policy. */
static const audit_policy_t *keep(const void *policy, uint64_t size) {
  if (last.data && last.size == size && !memcmp(last.data, policy, size))
    return (const void *)last.data;
  char *copy = os_map(size);
  if (!copy) return NULL;
  memcpy(copy, policy, size);
  last.data = copy;
  last.size = size;
  last.recording = UINT64_MAX;
  return (const void *)copy;
}

/* Under a recorder, the recorder switches. */
static int switch_on(bool on) {
  char answer[256];
  const shm_control_t *c = writer_control();
  uint32_t mode = load_relaxed(&c->mode) & ~RECORD_AUDIT;
  if (!c->recorder_name[0]) {
    malloc_api_switch(mode | (on ? RECORD_AUDIT : 0));
    return 0;
  }
  ssize_t n = settings_request(c->recorder_name, c->token, on ? "audit=on" : "audit=off", answer,
                               sizeof answer);
  return settings_granted(answer, n) ? 0 : SONDE_EIO;
}

static int begin_file(const char *path) {
  if (malloc_api_is_recording()) return 0;
  if (!path) return SONDE_EINVAL;
  int status = malloc_standalone_begin(path);
  own_file = status == 0;
  recordings += own_file;
  return status;
}

/* A recording has at most one policy. */
static bool holds_another(const audit_policy_t *policy, uint64_t recording) {
  static const audit_policy_t *held;
  static uint64_t held_by = UINT64_MAX;
  if (held_by == recording && held != policy) return true;
  held = policy;
  held_by = recording;
  return false;
}

static int set_hooks(const audit_policy_t *policy, uint64_t size) {
  if (holds_another(policy, recordings)) return SONDE_EBUSY;
  int status = audit_hooks_set(policy, (uint32_t)size, last.recording == recordings);
  if (status < 0) return status;
  last.recording = recordings;
  status = switch_on(true);
  if (status < 0) audit_hooks_remove();
  return status;
}

int audit_begin(const void *data, size_t size, const char *path) {
  if (state != NO_AUDIT) return SONDE_EBUSY;
  if ((uintptr_t)data % sizeof(uint32_t) || !audit_policy_of(data, size)) return SONDE_EINVAL;
  if (trampoline_ready()) return SONDE_EUNSUPPORTED;
  const audit_policy_t *policy = keep(data, size);
  if (!policy) return SONDE_ENOMEM;
  int status = begin_file(path);
  if (status < 0) return status;
  status = set_hooks(policy, size);
  if (status == 0)
    state = OWN_AUDIT;
  else if (own_file)
    (void)malloc_standalone_end();
  return status;
}

int audit_end(void) {
  if (state == RECORDERS_AUDIT) return SONDE_EBUSY;
  if (state == NO_AUDIT || !malloc_api_is_recording()) return SONDE_ENOTFOUND;
  int status = switch_on(false);
  audit_hooks_remove();
  state = NO_AUDIT;
  if (!own_file) return status;
  own_file = false;
  return malloc_standalone_end();
}

/* A forked child has no control page and does nothing. */
__attribute__((destructor)) static void at_exit(void) {
  if (state == OWN_AUDIT && own_file && malloc_api_is_recording()) (void)audit_end();
}

/* ---- a program that `sonde record --audit` runs ---------------------------------------------- */

/* A permanent copy of the recorder's policy. */
static const void *keep_recorders(const shm_control_t *control) {
  int fd = writer_open_of_recorder(control, control->policy_fd);
  if (fd < 0) return NULL;
  void *data = os_map_shared(fd, 0, control->policy_size);
  os_close(fd);
  if (!data) return NULL;
  const void *kept = keep(data, control->policy_size);
  os_unmap(data, control->policy_size);
  return kept;
}

static void start(shm_control_t *control) {
  (void)control;
  audit_memory_start();
}

static void hook(shm_control_t *control) {
  if (!control->policy_size || trampoline_ready()) return;
  const audit_policy_t *policy = audit_policy_of(keep_recorders(control), control->policy_size);
  if (!policy) return;
  (void)audit_hooks_set(policy, control->policy_size, false);
  state = RECORDERS_AUDIT;
  store_release(&control->audit.ready, 1u);
}

/* Thunks that the program has copied lead to the functions themselves. */
static void leave_program(shm_control_t *control) {
  if (state != RECORDERS_AUDIT) return;
  if (control) store_release(&control->audit.ready, 0u); /* a forked child has none */
  audit_hooks_remove();
  state = NO_AUDIT;
}

static void restart(shm_control_t *control) {
  if (control->policy_size) audit_hooks_record_again();
}

HIDDEN const sensor_t sensor_audit = {
    .start = start, .hook = hook, .leave = leave_program, .restart = restart};
