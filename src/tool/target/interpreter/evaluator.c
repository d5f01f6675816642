/* SPDX-License-Identifier: MIT */
#include "target/interpreter/evaluator.h"

#include <stdlib.h>

#include "unwind/cfi.h"
#include "unwind/infer/decode_x86_64.h"

/* Evaluators have some ten thousand bytes. */
#define CODE_MAX (UINT64_C(1) << 22)

typedef struct code {
  uint8_t *bytes;
  uint64_t start, size, at;
} code_t;

static bool read_code(interpreter_t *self, uint64_t start, uint64_t size, code_t *out) {
  *out = (code_t){.start = start, .size = size};
  if (!size || size > CODE_MAX) return false;
  out->bytes = malloc((size_t)size);
  if (out->bytes && self->memory.read(&self->memory, start, out->bytes, (size_t)size)) return true;
  free(out->bytes);
  return false;
}

static bool is_jump(const x86_insn_t *insn) {
  return (insn->map == X86_MAP_ONE_BYTE && insn->opcode == 0xe9) ||
         (insn->map == X86_MAP_0F && (insn->opcode & 0xf0) == 0x80);
}

static bool is_call(const x86_insn_t *insn) {
  return insn->map == X86_MAP_ONE_BYTE && (insn->opcode == 0xe8 || insn->opcode == 0xe9);
}

/* Sets *TO to where the next instruction of CODE leads that IS_WANTED. False: there is none. */
static bool next_target(code_t *code, bool (*is_wanted)(const x86_insn_t *), uint64_t *to) {
  while (code->at < code->size) {
    x86_insn_t insn;
    uint64_t left = code->size - code->at;
    if (!x86_decode(code->bytes + code->at, left < X86_INSN_BYTES ? (unsigned)left : X86_INSN_BYTES,
                    &insn))
      return false;
    code->at += insn.length;
    *to = code->start + code->at + (uint64_t)insn.immediate;
    if (!insn.is_vector && is_wanted(&insn)) return true;
  }
  return false;
}

/* Sets *TO to where the next direct jump of CODE leads. False: there is none. */
static bool next_jump(code_t *code, uint64_t *to) { return next_target(code, is_jump, to); }

/* Whether the function at START jumps into the middle of the evaluator. */
static bool jumps_back(interpreter_t *self, uint64_t start, uint64_t size) {
  code_t code;
  uint64_t to = 0;
  bool found = false;
  if (!read_code(self, start, size, &code)) return false;
  while (!found && next_jump(&code, &to))
    found = to > self->evaluator && to - self->evaluator < self->evaluator_bytes;
  free(code.bytes);
  return found;
}

/* Whether the function that has ADDRESS is the moved part; then sets it. */
static bool is_moved(interpreter_t *self, uint64_t address) {
  uint64_t slide = self->module->image.slide;
  cfi_row_t row;
  if (address < self->module->start || address >= self->module->end ||
      cfi_find_row(&self->module->image, address - slide, &row) != 0 ||
      !jumps_back(self, row.function_start + slide, row.function_end - row.function_start))
    return false;
  self->moved = row.function_start + slide;
  self->moved_bytes = row.function_end - row.function_start;
  return true;
}

void evaluator_set(interpreter_t *self, uint64_t address, uint64_t bytes) {
  code_t code;
  uint64_t to, before = 0;
  self->evaluator = address;
  self->evaluator_bytes = bytes;
  self->moved = self->moved_bytes = 0;
  if (self->target->machine != MACHINE_X86_64 || !read_code(self, address, bytes, &code)) return;
  while (next_jump(&code, &to)) {
    if (to - address < bytes || to == before) continue;
    if (is_moved(self, to)) break;
    before = to;
  }
  free(code.bytes);
}

/* ---- an evaluator without a name ------------------------------------------------------------ */

#define CALL_DEPTH      3
#define FUNCTIONS_MAX   512
#define EVALUATOR_LEAST 2048u

/* Functions that were reached, by their starts and sizes. */
typedef struct reached {
  uint64_t starts[FUNCTIONS_MAX], sizes[FUNCTIONS_MAX];
  size_t count;
} reached_t;

/* Adds the function that begins at ADDRESS. */
static void reach(const interpreter_t *self, uint64_t address, reached_t *r) {
  uint64_t slide = self->module->image.slide;
  cfi_row_t row;
  for (size_t i = 0; i < r->count; i++)
    if (r->starts[i] == address) return;
  if (r->count == FUNCTIONS_MAX || address < self->module->start || address >= self->module->end ||
      cfi_find_row(&self->module->image, address - slide, &row) != 0 ||
      row.function_start + slide != address)
    return;
  r->starts[r->count] = address;
  r->sizes[r->count++] = row.function_end - row.function_start;
}

static void reach_called(interpreter_t *self, uint64_t start, uint64_t size, reached_t *r) {
  code_t code;
  uint64_t to;
  if (!read_code(self, start, size, &code)) return;
  while (next_target(&code, is_call, &to))
    if (to - start >= size) reach(self, to, r);
  free(code.bytes);
}

bool evaluator_set_called(interpreter_t *self, uint64_t from) {
  reached_t *r = calloc(1, sizeof *r);
  size_t largest = 0, done = 0;
  if (!r || self->target->machine != MACHINE_X86_64) {
    free(r);
    return false;
  }
  reach(self, from, r);
  for (int depth = 0; depth < CALL_DEPTH; depth++)
    for (size_t end = r->count; done < end; done++)
      reach_called(self, r->starts[done], r->sizes[done], r);
  for (size_t i = 1; i < r->count; i++)
    if (r->sizes[i] > r->sizes[largest]) largest = i;
  bool is_found = r->count && r->sizes[largest] >= EVALUATOR_LEAST;
  if (is_found) evaluator_set(self, r->starts[largest], r->sizes[largest]);
  free(r);
  return is_found;
}
