/* SPDX-License-Identifier: MIT
 *
 * Asks the recorder to change code while all threads are stopped (hook/move.h). The thread
 * that asks waits in recvmsg meanwhile, and is stopped like the others.
 */
#include "base/text.h"
#include "hook/entry.h"
#include "record/settings.h"
#include "record/writer.h"
#include "sensor/trace/code.h"

/* A thread that gets no CPU time may take seconds to stop (target/stop/stop.c), and several may do
 * so.
 */
#define PATIENCE_S 60u

static bool change_stopped(const entry_change_t *changes, uint32_t count) {
  const shm_control_t *c = writer_control();
  char request[64], answer[256];
  if (!c || !c->recorder_name[0]) return false;
  char *end = text_append(request, "change ");
  end = decimal_append(end, (uint64_t)(uintptr_t)changes);
  *decimal_append(text_append(end, " "), count) = 0;
  ssize_t n =
      settings_request_long(c->recorder_name, c->token, request, answer, sizeof answer, PATIENCE_S);
  return settings_granted(answer, n);
}

void code_allow_stops(void) { entry_change_stopped = change_stopped; }
