/* SPDX-License-Identifier: MIT
 *
 * PHP 8.2, without threads: the command line, FPM, and Apache's module.
 *
 * A process has one chain of frames (zend_execute_data), of the request that it serves. The
 * evaluator, execute_ex, runs frames up to one with the flag TOP. Names, files and lines are those
 * of debug_backtrace: a function that is written in C has the file and line of the PHP code that
 * called it, and the code of a file has the name of the statement that included it.
 *
 * A generator that delegates to another one (`yield from`) is not in the chain. A placeholder is:
 * a frame without a function, whose object is the generator.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/load.h"
#include "image/exported.h"
#include "target/interpreter/evaluator.h"
#include "target/interpreter/named.h"
#include "target/interpreter/php/layout.h"

#define FRAMES_MAX     (1u << 17)
#define DELEGATORS_MAX 256u
#define TEXT_MAX       1024u

typedef struct php {
  /* must be first */
  interpreter_t common;
  /* executor_globals, and the variable with the class of generators */
  uint64_t globals, generator_class;
  named_frames_t named;
} php_t;

/* A frame that was read. */
typedef struct php_frame {
  uint64_t instruction, function, object, caller;
  uint32_t flags;
} php_frame_t;

/* A function in PHP, and the instruction that it executes. */
typedef struct php_code {
  uint64_t name, class, file;
  uint32_t line, instruction, detail;
} php_code_t;

static bool word(const php_t *p, uint64_t address, uint64_t *out) {
  memory_t *memory = (memory_t *)&p->common.memory;
  return address && address % 8 == 0 && memory->read(memory, address, out, sizeof *out);
}

static bool bytes(php_t *p, uint64_t address, void *out, size_t size) {
  memory_t *memory = &p->common.memory;
  return address && address % 8 == 0 && memory->read(memory, address, out, size);
}

/* ---- the interpreter ------------------------------------------------------------------------ */

/* Every module states the configuration for which it was compiled. */
static bool is_known_build(php_t *p, uint64_t modules) {
  uint8_t module[PHP_MODULE_BYTES];
  uint64_t buckets, address;
  return word(p, modules + PHP_TABLE_BUCKETS, &buckets) && word(p, buckets, &address) &&
         bytes(p, address, module, sizeof module) &&
         load32(module + PHP_MODULE_API) == PHP_MODULE_API_NUMBER && !module[PHP_MODULE_DEBUG] &&
         !module[PHP_MODULE_THREADS];
}

static bool find(interpreter_t *self) {
  php_t *p = (php_t *)self;
  exported_t found[] = {{.name = "executor_globals"},
                        {.name = "execute_ex"},
                        {.name = "module_registry"},
                        {.name = "zend_ce_generator"}};
  if (!image_find_exported(&self->module->image, found, 4) || !found[1].address ||
      !found[2].address)
    return false;
  p->globals = found[0].address;
  evaluator_set(self, found[1].address, found[1].size);
  p->generator_class = found[3].address;
  if (found[0].size != PHP_GLOBALS_BYTES || !is_known_build(p, found[2].address))
    self->problem = "sonde knows PHP 8.2 without threads";
  else
    snprintf(self->version, sizeof self->version, "8.2");
  return true;
}

static void close(interpreter_t *self) { named_free(&((php_t *)self)->named); }

/* The only thread that runs PHP is the first one. */
static void list_threads(interpreter_t *self) { (void)self; }

/* ---- names ---------------------------------------------------------------------------------- */

/* Appends the string at ADDRESS to TEXT, which has SIZE bytes. */
static bool append(php_t *p, uint64_t address, char *text, size_t size) {
  uint64_t length;
  size_t used = strlen(text), room = size - 1 - used;
  memory_t *memory = &p->common.memory;
  if (!word(p, address + PHP_TEXT_LENGTH, &length)) return false;
  if (length > room) length = room;
  if (length && !memory->read(memory, address + PHP_TEXT_DATA, text + used, (size_t)length))
    return false;
  text[used + length] = 0;
  return true;
}

/* "name" or "Class::name"; NULL: unreadable. */
static char *name_of_function(php_t *p, uint64_t class, uint64_t name) {
  char text[TEXT_MAX] = "";
  uint64_t class_name;
  if (class && (!word(p, class + PHP_CLASS_NAME, &class_name) ||
                !append(p, class_name, text, sizeof text - 2)))
    return NULL;
  if (class) strcat(text, "::");
  return append(p, name, text, sizeof text) ? strdup(text) : NULL;
}

static char *text_of(php_t *p, uint64_t address) {
  char text[TEXT_MAX] = "";
  return append(p, address, text, sizeof text) ? strdup(text) : NULL;
}

