/* SPDX-License-Identifier: MIT
 *
 * A library for ctypes that compares, in a signal handler, the Python frames of sonde's capture
 * with those that the interpreter prints of the same thread at the same instant (_Py_DumpTraceback,
 * the function of faulthandler). The interpreter's function does not support a thread inside the
 * evaluator, so such instants are only captured.
 *
 * compare_start(FD, MICROSECONDS, MALLOCS): begins; each tick of CPU time, and each MALLOCS-th call
 * of malloc if the library is preloaded, writes to FD what sonde says, a line "--", what the
 * interpreter says, and a line "==".
 * compare_stop(&inside): ends and returns the number of captures; INSIDE: in the evaluator.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "capture/python.h"
#include "capture/python_frames.h"
#include "capture/stack.h"

static void *(*own_state)(void);
static void (*dump)(int fd, void *state);
static uint64_t evaluator, evaluator_end;
static int out;
static int captures, inside;
static uint32_t wanted, busy;
static python_frame_t found;

static void find(const python_frame_t *frame) {
  if (frame->id == wanted) found = *frame;
}

static void print_frame(uint32_t frame) {
  char line[2048];
  wanted = frame;
  found = (python_frame_t){0};
  python_frames_each(find);
  int n = snprintf(line, sizeof line, "  File \"%s\", line %u in %s\n", found.id ? found.file : "?",
                   found.line, found.id ? found.function : "?");
  if (write(out, line, (size_t)n) < 0) _exit(3);
}

static void print_ours(uint32_t id) {
  uint32_t frame;
  while (id && stack_table_get(id, &id, &frame))
    if (python_frame_is(frame)) print_frame(frame);
}

static void on_tick(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info;
  uint32_t id = 0;
  uint64_t pc = arch_context_frame(context).pc;
  captures++;
  int status = stack_id_of_context(&id, context);
  void *state = own_state();
  if (status < 0 || !state) return;
  if (pc >= evaluator && pc < evaluator_end) {
    inside++;
    return;
  }
  /* The output is one, and so is what print_ours finds: another thread may be in its handler. */
  uint32_t none = 0;
  if (!cas_acq_rel(&busy, &none, 1u)) return;
  print_ours(id);
  if (write(out, "--\n", 3) < 0) _exit(3);
  dump(out, state);
  if (write(out, "==\n", 3) < 0) _exit(3);
  store_release(&busy, 0u);
}

extern void *__libc_malloc(size_t size);
static unsigned calls, every;

void *malloc(size_t size) {
  if (every && add_relaxed(&calls, 1u) % every == 0) raise(SIGPROF);
  return __libc_malloc(size);
}

int compare_start(int fd, int microseconds, int mallocs) {
  Dl_info info;
  struct sigaction action = {.sa_sigaction = on_tick, .sa_flags = SA_SIGINFO | SA_RESTART};
  const struct itimerval timer = {{0, microseconds}, {0, microseconds}};
  own_state = (void *(*)(void))dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState");
  dump = (void (*)(int, void *))dlsym(RTLD_DEFAULT, "_Py_DumpTraceback");
  void *eval = dlsym(RTLD_DEFAULT, "_PyEval_EvalFrameDefault");
  if (!own_state || !dump || !eval || !dladdr(eval, &info)) return 0;
  evaluator = (uint64_t)(uintptr_t)eval;
  evaluator_end = evaluator + 0x10000;
  out = fd;
  capture_python_start();
  if (!capture_has_python) return 0;
  sigaction(SIGPROF, &action, NULL);
  setitimer(ITIMER_PROF, &timer, NULL);
  every = (unsigned)mallocs;
  return 1;
}

int compare_stop(int *in_evaluator) {
  const struct itimerval none = {{0, 0}, {0, 0}};
  every = 0;
  setitimer(ITIMER_PROF, &none, NULL);
  *in_evaluator = inside;
  return captures;
}
