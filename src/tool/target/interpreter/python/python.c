/* SPDX-License-Identifier: MIT
 *
 * CPython. Its layouts, the chain of frames and code objects are in src/lib/python, because the
 * library in the program reads them, too.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "os/os.h"
#include "python/chain.h"
#include "python/find.h"
#include "python/gil.h"
#include "python/states.h"
#include "target/interpreter/python/codes.h"
#include "target/interpreter/python/held.h"
#include "target/interpreter/python/python.h"

/* A PyThreadState. */
typedef struct state {
  uint64_t address, gil;
  python_thread_t thread;
} state_t;

typedef struct python {
  /* must be first */
  interpreter_t common;
  python_runtime_t runtime;
  ARRAY(state_t) states;
  bool holds_lock;
  held_locks_t held;
  /* until when they need not be read again; 0: not read */
  uint64_t held_until_ns;
  python_codes_t codes;
} python_t;

static bool find(interpreter_t *self) {
  python_t *p = (python_t *)self;
  const module_t *module = self->module;
  python_runtime_t *found = &p->runtime;
  if (!python_find(&module->image, module->path, &self->memory, found)) return false;
  snprintf(self->version, sizeof self->version, "%u.%u", found->version >> 24,
           found->version >> 16 & 0xff);
  self->problem = found->problem;
  self->evaluator = found->evaluator;
  self->evaluator_bytes = found->evaluator_bytes;
  return true;
}

static void close(interpreter_t *self) {
  python_t *p = (python_t *)self;
  free(p->states.items);
  held_locks_free(&p->held);
  python_codes_free(&p->codes);
}

/* ---- threads -------------------------------------------------------------------------------- */

static bool add_state(void *context, uint64_t address) {
  python_t *p = context;
  state_t *state = ARRAY_ADD(p->states);
  if (!state) return false;
  state->address = address;
  state->gil = python_gil_of(&p->runtime, &p->common.memory, address);
  return python_thread_of(p->runtime.layout, &p->common.memory, address, &state->thread);
}

static void list_threads(interpreter_t *self) {
  python_t *p = (python_t *)self;
  p->states.count = 0;
  p->held_until_ns = 0;
  python_states(&p->runtime, &self->memory, add_state, p);
}

/* ---- frames --------------------------------------------------------------------------------- */

/* Adds the frame that CHAIN is at. False: it is no valid frame. */
static bool add_frame(python_t *p, const python_chain_t *chain) {
  python_code_t code;
  uint32_t number, position;
  memory_t *memory = &p->common.memory;
  if (!python_code_read(chain->layout, memory, chain->code, &code) ||
      code.type != p->runtime.code_type)
    return false;
  if (!code.file) return true; /* a frame that the interpreter inserted */
  return python_position(chain->layout, chain->code, chain->instruction, &position) &&
         python_codes_add(&p->codes, chain->layout, memory, &code, &number) &&
         interpreter_frames_add(&p->common.frames, python_pc(number, position));
}

static void read_state(python_t *p, uint64_t state, uint32_t depth) {
  interpreter_frames_t *frames = &p->common.frames;
  python_chain_t chain;
  python_step_t step = PYTHON_DAMAGED;
  if (python_chain_start(&chain, p->runtime.layout, &p->common.memory, state)) do {
      step = python_chain_next(&chain);
      if (step == PYTHON_FRAME && !add_frame(p, &chain)) step = PYTHON_DAMAGED;
      if (step == PYTHON_CALL && !interpreter_frames_end_call(frames, chain.anchor))
        step = PYTHON_DAMAGED;
    } while (step < PYTHON_END && frames->pcs.count < depth);
  interpreter_frames_end_state(frames, step == PYTHON_DAMAGED ? interpreter_damaged : NULL);
}

static bool is_of(python_t *p, const state_t *state, pid_t inner) {
  return python_thread_is(&state->thread, p->common.target->machine, &p->common.memory, inner);
}

