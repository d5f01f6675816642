/* SPDX-License-Identifier: MIT
 *
 * Ruby 3.1, of Debian 12.
 *
 * A thread has an execution context, or one for each of its fibers, with a stack of control frames.
 * A frame runs an instruction sequence or a method that is written in C. A call of the evaluator
 * (vm_exec_core) runs frames up to one with the flag FINISH. The evaluator's code is direct
 * threaded: each word of an instruction sequence is an address in the evaluator. So the evaluator
 * is found although Debian's Ruby has no symbol for it.
 *
 * As in Ruby's own backtraces, a method in C has the file and line of the Ruby code that called it,
 * and a frame without a pc is none.
 */
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/load.h"
#include "image/exported.h"
#include "target/interpreter/evaluator.h"
#include "target/interpreter/named.h"
#include "target/interpreter/ruby/code.h"
#include "target/interpreter/ruby/layout.h"
#include "target/interpreter/ruby/objects.h"
#include "unwind/cfi.h"
#include "unwind/thread_handle.h"

/* Threads of all ractors together. */
#define THREADS_MAX (1u << 16)
#define RACTORS_MAX (1u << 12)
/* A stack of frames has a megabyte by default (RUBY_THREAD_VM_STACK_SIZE). */
#define STACK_MAX   (UINT64_C(1) << 32)
#define FRAMES_READ 64

static const char compiled[] = "Ruby's JIT compiler has replaced some of the functions";

/* An rb_thread_t, and its pthread_t: the thread id that Ruby states is wrong after fork. */
typedef struct ruby_thread {
  uint64_t address, handle;
} ruby_thread_t;

typedef struct ruby {
  /* must be first */
  interpreter_t common;
  /* of the pointer to the virtual machine */
  uint64_t machine_pointer, machine;
  /* the table of symbols; 0: not found yet */
  uint64_t symbols;
  ARRAY(ruby_thread_t) threads;
  named_frames_t named;
} ruby_t;

/* ---- the interpreter ------------------------------------------------------------------------ */

static bool find(interpreter_t *self) {
  ruby_t *r = (ruby_t *)self;
  exported_t found[] = {{.name = "ruby_current_vm_ptr"}, {.name = "ruby_version"}};
  char version[sizeof self->version] = "";
  const image_t *image = &self->module->image;
  if (!image_find_exported(image, found, 2) || !found[0].address || !found[1].address) return false;
  r->machine_pointer = found[0].address;
  size_t size = found[1].size < sizeof version ? (size_t)found[1].size : sizeof version;
  if (!size || !self->memory.read(&self->memory, found[1].address, version, size)) version[0] = 0;
  version[sizeof version - 1] = 0;
  for (char *p = version; *p; p++)
    if (*p < ' ' || *p > '~') *p = '?';
  memcpy(self->version, version, sizeof version);
  if (strncmp(version, "3.1.", 4) != 0)
    self->problem = "sonde knows Ruby 3.1";
  else if (self->target->machine != MACHINE_X86_64)
    self->problem = "sonde knows Ruby on x86_64";
  return true;
}

static void close(interpreter_t *self) {
  ruby_t *r = (ruby_t *)self;
  named_free(&r->named);
  free(r->threads.items);
}

/* The words of a sequence are addresses in the evaluator. */
static void find_evaluator(interpreter_t *self, const ruby_code_t *code) {
  uint64_t word;
  cfi_row_t row;
  const module_t *module = self->module;
  uint64_t slide = module->image.slide;
  if (!ruby_word(&self->memory, code->instructions, &word) || word < module->start ||
      word >= module->end || cfi_find_row(&module->image, word - slide, &row) != 0)
    return;
  evaluator_set(self, row.function_start + slide, row.function_end - row.function_start);
}

/* ---- threads -------------------------------------------------------------------------------- */

/* Calls VISIT with each node of the list whose head is at HEAD, until it returns false. */
static void each_node(ruby_t *r, uint64_t head, uint32_t max,
                      bool (*visit)(ruby_t *r, uint64_t node)) {
  uint64_t node;
  if (!ruby_word(&r->common.memory, head, &node)) return;
  for (uint32_t i = 0; node != head && i < max; i++)
    if (!visit(r, node) || !ruby_word(&r->common.memory, node, &node)) return;
}

