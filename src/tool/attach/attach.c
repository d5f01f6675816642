/* SPDX-License-Identifier: MIT
 *
 * The steps of attach.h. A process of its own, the tracer, stops threads for each step. It inherits
 * attach_t, and what it finds out is in memory shared with the command.
 */
#define _GNU_SOURCE
#include "attach/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/attach_block.h"
#include "attach/borrow.h"
#include "attach/permit.h"
#include "attach/place.h"
#include "attach/runner.h"
#include "attach/scan.h"
#include "attach/tracer.h"

#define RELEASE_LIMIT_MS 5000u
#define STAYS            "the agent stays in process %d, asleep: "
#define REUSED           "the next recording uses it again"

/* ---- the tracer --------------------------------------------------------------------------- */

typedef bool step_t(attach_t *attach, const void *argument, problem_t *problem);

typedef struct call {
  attach_t *attach;
  step_t *step;
  const void *argument;
} call_t;

static void call_step(void *context) {
  const call_t *call = context;
  shared_t *shared = call->attach->shared;
  shared->succeeded = call->step(call->attach, call->argument, &shared->problem);
}

/* Runs STEP in a tracer. */
static bool trace(attach_t *attach, step_t *step, const void *argument, problem_t *problem) {
  shared_t *shared = attach->shared;
  call_t call = {attach, step, argument};
  shared->succeeded = false;
  problem_set(&shared->problem, "the tracer of process %d ended early", attach->pid);
  if (!tracer_run(call_step, &call)) {
    problem_set(problem, "cannot start a process: %s", strerror(errno));
    return false;
  }
  if (!shared->succeeded) *problem = shared->problem;
  return shared->succeeded;
}

/* ---- opening ------------------------------------------------------------------------------ */

/* The lock is on the process's folder: the kernel removes it when the last holder ends. */
static bool lock(attach_t *attach, problem_t *problem) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d", attach->pid);
  attach->lock_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (attach->lock_fd < 0 || flock(attach->lock_fd, LOCK_EX | LOCK_NB) == 0 || errno == ENOLCK)
    return true;
  problem_set(problem, "another sonde attaches to process %d now: try again when it is done",
              attach->pid);
  return false;
}

static bool open_memory(attach_t *attach, pid_t reader, problem_t *problem) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/mem", reader);
  attach->memory_fd = open(path, O_RDWR | O_CLOEXEC);
  if (attach->memory_fd >= 0) return true;
  access_explain(attach->pid, errno, problem);
  return false;
}

