/* SPDX-License-Identifier: MIT */
#include "target/python/python.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "python/chain.h"
#include "python/states.h"
#include "target/process.h"
#include "target/python/codes.h"
#include "target/python/place.h"

/* A PyThreadState. */
typedef struct state {
  uint64_t address;
  python_thread_t thread;
} state_t;

struct python {
  /* must be first; reads past the window of the walk */
  memory_t memory;
  target_t *target;
  python_runtime_t runtime;
  const module_t *module;
  ARRAY(state_t) states;
  python_codes_t codes;
  python_frames_t read;
};

static bool read_target(memory_t *self, uint64_t address, void *out, size_t size) {
  target_t *target = ((python_t *)self)->target;
  if (target->live) return process_read(&process_of(target)->memory, address, out, size);
  return target->memory->read(target->memory, address, out, size);
}

/* ---- the interpreter --------------------------------------------------------------------------
 */

/* A program that contains an interpreter may have any name; a library is named after it. */
static bool may_have(const target_t *target, const module_t *module) {
  return strstr(module->path, "python") || (target->exe && strcmp(module->path, target->exe) == 0);
}

python_t *python_open(target_t *target) {
  python_t *p = calloc(1, sizeof *p);
  if (!p) return NULL;
  p->memory.read = read_target;
  p->target = target;
  for (size_t i = 0; i < target->modules.count; i++) {
    const module_t *module = &target->modules.items[i];
    if (!may_have(target, module) || !target_module(target, module->start) ||
        module->state != MODULE_READY ||
        !python_find(&module->image, module->path, &p->memory, &p->runtime))
      continue;
    p->module = module;
    return p;
  }
  free(p);
  return NULL;
}

void python_close(python_t *p) {
  if (!p) return;
  free(p->states.items);
  python_codes_free(&p->codes);
  python_frames_free(&p->read);
  free(p);
}

const python_runtime_t *python_runtime(const python_t *p) { return &p->runtime; }

const module_t *python_module(const python_t *p) { return p->module; }

/* ---- its threads ------------------------------------------------------------------------------
 */

static bool add_state(void *context, uint64_t address) {
  python_t *p = context;
  state_t *state = ARRAY_ADD(p->states);
  if (!state) return false;
  state->address = address;
  return python_thread_of(p->runtime.layout, &p->memory, address, &state->thread);
}

void python_list_threads(python_t *p) {
  p->states.count = 0;
  python_states(&p->runtime, &p->memory, add_state, p);
}

/* ---- frames -----------------------------------------------------------------------------------
 */

/* Adds the frame that CHAIN is at. False: it is no valid frame. */
static bool add_frame(python_t *p, const python_chain_t *chain) {
  python_code_t code;
  uint32_t number, position;
  if (!python_code_read(chain->layout, &p->memory, chain->code, &code) ||
      code.type != p->runtime.code_type)
    return false;
  if (!code.file) return true; /* a frame that the interpreter inserted */
  return python_position(chain->layout, chain->code, chain->instruction, &position) &&
         python_codes_add(&p->codes, chain->layout, &p->memory, &code, &number) &&
         python_frames_add(&p->read, python_pc(number, position));
}

static void read_state(python_t *p, uint64_t state, uint32_t depth) {
  python_chain_t chain;
  python_step_t step = PYTHON_DAMAGED;
  if (python_chain_start(&chain, p->runtime.layout, &p->memory, state)) do {
      step = python_chain_next(&chain);
      if (step == PYTHON_FRAME && !add_frame(p, &chain)) step = PYTHON_DAMAGED;
      if (step == PYTHON_CALL && !python_frames_end_call(&p->read, chain.anchor))
        step = PYTHON_DAMAGED;
    } while (step < PYTHON_END && p->read.pcs.count < depth);
  python_frames_end_state(&p->read, step == PYTHON_DAMAGED);
}

void python_read(python_t *p, pid_t tid, uint32_t depth) {
  python_frames_clear(&p->read);
  if (p->target->live) {
    pid_t inner = process_inner_tid(process_of(p->target), tid);
    if (inner > 0) tid = inner;
  }
  for (size_t i = 0; i < p->states.count; i++)
    if (python_thread_is(&p->states.items[i].thread, p->target->machine, &p->memory, tid))
      read_state(p, p->states.items[i].address, depth);
}

const char *python_place(const python_t *p, walk_t *walk) {
  return python_frames_place(&p->read, &p->runtime, p->module, walk);
}

bool python_name(const python_t *p, uint64_t pc, python_name_t *out) {
  uint32_t number = python_pc_code(pc);
  if (number >= p->codes.count) return false;
  const known_code_t *known = &p->codes.items[number];
  *out = (python_name_t){.function = known->function, .file = known->file};
  if (known->file)
    out->line = python_line(p->runtime.layout->minor, known->code.first_line, known->lines,
                            known->lines_size, python_pc_position(pc));
  return true;
}