/* The name of code without a name, which the frame with CALLER's instruction included. */
static const char *statement(const php_code_t *caller) {
  if (!caller || caller->instruction != PHP_INCLUDE) return "{main}";
  switch (caller->detail) {
  case PHP_DETAIL_EVAL: return "eval";
  case PHP_DETAIL_INCLUDE: return "include";
  case PHP_DETAIL_INCLUDE_ONCE: return "include_once";
  case PHP_DETAIL_REQUIRE: return "require";
  case PHP_DETAIL_REQUIRE_ONCE: return "require_once";
  default: return "{main}";
  }
}

/* CALLER: the frame outside of it; NULL: none. */
static uint64_t number_of_code(php_t *p, const php_code_t *code, const php_code_t *caller) {
  const char *fixed = code->name ? NULL : statement(caller);
  const uint64_t key[4] = {code->name ? code->name : (uint64_t)(uintptr_t)fixed, code->class,
                           code->file, (uint64_t)code->line << 1};
  bool is_new;
  uint64_t number = named_number(&p->named, key, &is_new);
  if (!is_new) return number;
  named_frame_t *named = named_at(&p->named, number);
  named->function = fixed ? strdup(fixed) : name_of_function(p, code->class, code->name);
  named->file = text_of(p, code->file);
  named->line = code->line;
  return number;
}

/* Of the zend_internal_function at FUNCTION. */
static uint64_t number_of_internal(interpreter_t *self, uint64_t function, uint64_t caller) {
  php_t *p = (php_t *)self;
  uint64_t name = 0, class = 0;
  if (!word(p, function + PHP_FUNCTION_NAME, &name) ||
      !word(p, function + PHP_FUNCTION_CLASS, &class))
    name = class = 0;
  const uint64_t key[4] = {name, class, caller, 1};
  bool is_new;
  uint64_t number = named_number(&p->named, key, &is_new);
  if (!is_new) return number;
  named_at(&p->named, number)->function = name_of_function(p, class, name);
  named_take_place(&p->named, number, caller);
  return number;
}

static bool name(const interpreter_t *self, uint64_t pc, interpreter_name_t *out) {
  return named_name(&((const php_t *)self)->named, pc, out);
}

/* ---- frames --------------------------------------------------------------------------------- */

static bool read_frame(php_t *p, uint64_t address, php_frame_t *out) {
  uint8_t frame[PHP_FRAME_BYTES];
  if (!bytes(p, address, frame, sizeof frame)) return false;
  *out = (php_frame_t){.instruction = load64(frame + PHP_FRAME_INSTRUCTION),
                       .function = load64(frame + PHP_FRAME_FUNCTION),
                       .object = load64(frame + PHP_FRAME_THIS),
                       .caller = load64(frame + PHP_FRAME_CALLER),
                       .flags = load32(frame + PHP_FRAME_FLAGS)};
  return true;
}

/* Sets the line of INSTRUCTION in the function whose fields are CODE. While an exception is raised,
 * the frame is at an instruction of the interpreter's own; the one before it is remembered. */
static bool read_instruction(php_t *p, const uint8_t *code, uint64_t instruction, php_code_t *out) {
  uint64_t first = load64(code + PHP_CODE_INSTRUCTIONS), last = load32(code + PHP_CODE_COUNT),
           own = p->globals + PHP_GLOBALS_EXCEPTION;
  if (instruction - own < PHP_EXCEPTION_INSTRUCTIONS * PHP_INSTRUCTION_BYTES) {
    if (!word(p, p->globals + PHP_GLOBALS_BEFORE_EXCEPTION, &instruction)) return false;
    out->line = load32(code + PHP_CODE_LAST_LINE);
    if (!instruction) return true;
  }
  uint8_t read[PHP_INSTRUCTION_BYTES];
  if (instruction - first >= last * PHP_INSTRUCTION_BYTES ||
      !bytes(p, instruction, read, sizeof read))
    return false;
  out->line = load32(read + PHP_INSTRUCTION_LINE);
  out->instruction = read[PHP_INSTRUCTION_NUMBER];
  out->detail = load32(read + PHP_INSTRUCTION_DETAIL);
  return true;
}

typedef enum step { STEP_DAMAGED, STEP_INTERNAL, STEP_CODE, STEP_FIBER } step_t;

/* Reads the function of FRAME, which has one. */
static step_t read_function(php_t *p, const php_frame_t *frame, php_code_t *out) {
  uint8_t code[PHP_CODE_BYTES];
  if (!bytes(p, frame->function, code, PHP_FUNCTION_CLASS + 8)) return STEP_DAMAGED;
  *out = (php_code_t){.name = load64(code + PHP_FUNCTION_NAME),
                      .class = load64(code + PHP_FUNCTION_CLASS)};
  /* The first frame of a fiber is of a function without a name. */
  if (code[PHP_FUNCTION_TYPE] == PHP_INTERNAL) return out->name ? STEP_INTERNAL : STEP_FIBER;
  if (code[PHP_FUNCTION_TYPE] != PHP_USER && code[PHP_FUNCTION_TYPE] != PHP_EVAL)
    return STEP_DAMAGED;
  if (!bytes(p, frame->function, code, sizeof code)) return STEP_DAMAGED;
  out->file = load64(code + PHP_CODE_FILE);
  return read_instruction(p, code, frame->instruction, out) ? STEP_CODE : STEP_DAMAGED;
}