static bool add_thread(ruby_t *r, uint64_t node) {
  memory_t *memory = &r->common.memory;
  ruby_thread_t *thread = r->threads.count < THREADS_MAX ? ARRAY_ADD(r->threads) : NULL;
  if (!thread) return false;
  thread->address = node;
  return ruby_word(memory, node + RUBY_THREAD_HANDLE, &thread->handle);
}

static bool add_ractor(ruby_t *r, uint64_t node) {
  uint64_t ractor = node - RUBY_RACTOR_NODE;
  each_node(r, ractor + RUBY_RACTOR_THREADS, THREADS_MAX, add_thread);
  return r->threads.count < THREADS_MAX;
}

static void list_threads(interpreter_t *self) {
  ruby_t *r = (ruby_t *)self;
  r->threads.count = 0;
  if (ruby_word(&self->memory, r->machine_pointer, &r->machine))
    each_node(r, r->machine + RUBY_VM_RACTORS, RACTORS_MAX, add_ractor);
}

/* ---- names ---------------------------------------------------------------------------------- */

static uint64_t number_of_code(ruby_t *r, uint64_t address, const ruby_code_t *code, uint64_t pc) {
  memory_t *memory = &r->common.memory;
  const uint64_t key[4] = {address, pc, code->label, code->lines};
  bool is_new;
  uint64_t number = named_number(&r->named, key, &is_new);
  if (!is_new) return number;
  named_frame_t *known = named_at(&r->named, number);
  known->function = ruby_text(memory, code->label);
  known->file = ruby_path(memory, code->path);
  known->line = ruby_code_line(memory, code, pc);
  return number;
}

static uint64_t number_of_method(interpreter_t *self, uint64_t identifier, uint64_t caller) {
  ruby_t *r = (ruby_t *)self;
  const uint64_t key[4] = {0, identifier, caller, 0};
  bool is_new;
  uint64_t number = named_number(&r->named, key, &is_new);
  if (!is_new) return number;
  if (!r->symbols) r->symbols = ruby_symbols(&self->memory, r->machine);
  named_at(&r->named, number)->function = ruby_identifier(&self->memory, r->symbols, identifier);
  named_take_place(&r->named, number, caller);
  return number;
}

static bool name(const interpreter_t *self, uint64_t pc, interpreter_name_t *out) {
  return named_name(&((const ruby_t *)self)->named, pc, out);
}

/* ---- frames --------------------------------------------------------------------------------- */

/* The walk of one stack of control frames, from the innermost outward. */
typedef struct walk_state {
  ruby_t *ruby;
  const char *problem;
} walk_state_t;

/* Sets the identifier of the method in C that runs with the environment whose words before the
 * flags begin with METHOD. */
static bool identifier_of(memory_t *memory, uint64_t method, uint64_t *out) {
  uint64_t flags, definition;
  for (int i = 0; i < 2; i++) {
    if (!ruby_word(memory, method, &flags) || (flags & RUBY_TYPE) != RUBY_INTERNAL) return false;
    if (RUBY_INTERNAL_OF(flags) != RUBY_IS_VARIABLES) break;
    if (!ruby_word(memory, method + RUBY_VARIABLES_METHOD, &method)) return false;
  }
  return RUBY_INTERNAL_OF(flags) == RUBY_IS_METHOD &&
         ruby_word(memory, method + RUBY_METHOD_DEFINITION, &definition) &&
         ruby_word(memory, definition + RUBY_DEFINITION_NAME, out);
}

static void resolve(walk_state_t *w, uint64_t caller) {
  if (!named_resolve(&w->ruby->common, &w->ruby->named, caller, number_of_method))
    w->problem = interpreter_damaged;
}

static bool add_method(walk_state_t *w, uint64_t method) {
  uint64_t identifier;
  return identifier_of(&w->ruby->common.memory, method, &identifier) &&
         named_add_waiting(&w->ruby->common, &w->ruby->named, identifier);
}

static bool add_code(walk_state_t *w, uint64_t address, uint64_t pc) {
  interpreter_t *common = &w->ruby->common;
  ruby_code_t code;
  if (!ruby_code_read(&common->memory, address, &code) || !ruby_code_has(&code, pc)) return false;
  if (code.is_compiled) {
    w->problem = compiled;
    return false;
  }
  if (!common->evaluator) find_evaluator(common, &code);
  uint64_t number = number_of_code(w->ruby, address, &code, pc);
  if (number == NAMED_NONE) return false;
  resolve(w, number);
  return named_add(common, number);
}

