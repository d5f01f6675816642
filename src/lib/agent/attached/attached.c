/* SPDX-License-Identifier: MIT
 *
 * Start and end of an attached agent. See attach_block.h for the thread that calls it.
 *
 * At the start nothing leads into the agent before it is complete: slots are hooked last. At the
 * end they are restored first. Threads that are in the agent then find a recording without modes,
 * and leave. The command unmaps the agent when no thread is in it any more.
 */
#include "agent/attached/attached.h"

#include <errno.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/seccomp.h"
#include "arch/arch.h"
#include "base/text.h"
#include "capture/python/python.h"
#include "capture/stack.h"
#include "hook/hook.h"
#include "hook/internal.h"
#include "hook/trampoline.h"
#include "os/linux/loader.h"
#include "os/os.h"
#include "record/definitions.h"
#include "record/writer.h"
#include "sensor/leaks/leaks.h"
#include "sensor/malloc/live.h"
#include "sensor/sensor.h"
#include "sensor/trace/code.h"
#include "sensor/trace/trace.h"

#define PATIENCE_NS UINT64_C(5000000000)

HIDDEN bool
    agent_calls_back; /* a hooked function of the C library calls no slot of its own image */

static bool is_started;
static pid_t process; /* of the first start */

void agent_real(const char *const *names, uint64_t *addresses, int count) {
  os_symbols(0, names, addresses, count);
}

bool agent_in_recorded_process(void) { return writer_is_of_process(writer_control()); }

/* The recorder finds children from outside. */
bool follow_is_on(void) { return false; }

/* ---- the start ------------------------------------------------------------------------------ */

static int refuse(attach_block_t *block, int error, const char *reason) {
  uint64_t n = text_length(reason);
  if (n >= sizeof block->message) n = sizeof block->message - 1;
  memcpy(block->message, reason, n);
  block->message[n] = 0;
  return -error;
}

/* Makes the calling thread known to the parts of sonde that look at threads. */
static bool become_thread(void) {
  linux_attached_thread(os_tid());
  return linux_attached_tid() && os_thread_slots_init();
}

static bool claim_entry(pid_t tid, uint64_t identity, void *control) {
  (void)identity;
  if (tid != os_tid())
    (void)thread_table_claim(&((shm_control_t *)control)->threads, (uint32_t)tid);
  return true;
}

static bool make_tables(void) { return frame_table_init() && stack_table_init(); }

/* What looks for functions in the images: none of them is unloaded meanwhile. */
static void prepare(void *unused) {
  (void)unused;
  capture_python_start(writer_control()->python_lines, replaced_python_deallocator());
  sensor_start();
  replaced_find_real();
}

static int stop(attach_block_t *block);

static int start(attach_block_t *block) {
  static char path[ATTACH_PATH_MAX];
  memcpy(path, block->path, sizeof path - 1);
  if (is_started && writer_control() && writer_has_recorder(writer_control()))
    return refuse(block, EBUSY, "the agent is already at work");
  /* Its recorder was killed, or this is a child that was forked during the recording. */
  if (is_started && stop(block) < 0) return -EBUSY;
  if (arch_on_valgrind()) return refuse(block, ENOTSUP, "valgrind executes the program");
  seccomp_take(block->filter_count, block->forbidden);
  if (seccomp_is_unknown())
    return refuse(block, EPERM, "the program has a seccomp filter, which may forbid system calls");
  if (!linux_attached_image(block->image_start, path))
    return refuse(block, EINVAL, "the agent's image is not readable");
  if (!linux_loader() || linux_loader()->debug == 0)
    return refuse(block, ENOTSUP, "the program is static: it has no import slots");
  if (!become_thread()) return refuse(block, ENOTSUP, "the C library is not known");
  os_loader_init();
  if (!make_tables()) return refuse(block, ENOMEM, "there is no memory for the tables of stacks");
  definitions_start();
  if (writer_start(block->settings) != 0)
    return refuse(block, EIO, "the recorder's shared memory cannot be opened");
  is_started = true;
  if (!process) process = os_pid();
  seccomp_attached();
  writer_process();
  definitions_write_all();
  (void)os_threads(claim_entry, writer_control());
  hook_watch_local();
  bool prepared = replaced_prepare();
  if (prepared) (void)hooks_run_locked(prepare, NULL);
  if (!prepared || !replaced_install()) {
    (void)stop(block);
    return refuse(block, ENOTSUP, "the program's malloc and free cannot be hooked");
  }
  sensor_hook();
  return 0;
}

/* ---- the end -------------------------------------------------------------------------------- */

/* Why the agent can never be unmapped; NULL: it can. */
static const char *reason_to_stay(void) {
  if (process && process != os_pid()) return "a fork copied it";
  if (trampoline_exists()) return "the program may have kept addresses of hooked functions";
  if (code_was_patched()) return "a thread may still be about to enter a patched function";
  return NULL;
}

/* If the agent must stay, the message says why. */
static int stop(attach_block_t *block) {
  if (!is_started) return 0;
  if (!become_thread()) return refuse(block, ENOTSUP, "the C library is not known");
  shm_control_t *control = writer_control();
  if (control) store_release(&control->mode, 0u);
  trace_switch(false); /* the recorder has done so, unless it was killed */
  replaced_remove();
  sensor_leave();
  replaced_remove_unwinders();
  hook_unwatch_local(); /* of a start that has failed: nothing was hooked */
  if (!trace_leave_program(PATIENCE_NS) || !writer_leave_program(PATIENCE_NS))
    return refuse(block, EBUSY, "a thread has been in the agent for 5 s");
  /* A forked child has no such memory, and may have its own there. */
  if (control)
    live_table_unmap();
  else
    live_table_forget();
  is_started = false;
  const char *reason = reason_to_stay();
  return reason ? refuse(block, 0, reason) : 0;
}

/* ---- a search for leaks --------------------------------------------------------------------- */

static int copy(attach_block_t *block) {
  if (!is_started || !agent_in_recorded_process())
    return refuse(block, ESRCH, "it records nothing");
  if (!become_thread()) return refuse(block, ENOTSUP, "the C library is not known");
  return leaks_copy_stopped(writer_control()) == 0 ? 0
                                                   : refuse(block, EIO, "cannot copy the process");
}

/* ---- leaving -------------------------------------------------------------------------------- */

/* The agent stays, asleep, if anything may lead into it or into its memory again. */
static int release(attach_block_t *block) {
  const char *reason = reason_to_stay();
  if (is_started) return refuse(block, EBUSY, "it is at work");
  if (reason) return refuse(block, EBUSY, reason);
  if (dlopen_may_enter()) return refuse(block, EBUSY, "the loader may still call it");
  linux_unmap_own();
  return 0;
}

__attribute__((visibility("default"))) void sonde_attach_run(attach_block_t *block) {
  int status = -EINVAL;
  block->message[0] = 0;
  if (block->size < sizeof *block) {
    (void)refuse(block, EINVAL, "the command and the agent are of different versions");
  } else if (block->request == ATTACH_START) {
    status = start(block);
  } else if (block->request == ATTACH_STOP) {
    status = stop(block);
  } else if (block->request == ATTACH_RELEASE) {
    status = release(block);
  } else if (block->request == ATTACH_COPY) {
    status = copy(block);
  }
  linux_attached_thread(0); /* another thread may get its id */
  block->status = status;
  store_release(&block->state, ATTACH_DONE);
}