/* The walk from the innermost frame outward. The name of code depends on the frame outside of it,
 * so the last code waits to be added. */
typedef struct walk_state {
  php_t *php;
  php_code_t code;
  bool has_code, ends_call;
  /* the first frame of a fiber was met; those outside of it are of another native stack */
  bool is_fiber;
  const char *problem;
} walk_state_t;

/* Adds the code that waits, which CALLER called; NULL: none. */
static bool flush(walk_state_t *w, const php_code_t *caller) {
  php_t *p = w->php;
  if (!w->has_code) return true;
  w->has_code = false;
  uint64_t number = number_of_code(p, &w->code, caller);
  if (number == NAMED_NONE || !named_resolve(&p->common, &p->named, number, number_of_internal) ||
      !named_add(&p->common, number))
    return false;
  return !w->ends_call || interpreter_frames_end_call(&p->common.frames, 0);
}

/* Adds FRAME, which has a function. IS_RUN: it is in the chain, so the flag TOP ends a call. */
static bool add_frame(walk_state_t *w, const php_frame_t *frame, bool is_run) {
  php_code_t code;
  switch (read_function(w->php, frame, &code)) {
  case STEP_FIBER: w->is_fiber = true; return true;
  case STEP_INTERNAL:
    return flush(w, NULL) && named_add_waiting(&w->php->common, &w->php->named, frame->function);
  case STEP_CODE:
    if (!flush(w, &code)) return false;
    w->code = code;
    w->has_code = true;
    w->ends_call = is_run && frame->flags & PHP_FRAME_TOP;
    return true;
  default: return false;
  }
}

/* Adds the generators from the one that LEAF delegates to, but one, out to LEAF. The innermost one
 * runs, and is in the chain. */
static bool add_delegators(walk_state_t *w, uint64_t leaf) {
  php_t *p = w->php;
  uint64_t found[DELEGATORS_MAX], inner;
  size_t count = 0;
  for (uint64_t at = leaf;; at = inner) {
    if (!word(p, at + PHP_GENERATOR_INNER, &inner)) return false;
    if (!inner) break;
    if (count == DELEGATORS_MAX) return false;
    found[count++] = at;
  }
  while (count--) {
    uint64_t address;
    php_frame_t frame;
    if (!word(p, found[count] + PHP_GENERATOR_FRAME, &address) || !read_frame(p, address, &frame) ||
        !frame.function || !add_frame(w, &frame, false))
      return false;
  }
  return true;
}

/* Whether FRAME, which has no function, stands for generators. Others were inserted by the
 * interpreter. */
static bool is_placeholder(php_t *p, const php_frame_t *frame) {
  uint64_t class, generator;
  return (frame->flags & PHP_FRAME_TYPE) == PHP_OBJECT &&
         word(p, frame->object + PHP_OBJECT_CLASS, &class) &&
         word(p, p->generator_class, &generator) && class == generator;
}

static bool read_frames(walk_state_t *w, uint64_t at, uint32_t depth) {
  php_t *p = w->php;
  php_frame_t frame;
  for (uint32_t i = 0; at && !w->is_fiber && p->common.frames.pcs.count < depth;
       at = frame.caller) {
    if (i++ == FRAMES_MAX || !read_frame(p, at, &frame)) return false;
    bool done = frame.function              ? add_frame(w, &frame, true)
                : is_placeholder(p, &frame) ? add_delegators(w, frame.object)
                                            : true;
    if (!done) return false;
  }
  return flush(w, NULL);
}

static void read_thread(interpreter_t *self, pid_t tid, uint32_t depth) {
  php_t *p = (php_t *)self;
  walk_state_t w = {.php = p};
  uint64_t at;
  if (tid != interpreter_inner_tid(self, self->target->pid)) return;
  if (!word(p, p->globals + PHP_GLOBALS_FRAME, &at) || !read_frames(&w, at, depth) ||
      !named_resolve(self, &p->named, NAMED_NONE, number_of_internal))
    w.problem = interpreter_damaged;
  /* A function in C may be the first of a fiber. */
  if (!w.problem && self->frames.first < self->frames.pcs.count)
    interpreter_frames_end_call(&self->frames, INTERPRETER_OUTERMOST);
  p->named.waiting = 0;
  interpreter_frames_end_state(&self->frames, w.problem);
}

const interpreter_kind_t php_kind = {.language = LANGUAGE_PHP,
                                     .file = "php",
                                     .size = sizeof(php_t),
                                     .find = find,
                                     .close = close,
                                     .list_threads = list_threads,
                                     .read = read_thread,
                                     .name = name};