/* Adds FRAME. False: it is no valid frame. */
static bool add_frame(walk_state_t *w, const uint8_t *frame) {
  interpreter_t *common = &w->ruby->common;
  uint64_t words[RUBY_ENVIRONMENT_METHOD + 1];
  uint64_t pc = load64(frame + RUBY_FRAME_PC), code = load64(frame + RUBY_FRAME_CODE);
  uint64_t environment = load64(frame + RUBY_FRAME_ENVIRONMENT);
  if (environment % 8 ||
      !common->memory.read(&common->memory, environment - 8 * RUBY_ENVIRONMENT_METHOD, words,
                           sizeof words))
    return false;
  uint64_t flags = words[RUBY_ENVIRONMENT_METHOD], type = flags & RUBY_FRAME_TYPE;
  /* The types have one to seven, or seven and a digit, in their highest half. */
  if (!(flags & 1) || type < UINT64_C(0x11110001) || type > RUBY_FRAME_DUMMY) return false;
  if (type == RUBY_FRAME_DUMMY) return true; /* below the thread's first frame */
  if (flags & RUBY_FRAME_IS_C) return type != RUBY_FRAME_CFUNC || add_method(w, words[0]);
  if (code && pc && !add_code(w, code, pc)) return false;
  return !(flags & RUBY_FRAME_FINISHES) || interpreter_frames_end_call(&common->frames, 0);
}

/* Reads the frames of the execution context at CONTEXT. False: they contradict themselves. */
static bool read_frames(walk_state_t *w, uint64_t context, uint32_t depth) {
  memory_t *memory = &w->ruby->common.memory;
  const interpreter_frames_t *frames = &w->ruby->common.frames;
  uint64_t fields[RUBY_CONTEXT_BYTES / 8];
  uint8_t read[FRAMES_READ * RUBY_FRAME_BYTES];
  if (!memory->read(memory, context, fields, sizeof fields)) return false;
  uint64_t stack = fields[0], bytes = fields[1] * 8, at = fields[2], end = stack + bytes;
  /* A fiber that ends has no stack any more. */
  if (!stack || fields[1] > STACK_MAX / 8 || at < stack || at > end ||
      (end - at) % RUBY_FRAME_BYTES)
    return false;
  while (at < end) {
    size_t count = (size_t)(end - at) / RUBY_FRAME_BYTES;
    if (count > FRAMES_READ) count = FRAMES_READ;
    if (!memory->read(memory, at, read, count * RUBY_FRAME_BYTES)) return false;
    for (size_t i = 0; i < count; i++) {
      if (frames->pcs.count >= depth) return true;
      if (!add_frame(w, read + i * RUBY_FRAME_BYTES)) return false;
    }
    at += count * RUBY_FRAME_BYTES;
  }
  return true;
}

static void read_thread(interpreter_t *self, pid_t tid, uint32_t depth) {
  ruby_t *r = (ruby_t *)self;
  for (size_t i = 0; i < r->threads.count; i++) {
    uint64_t context;
    walk_state_t w = {.ruby = r};
    const ruby_thread_t *thread = &r->threads.items[i];
    if (!thread_handle_is(thread->handle, self->target->machine, &self->memory, tid)) continue;
    if (!ruby_word(&self->memory, thread->address + RUBY_THREAD_CONTEXT, &context) ||
        !read_frames(&w, context, depth))
      w.problem = w.problem ? w.problem : interpreter_damaged;
    resolve(&w, NAMED_NONE);
    /* Methods in C may be outside of all calls of the evaluator: a thread or fiber began so. */
    if (!w.problem && self->frames.first < self->frames.pcs.count)
      interpreter_frames_end_call(&self->frames, INTERPRETER_OUTERMOST);
    interpreter_frames_end_state(&self->frames, w.problem);
  }
}

const interpreter_kind_t ruby_kind = {.language = LANGUAGE_RUBY,
                                      .file = "ruby",
                                      .size = sizeof(ruby_t),
                                      .find = find,
                                      .close = close,
                                      .list_threads = list_threads,
                                      .read = read_thread,
                                      .name = name};