static bool open_all(attach_t *attach, problem_t *problem) {
  pid_t reader;
  if (!permit_check(attach->pid, &reader, problem) || !lock(attach, problem)) return false;
  attach->target = target_open_process(attach->pid, problem);
  if (!attach->target || !open_memory(attach, reader, problem)) return false;
  attach->shared =
      mmap(NULL, sizeof(shared_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (attach->shared == MAP_FAILED) attach->shared = NULL;
  if (!attach->shared) problem_set(problem, "out of memory");
  return attach->shared != NULL && place_find_code(attach, problem);
}

attach_t *attach_open(pid_t pid, problem_t *problem) {
  attach_t *attach = calloc(1, sizeof *attach);
  if (!attach) {
    problem_set(problem, "out of memory");
    return NULL;
  }
  attach->pid = pid;
  attach->memory_fd = attach->lock_fd = -1;
  if (open_all(attach, problem)) return attach;
  attach_close(attach);
  return NULL;
}

void attach_close(attach_t *attach) {
  if (!attach) return;
  if (attach->memory_fd >= 0) close(attach->memory_fd);
  if (attach->lock_fd >= 0) close(attach->lock_fd);
  if (attach->shared) munmap(attach->shared, sizeof *attach->shared);
  target_close(attach->target);
  object_close(&attach->object);
  free(attach);
}

/* ---- loading ------------------------------------------------------------------------------ */

static bool read_filters(attach_t *attach, problem_t *problem) {
  return filters_read(attach->target, &attach->shared->filters, problem);
}

static bool map(attach_t *attach, const void *unused, problem_t *problem) {
  (void)unused;
  borrowed_t borrowed;
  borrow_call_t call = {.call = {SYS_mmap,
                                 {0, attach->layout.size, PROT_READ | PROT_EXEC,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, UINT64_MAX, 0}},
                        .code = attach->code,
                        .frame = borrow_place(attach)};
  if (!read_filters(attach, problem) || !borrow_thread(attach, &borrowed, problem)) return false;
  int64_t base = borrow_call(attach, &borrowed, &call, &attach->shared->pauses.map_ns);
  if (base < 0 && base >= -4095) {
    problem_set(problem, "process %d cannot map the agent: %s", attach->pid, strerror((int)-base));
    return false;
  }
  attach->shared->base = (uint64_t)base;
  return true;
}

static bool unmap(attach_t *attach, const void *unused, problem_t *problem) {
  (void)unused;
  borrowed_t borrowed;
  borrow_call_t call = {
      .call = {SYS_munmap, {attach->shared->base, attach->layout.size, 0, 0, 0, 0}},
      .code = attach->code,
      .frame = borrow_place(attach)};
  if (!read_filters(attach, problem) || !borrow_thread(attach, &borrowed, problem)) return false;
  int64_t result = borrow_call(attach, &borrowed, &call, &attach->shared->pauses.unmap_ns);
  if (result != 0) {
    problem_set(problem, "process %d cannot unmap the agent: %s", attach->pid,
                strerror((int)-result));
    return false;
  }
  attach->shared->base = 0;
  return true;
}

/* The header comes last: without it nobody takes the mapping for a complete one. */
static bool copy(attach_t *attach, problem_t *problem) {
  object_t *o = &attach->object;
  uint64_t base = attach->shared->base;
  object_relocate(o, base);
  attach_block_t block = {.size = sizeof block,
                          .image_start = base,
                          .image_size = o->size,
                          .stack_start = base + attach->layout.stack,
                          .stack_size = attach->layout.stack_end - attach->layout.stack};
  snprintf(block.path, sizeof block.path, "%s", attach->object_path);
  if (session_write(attach, base + PLACE_HEADER, o->image + PLACE_HEADER,
                    o->filled - PLACE_HEADER) &&
      session_write(attach, base + attach->layout.block, &block, sizeof block) &&
      runner_prepare(attach) && session_write(attach, base, o->image, PLACE_HEADER))
    return true;
  problem_set(problem,
              "cannot write to the memory of process %d (%s): the kernel may forbid it "
              "(proc_mem.force_override on its command line)",
              attach->pid, strerror(errno));
  return false;
}

static bool open_object(attach_t *attach, const char *path, problem_t *problem) {
  object_close(&attach->object);
  attach->shared->base = 0;
  attach->shared->is_started = attach->shared->is_broken = false;
  if (!object_open(&attach->object, path, problem)) return false;
  if (!realpath(path, attach->object_path))
    snprintf(attach->object_path, sizeof attach->object_path, "%s", path);
  place_layout(attach);
  return true;
}

static found_t find_object(attach_t *attach, const char *path, problem_t *problem) {
  found_t found = place_find_object(attach);
  if (found == FOUND_NOT)
    problem_set(problem, "the agent '%s' is not in process %d", path, attach->pid);
  if (found == FOUND_BUSY)
    problem_set(problem,
                "the agent in process %d still works for a command that was killed: try again in "
                "a few seconds",
                attach->pid);
  return found;
}

bool attach_find(attach_t *attach, const char *path, problem_t *problem) {
  return open_object(attach, path, problem) && find_object(attach, path, problem) == FOUND;
}

bool attach_load(attach_t *attach, const char *path, bool *is_new, problem_t *problem) {
  problem_t ignored;
  if (!open_object(attach, path, problem)) return false;
  found_t found = find_object(attach, path, problem);
  if (is_new) *is_new = found != FOUND;
  if (found != FOUND_NOT) return found == FOUND;
  if (!trace(attach, map, NULL, problem)) return false;
  if (copy(attach, problem)) return true;
  (void)trace(attach, unmap, NULL, &ignored);
  return false;
}

/* ---- calling ------------------------------------------------------------------------------ */

#define BLOCK_AT(attach, field)                                                                    \
  ((attach)->shared->base + (attach)->layout.block + offsetof(attach_block_t, field))

/* The command is visible in the program's pid namespace only if both are in the same. */
static int32_t own_pid_there(const attach_t *attach) {
  return process_of(attach->target)->nested ? 0 : getpid();
}

static bool write_request(attach_t *attach, uint64_t request, const char *settings) {
  char text[ATTACH_SETTINGS_MAX] = "";
  int32_t pid = own_pid_there(attach);
  snprintf(text, sizeof text, "%s", settings ? settings : "");
  return session_write(attach, BLOCK_AT(attach, request), &request, sizeof request) &&
         session_write(attach, BLOCK_AT(attach, loader_pid), &pid, sizeof pid) &&
         session_write(attach, BLOCK_AT(attach, settings), text, sizeof text);
}

typedef struct answer {
  uint32_t state;
  int32_t status;
} answer_t;

static bool explain_answer(const attach_t *attach, uint64_t request, answer_t answer,
                           problem_t *problem) {
  char message[ATTACH_MESSAGE_MAX] = "";
  if (answer.state == ATTACH_DONE && answer.status == 0) return true;
  if (answer.state != ATTACH_DONE) {
    problem_set(problem, "the agent in process %d ended without an answer", attach->pid);
    return false;
  }
  (void)session_read(attach, BLOCK_AT(attach, message), message, sizeof message);
  message[sizeof message - 1] = 0;
  const char *why = message[0] ? message : strerror(-answer.status);
  if (request == ATTACH_RELEASE)
    problem_set(problem, STAYS "%s; " REUSED, attach->pid, why);
  else
    problem_set(problem, "the agent in process %d failed: %s", attach->pid, why);
  return false;
}

/* After a fault the object is in an unknown state, so nobody finds it again. */
static void abandon(attach_t *attach) {
  (void)place_hide_object(attach, attach->shared->base);
  attach->shared->base = 0;
}

static bool run(attach_t *attach, const void *argument, problem_t *problem) {
  const unsigned *limit_ms = argument;
  return runner_run(attach, *limit_ms, problem);
}

bool attach_run(attach_t *attach, uint64_t request, const char *settings, unsigned limit_ms,
                problem_t *problem) {
  answer_t answer = {0, 0};
  if (!attach->shared->base) {
    problem_set(problem, "the agent is not in process %d", attach->pid);
    return false;
  }
  if (!write_request(attach, request, settings)) {
    access_explain(attach->pid, errno, problem);
    return false;
  }
  if (!trace(attach, run, &limit_ms, problem)) {
    if (attach->shared->is_broken) abandon(attach);
    return false;
  }
  if (!session_read(attach, BLOCK_AT(attach, state), &answer, sizeof answer)) {
    access_explain(attach->pid, ESRCH, problem);
    return false;
  }
  return explain_answer(attach, request, answer, problem);
}

/* ---- leaving ------------------------------------------------------------------------------ */

static bool scan(attach_t *attach, const void *argument, problem_t *problem) {
  const unsigned *wait_ms = argument;
  pid_t inside;
  if (!scan_wait(attach, *wait_ms, &inside, problem)) return false;
  if (inside == 0) return true;
  problem_set(problem, STAYS "thread %d may still return to it; " REUSED, attach->pid, inside);
  return false;
}

/* After ATTACH_RELEASE the object cannot be called again. So nobody may find it from here on, even
 * if it cannot be unmapped. */
static bool release(attach_t *attach, problem_t *problem) {
  uint64_t base = attach->shared->base;
  if (!attach->shared->is_started) return true;
  if (!place_hide_object(attach, base)) {
    access_explain(attach->pid, errno, problem);
    return false;
  }
  if (attach_run(attach, ATTACH_RELEASE, NULL, RELEASE_LIMIT_MS, problem)) return true;
  if (!attach->shared->is_broken) (void)place_show_object(attach, base);
  return false;
}

bool attach_must_stay(attach_t *attach, problem_t *problem) {
  char message[ATTACH_MESSAGE_MAX] = "";
  (void)session_read(attach, BLOCK_AT(attach, message), message, sizeof message);
  message[sizeof message - 1] = 0;
  if (message[0]) problem_set(problem, STAYS "%s; " REUSED, attach->pid, message);
  return message[0] != 0;
}

bool attach_unload(attach_t *attach, unsigned wait_ms, problem_t *problem) {
  if (!attach->shared->base) return true;
  return trace(attach, scan, &wait_ms, problem) && release(attach, problem) &&
         trace(attach, unmap, NULL, problem);
}

/* ---- children ----------------------------------------------------------------------------- */

static bool reap(attach_t *attach, const void *argument, problem_t *problem) {
  const pid_t *pid = argument;
  borrowed_t borrowed;
  uint64_t pause_ns;
  borrow_call_t call = {.call = {SYS_wait4, {(uint64_t)*pid, 0, __WALL | WNOHANG, 0, 0, 0}},
                        .code = attach->code,
                        .frame = borrow_place(attach)};
  if (!read_filters(attach, problem) ||
      !filters_permit_reaping(attach->pid, &attach->shared->filters, problem))
    return false;
  if (!borrow_thread(attach, &borrowed, problem)) return false;
  int64_t result = borrow_call(attach, &borrowed, &call, &pause_ns);
  if (result == *pid || result == -ECHILD) return true;
  problem_set(problem, "process %d cannot reap its child %d: %s", attach->pid, (int)*pid,
              result ? strerror((int)-result) : "it has not ended");
  return false;
}

bool attach_reap(attach_t *attach, pid_t pid, problem_t *problem) {
  return trace(attach, reap, &pid, problem);
}

bool attach_image(const attach_t *attach, uint64_t *start, uint64_t *size) {
  *start = attach->shared->base;
  *size = attach->object.size;
  return *start != 0;
}

attach_pauses_t attach_pauses(const attach_t *attach) { return attach->shared->pauses; }
