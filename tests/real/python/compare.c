/* SPDX-License-Identifier: MIT
 *
 * A library for ctypes that compares, in a signal handler, the Python frames of sonde's capture
 * with those that the interpreter prints of the same thread at the same instant (_Py_DumpTraceback,
 * the function of faulthandler). The interpreter's function does not support a thread inside the
 * evaluator, so such instants are only captured.
 *
 * If the library is preloaded, each call of malloc and free is also captured as a frequent event is
 * (stack_id_of_event, and some by stack_id_of_rare_event). Some of these stacks are compared with a
 * capture that remembers no stack, and some with what the interpreter prints.
 *
 * compare_start(FD, MICROSECONDS, MALLOCS): begins; each tick of CPU time, and each MALLOCS-th call
 * of malloc or free, twice, writes to FD what sonde says, a line "--", what the interpreter says,
 * and a line "==".
 * compare_stop(&inside): ends and returns the number of captures; INSIDE: in the evaluator.
 * Interpreters that do not export the function print nothing; their events are compared.
 * compare_events(&different): the number of events that were compared with an uncached capture.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "capture/python/python.h"
#include "capture/python/python_codes.h"
#include "capture/python/python_frames.h"
#include "capture/python/python_merged.h"
#include "capture/python/python_shapes.h"
#include "capture/stack.h"

static void *(*own_state)(void);
static void (*dump)(int fd, void *state);
static uint64_t evaluator, evaluator_end;
static int out;
static int captures, inside;
static uint32_t busy;
static python_frame_t noted[1 << 16];
static char texts[16 << 20];
static uint32_t texts_used;

/* What a recorder is told of a frame, before any capture returns its id: the table of frames itself
 * may not have the texts yet when a handler captures a frame that its thread is adding. */
static void note(const python_frame_t *frame) {
  python_frame_t *to = &noted[frame->id - PYTHON_FRAME_IDS];
  if (load_acquire(&to->id)) return;
  size_t function = strlen(frame->function) + 1, file = strlen(frame->file) + 1;
  uint32_t at = add_relaxed(&texts_used, (uint32_t)(function + file));
  if (at + function + file > sizeof texts) _exit(3);
  memcpy(texts + at, frame->function, function);
  memcpy(texts + at + function, frame->file, file);
  to->line = frame->line;
  to->function = texts + at;
  to->file = texts + at + function;
  store_release(&to->id, frame->id);
}

static void print_frame(uint32_t frame) {
  char line[2048];
  const python_frame_t *known = &noted[frame - PYTHON_FRAME_IDS];
  if (!load_acquire(&known->id)) _exit(4);
  int n = snprintf(line, sizeof line, "  File \"%s\", line %u in %s\n", known->file, known->line,
                   known->function);
  if (write(out, line, (size_t)n) < 0) _exit(3);
}

enum { STACK_MAX = 8192 };
typedef struct frames {
  uint32_t count, ids[STACK_MAX];
} frames_t;

/* By the id of a native frame: whether it is a call of the evaluator. A recorder is told, too. */
static uint8_t is_call[PYTHON_FRAME_IDS];
static void note_call(uint32_t frame) { store_release(&is_call[frame], (uint8_t)1); }

static void add_frames(uint32_t id, frames_t *to) {
  for (uint32_t frame; id && stack_table_get(id, &id, &frame);)
    to->ids[to->count++] = frame;
}

/* What a reader of the recording does with the id of a merged stack, as docs/format.md says. */
static void expand(uint32_t id, frames_t *to) {
  uint32_t native, chain, frame, shown;
  to->count = 0;
  if (!python_merged_get(id, &native, &chain)) {
    add_frames(id, to);
    return;
  }
  while (native && stack_table_get(native, &native, &frame)) {
    if (frame < PYTHON_FRAME_IDS && load_acquire(&is_call[frame])) {
      do {
        if (!chain || !stack_table_get(chain, &chain, &shown)) _exit(5);
        if (!(shown & STACK_IN_CHAIN)) _exit(6);
        uint32_t python = shown & ~(STACK_IN_CHAIN | STACK_OF_CALL);
        if (python) to->ids[to->count++] = python;
      } while (!(shown & STACK_OF_CALL));
    }
    to->ids[to->count++] = frame;
  }
  if (chain) _exit(7);
}

