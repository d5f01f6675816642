/* SPDX-License-Identifier: MIT
 *
 * The audit of a program that nobody rebuilt, by the policy that the recorder offers.
 */
#include "agent/agent.h"
#include "hook/trampoline.h"
#include "os/os.h"
#include "record/writer.h"
#include "sensor/audit/hooks.h"
#include "sensor/audit/start.h"

/* What the recorder offers, mapped for good. */
static const void *map_offered(const shm_control_t *control) {
  int fd = writer_open_of_recorder(control, control->policy_fd);
  if (fd < 0) return NULL;
  const void *data = os_map_shared(fd, 0, control->policy_size);
  os_close(fd);
  return data;
}

void agent_audit_start(void) {
  shm_control_t *control = writer_control();
  if (!control || !control->policy_size || trampoline_ready()) return;
  const audit_policy_t *policy = audit_policy_of(map_offered(control), control->policy_size);
  if (!policy) return;
  (void)audit_hooks_set(policy, control->policy_size, false);
  audit_set_recorders();
  store_release(&control->audit.ready, 1u);
}
