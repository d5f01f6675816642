/* SPDX-License-Identifier: MIT */
#include "python/states.h"

#include "unwind/thread_handle.h"

#define INTERPRETERS_MAX 4096u
#define STATES_MAX       (1u << 20)

static bool read_word(memory_t *memory, uint64_t address, uint64_t *out) {
  return memory->read(memory, address, out, sizeof *out);
}

void python_states(const python_runtime_t *runtime, memory_t *memory,
                   bool (*visit)(void *context, uint64_t state), void *context) {
  const python_layout_t *l = runtime->layout;
  uint64_t interpreter, state;
  uint32_t states = 0;
  if (!read_word(memory, runtime->address + l->runtime_interpreters, &interpreter)) return;
  for (uint32_t i = 0; interpreter && i < INTERPRETERS_MAX; i++) {
    if (!read_word(memory, interpreter + l->interpreter_threads, &state)) return;
    while (state && states++ < STATES_MAX) {
      if (!visit(context, state)) return;
      if (!read_word(memory, state + l->state_next, &state)) break;
    }
    if (!read_word(memory, interpreter + l->interpreter_next, &interpreter)) return;
  }
}

bool python_thread_of(const python_layout_t *l, memory_t *memory, uint64_t state,
                      python_thread_t *out) {
  uint64_t id = 0;
  *out = (python_thread_t){0, 0};
  if (l->state_native == PYTHON_NO_FIELD)
    return read_word(memory, state + l->state_thread, &out->handle);
  if (!read_word(memory, state + l->state_native, &id)) return false;
  out->tid = (int32_t)id;
  return true;
}

bool python_thread_is(const python_thread_t *thread, machine_t machine, memory_t *memory,
                      int32_t tid) {
  return thread->handle ? thread_handle_is(thread->handle, machine, memory, tid)
                        : thread->tid == tid;
}