/* For a failure: what the stack has instead of Python frames. */
static void print_native(const frames_t *stack) {
  for (uint32_t i = 0; i < stack->count; i++) {
    char line[300];
    frame_info_t info = {0};
    Dl_info symbol = {0};
    (void)frame_table_get(stack->ids[i], &info);
    (void)dladdr((void *)(uintptr_t)info.pc, &symbol);
    int n = snprintf(line, sizeof line, "native %#llx %s+%#llx\n", (unsigned long long)info.pc,
                     symbol.dli_sname ? symbol.dli_sname : "?",
                     (unsigned long long)(info.pc - (uint64_t)(uintptr_t)symbol.dli_saddr));
    if (write(out, line, (size_t)n) < 0) _exit(3);
  }
}

static void print_ours(uint32_t id) {
  frames_t stack;
  uint32_t count = 0;
  expand(id, &stack);
  for (uint32_t i = 0; i < stack.count; i++)
    if (python_frame_is(stack.ids[i])) {
      print_frame(stack.ids[i]);
      count++;
    }
  if (!count) print_native(&stack);
}

/* The output is one: another thread may be in its handler. */
static void print_both(uint32_t id, void *state, const char *what) {
  uint32_t none = 0;
  if (!dump || !cas_acq_rel(&busy, &none, 1u)) return;
  if (write(out, what, strlen(what)) < 0) _exit(3);
  print_ours(id);
  if (write(out, "--\n", 3) < 0) _exit(3);
  dump(out, state);
  if (write(out, "==\n", 3) < 0) _exit(3);
  store_release(&busy, 0u);
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
  print_both(id, state, "tick\n");
}

extern void *__libc_malloc(size_t size);
extern void __libc_free(void *block);
static unsigned calls, every;
static uint32_t compared, different, merged;

static void compare_event(uint64_t pc, uint64_t sp, uint64_t fp) {
  unsigned call = add_relaxed(&calls, 1u);
  bool is_rare = call % 32 == 16;
  uint32_t cached = 0, anew = 0, native, chain;
  if (call % every == 0) raise(SIGPROF);
  cached = (is_rare ? stack_id_of_rare_event : stack_id_of_event)(pc, sp, fp);
  if (!cached) return;
  if (call % 16 == 0) {
    const python_origin_t origin = {.pc = pc, .sp = sp, .fp = fp, .is_event = !is_rare};
    if (!capture_with_python(&anew, &origin)) (void)stack_id_here(&anew, pc, sp, fp);
    static __thread frames_t one, other;
    expand(cached, &one);
    expand(anew, &other);
    add_relaxed(&compared, 1u);
    if (one.count != other.count || memcmp(one.ids, other.ids, one.count * sizeof one.ids[0]))
      add_relaxed(&different, 1u);
    merged += python_merged_get(cached, &native, &chain);
  }
  void *state = call % every == every / 2 ? own_state() : NULL;
  if (state) print_both(cached, state, "event\n");
}

#define COMPARE_EVENT()                                                                            \
  if (every) {                                                                                     \
    const uint64_t *frame = __builtin_frame_address(0);                                            \
    compare_event((uint64_t)(uintptr_t)__builtin_return_address(0),                                \
                  (uint64_t)(uintptr_t)frame + 16, frame[0]);                                      \
  }

void *malloc(size_t size) {
  COMPARE_EVENT()
  return __libc_malloc(size);
}

void free(void *block) {
  COMPARE_EVENT()
  __libc_free(block);
}

int compare_events(int *with_a_difference, int *merged_ones) {
  *with_a_difference = (int)different;
  *merged_ones = (int)merged;
  return (int)compared;
}

int compare_start(int fd, int microseconds, int mallocs, int lines) {
  Dl_info info;
  struct sigaction action = {.sa_sigaction = on_tick, .sa_flags = SA_SIGINFO | SA_RESTART};
  const struct itimerval timer = {{0, microseconds}, {0, microseconds}};
  own_state = (void *(*)(void))dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState");
  dump = (void (*)(int, void *))dlsym(RTLD_DEFAULT, "_Py_DumpTraceback");
  void *eval = dlsym(RTLD_DEFAULT, "_PyEval_EvalFrameDefault");
  if (!own_state || !eval || !dladdr(eval, &info)) return 0;
  evaluator = (uint64_t)(uintptr_t)eval;
  evaluator_end = evaluator + 0x10000;
  out = fd;
  python_frame_on_new = note;
  python_call_on_new = note_call;
  capture_python_start(lines, (uint64_t)(uintptr_t)python_codes_count_death);
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