static bool holds_lock(python_t *p, const state_t *state) {
  python_gil_t gil;
  return state->gil && python_gil_read(&p->runtime, &p->common.memory, state->gil, &gil) &&
         gil.holder == state->address;
}

static void read_thread(interpreter_t *self, pid_t tid, uint32_t depth) {
  python_t *p = (python_t *)self;
  p->holds_lock = false;
  for (size_t i = 0; i < p->states.count; i++) {
    const state_t *state = &p->states.items[i];
    if (!is_of(p, state, tid)) continue;
    read_state(p, state->address, depth);
    p->holds_lock |= holds_lock(p, state);
  }
}

/* ---- the global lock ------------------------------------------------------------------------ */

bool python_holds_lock(const interpreter_t *self) {
  return self->kind == &python_kind && ((const python_t *)self)->holds_lock;
}

/* The thread of the state at ADDRESS; 0: unknown. */
static pid_t thread_of(python_t *p, uint64_t address) {
  const target_t *target = p->common.target;
  const state_t *state = p->states.items, *end = state + p->states.count;
  while (state < end && state->address != address)
    state++;
  for (size_t i = 0; state < end && i < target->thread_count; i++)
    if (is_of(p, state, interpreter_inner_tid(&p->common, target->threads[i].tid)))
      return target->threads[i].tid;
  return 0;
}

bool python_lock_at(interpreter_t *self, uint64_t futex, python_lock_t *out) {
  python_t *p = (python_t *)self;
  python_gil_t gil;
  if (self->kind != &python_kind || self->problem) return false;
  for (size_t i = 0; i < p->states.count; i++) {
    uint64_t address = p->states.items[i].gil;
    if (!address || !python_gil_is_at(address, futex)) continue;
    *out = (python_lock_t){.address = address};
    if (!python_gil_read(&p->runtime, &self->memory, address, &gil)) return true;
    out->switches = gil.switches;
    if (gil.holder) out->holder = thread_of(p, gil.holder);
    return true;
  }
  return false;
}

/* ---- locks of the module threading ---------------------------------------------------------- */

/* Reads the frames of all threads, for each thread that waits. If there are many, this takes long:
 * it is done for at most a twentieth of the time. */
static void read_held(python_t *p) {
  uint64_t start = os_monotonic_ns();
  if (start < p->held_until_ns) return;
  held_locks_clear(&p->held);
  for (size_t i = 0; i < p->states.count; i++)
    held_locks_add(&p->held, p->runtime.layout, &p->common.memory, p->states.items[i].address);
  uint64_t now = os_monotonic_ns();
  p->held_until_ns = now + 20 * (now - start);
}

pid_t python_holder_of(interpreter_t *self, uint64_t futex, bool again) {
  python_t *p = (python_t *)self;
  if (self->kind != &python_kind || self->problem) return 0;
  if (again) p->held_until_ns = 0;
  read_held(p);
  uint64_t state = held_locks_holder(&p->held, futex);
  return state ? thread_of(p, state) : 0;
}

/* ---- names ---------------------------------------------------------------------------------- */

static bool name(const interpreter_t *self, uint64_t pc, interpreter_name_t *out) {
  const python_t *p = (const python_t *)self;
  uint32_t number = python_pc_code(pc);
  if (number >= p->codes.count) return false;
  const known_code_t *known = &p->codes.items[number];
  *out = (interpreter_name_t){.function = known->function, .file = known->file};
  if (known->file)
    out->line = python_line(p->runtime.layout->minor, known->code.first_line, known->lines,
                            known->lines_size, python_pc_position(pc));
  return true;
}

const interpreter_kind_t python_kind = {.language = LANGUAGE_PYTHON,
                                        .file = "python",
                                        .size = sizeof(python_t),
                                        .find = find,
                                        .close = close,
                                        .list_threads = list_threads,
                                        .read = read_thread,
                                        .name = name};
