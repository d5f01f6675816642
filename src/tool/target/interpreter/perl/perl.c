/* SPDX-License-Identifier: MIT
 *
 * Perl 5.36 with threads, as Debian builds it: the command, and programs with its library.
 *
 * Perl executes a tree of operations. The evaluator, Perl_runops_standard, is called for the main
 * program, and for code that C functions call: destructors, callbacks of sort and of modules in C,
 * signal handlers, tied variables, overloaded operators, BEGIN blocks. The frames, names, files and
 * lines are those of `caller`.
 *
 * The blocks tell where each call of the evaluator begins:
 * - A function after which nothing continues was called by C, as was an eval of a text. The last
 *   operation of a block of sort, of `defer` and of a regular expression has no next one either,
 * and begins no call.
 * - An eval that no operation of an eval began is that of call_sv, a C function that catches
 *   exceptions. It runs outside of the evaluator, in the function with the environment after its
 *   own.
 *
 * Code that C called continues in a further call of the evaluator after its first eval (docatch in
 * Perl's pp_ctl.c). The function that makes it has an environment, too.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "image/exported.h"
#include "target/interpreter/evaluator.h"
#include "target/interpreter/named.h"
#include "target/interpreter/perl/blocks.h"
#include "target/interpreter/perl/names.h"
#include "target/interpreter/perl/running.h"
#include "target/interpreter/perl/statement.h"

#define FUNCTION_MAX 1024u
#define FILE_MAX     4096u
#define NO_LIMIT     UINT64_MAX

static const char debugged[] = "Perl's debugger or profiler (perl -d) is active",
                  replaced[] = "the program replaced Perl's evaluator",
                  too_many[] = "its functions are nested deeper than the limit";

#define CACHED 64u /* a power of two */

/* The number of a function's frame that was read before, on the same thread at the same time. */
typedef struct perl_cached {
  uint64_t code;
  perl_place_t place;
  uint64_t number;
} perl_cached_t;

typedef struct perl {
  /* must be first */
  interpreter_t common;
  perl_layout_t layout;
  /* PL_curinterp, the variable, and what it refers to */
  uint64_t first, first_interpreter;
  perl_running_t running;
  perl_blocks_t blocks;
  perl_pages_t pages;
  perl_cached_t cached[CACHED];
  named_frames_t named;
  char function[FUNCTION_MAX], file[FILE_MAX];
} perl_t;

/* ---- the interpreter ------------------------------------------------------------------------ */

/* Reads the version, and the size that the structure of an interpreter has. */
static bool is_known_build(perl_t *p, const exported_t *found) {
  uint8_t revision, version, subversion;
  uint16_t bytes;
  memory_t *memory = &p->common.memory;
  static const perl_layout_t x86_64 = PERL_LAYOUT_X86_64, aarch64 = PERL_LAYOUT_AARCH64;
  p->layout = p->common.target->machine == MACHINE_X86_64 ? x86_64 : aarch64;
  if (!memory->read(memory, found[2].address, &revision, 1) ||
      !memory->read(memory, found[3].address, &version, 1) ||
      !memory->read(memory, found[4].address, &subversion, 1) ||
      !memory->read(memory, found[5].address, &bytes, sizeof bytes))
    return false;
  snprintf(p->common.version, sizeof p->common.version, "%u.%u.%u", revision, version, subversion);
  return revision == 5 && version == 36 && bytes == p->layout.bytes;
}

static bool find(interpreter_t *self) {
  perl_t *p = (perl_t *)self;
  exported_t found[] = {{.name = "PL_curinterp"},   {.name = "Perl_runops_standard"},
                        {.name = "PL_revision"},    {.name = "PL_version"},
                        {.name = "PL_subversion"},  {.name = "PL_interp_size"},
                        {.name = "Perl_die_unwind"}};
  if (!image_find_exported(&self->module->image, found, 7)) return false;
  for (int i = 0; i < 6; i++)
    if (!found[i].address) return false;
  p->pages.memory = &self->memory;
  p->first = found[0].address;
  evaluator_set(self, found[1].address, found[1].size);
  self->unwinder = found[6].address;
  self->unwinder_bytes = found[6].size;
  if (!is_known_build(p, found)) self->problem = "sonde knows Perl 5.36 with threads";
  return true;
}

static void close(interpreter_t *self) {
  perl_t *p = (perl_t *)self;
  perl_blocks_free(&p->blocks);
  named_free(&p->named);
}

/* They are found when a thread is read. */
static void list_threads(interpreter_t *self) { (void)self; }

/* ---- names ---------------------------------------------------------------------------------- */

static bool is_same(const named_frame_t *named, const perl_t *p) {
  return named->function && named->file && strcmp(named->function, p->function) == 0 &&
         strcmp(named->file, p->file) == 0;
}

/* The number of the frame with p->function, p->file and LINE. The program uses the memory of code
 * again, so a frame is known by its text. */
static uint64_t number_of(perl_t *p, uint32_t line) {
  uint64_t key[4] = {hash_text(0, p->function), hash_text(0, p->file), line, 0};
  for (;; key[3]++) {
    bool is_new;
    uint64_t number = named_number(&p->named, key, &is_new);
    if (number == NAMED_NONE) return number;
    named_frame_t *named = named_at(&p->named, number);
    if (!is_new && is_same(named, p)) return number;
    if (!is_new) continue;
    named->function = strdup(p->function);
    named->file = strdup(p->file);
    named->line = line;
    return named->function && named->file ? number : NAMED_NONE;
  }
}

static bool name(const interpreter_t *self, uint64_t pc, interpreter_name_t *out) {
  return named_name(&((const perl_t *)self)->named, pc, out);
}

/* Names an eval as Perl's own backtraces do (Carp). */
static bool name_eval(perl_t *p, const perl_block_t *b) {
  if (b->operation == PERL_OP_ENTEREVAL) {
    strcpy(p->function, "eval '...'");
    return true;
  }
  strcpy(p->function, !b->code                         ? "eval {...}"
                      : b->operation == PERL_OP_DOFILE ? "do "
                                                       : "require ");
  return !b->code || perl_append_value(&p->pages, b->code, p->function, sizeof p->function);
}

/* Sets p->function. */
static bool name_block(perl_t *p, const perl_block_t *b) {
  p->function[0] = 0;
  if (b->type == PERL_BLOCK_EVAL) return name_eval(p, b);
  if (b->type == PERL_BLOCK_FUNCTION)
    return perl_append_function(&p->pages, b->code, p->function, sizeof p->function);
  strcpy(p->function, "format");
  return true;
}

/* ---- frames --------------------------------------------------------------------------------- */

/* The walk from the innermost block outward. */
typedef struct walk_state {
  perl_t *perl;
  const perl_blocks_t *blocks;
  /* where the next outer frame is */
  perl_place_t place;
  /* the index of an environment: those of outer blocks are the same or further out */
  size_t environment;
  /* the first one in interpreter_frames_t.continued */
  size_t continued;
  /* what the call that is being read is inside of */
  uint64_t limit;
} walk_state_t;

/* Sets *NUMBER to that of the frame whose name is in p->function. */
static bool number_frame(walk_state_t *w, uint64_t *number) {
  perl_t *p = w->perl;
  uint32_t line;
  if (!perl_place_read(&p->pages, &w->place, p->file, sizeof p->file, &line)) return false;
  *number = number_of(p, line);
  return *number != NAMED_NONE;
}

/* Adds the frame whose name is in p->function. */
static bool add_frame(walk_state_t *w) {
  uint64_t number;
  return number_frame(w, &number) && named_add(&w->perl->common, number);
}

/* Adds the frame of the function B. One that calls itself has many. */
static bool add_function(walk_state_t *w, const perl_block_t *b) {
  perl_t *p = w->perl;
  const perl_place_t *at = &w->place;
  uint64_t hash = hash_pair(b->code, hash_pair(at->statement, at->operation));
  perl_cached_t *known = &p->cached[hash & (CACHED - 1)];
  if (!b->code) return false;
  if (known->code != b->code || known->place.statement != at->statement ||
      known->place.operation != at->operation || known->place.is_after != at->is_after) {
    known->code = 0;
    if (!name_block(p, b) || !number_frame(w, &known->number)) return false;
    known->code = b->code;
    known->place = *at;
  }
  return named_add(&p->common, known->number);
}

/* Adds BLOCK, if it is a frame for `caller`. */
static bool add_block(walk_state_t *w, const perl_block_t *b) {
  bool is_hidden = b->type == PERL_BLOCK_FUNCTION ? b->flags & PERL_FUNCTION_IS_FAKE
                   : b->type == PERL_BLOCK_EVAL   ? b->flags & PERL_EVAL_IS_TRY
                                                  : b->type != PERL_BLOCK_FORMAT;
  if (is_hidden) return true;
  if (b->type == PERL_BLOCK_FUNCTION ? !add_function(w, b)
                                     : !name_block(w->perl, b) || !add_frame(w))
    return false;
  w->place = (perl_place_t){b->statement, b->next, true};
  return true;
}

static bool end_call(walk_state_t *w) {
  uint64_t limit = w->limit;
  w->limit = NO_LIMIT;
  return interpreter_frames_end_limited(&w->perl->common.frames, limit);
}

/* The native function with the environment at INDEX continues no call. */
static void continues_none(walk_state_t *w, size_t index) {
  w->perl->common.frames.continued.items[w->continued + index] = 0;
}

/* Ends a call whose frames run in the native function that has the environment at INDEX. */
static bool end_call_in(walk_state_t *w, size_t index) {
  uint64_t environment = w->blocks->environments.items[index];
  continues_none(w, index);
  return interpreter_frames_end_call(&w->perl->common.frames, environment);
}

static bool has_frames(const walk_state_t *w) {
  const interpreter_frames_t *f = &w->perl->common.frames;
  return f->first < f->pcs.count;
}

/* Sets *INDEX to that of ENVIRONMENT, which is that of an outer block. The outermost one, which is
 * a part of the interpreter, is after the others. */
static bool find_environment(const walk_state_t *w, uint64_t environment, size_t *index) {
  const perl_blocks_t *b = w->blocks;
  size_t i = w->environment;
  while (i < b->environments.count && b->environments.items[i] != environment)
    i++;
  *index = i;
  return i < b->environments.count || environment == b->interpreter + w->perl->layout.outermost;
}

/* Of C code that catches exceptions. */
static bool is_of_c(const perl_block_t *b) {
  switch (b->operation) {
  case PERL_OP_REQUIRE:
  case PERL_OP_DOFILE:
  case PERL_OP_ENTEREVAL:
  case PERL_OP_ENTERTRY:
  case PERL_OP_ENTERTRYCATCH: return false;
  default: return true;
  }
}

/* Whether the block at index I was begun by a block whose last operation has no next one. */
static bool is_last_of_block(const walk_state_t *w, size_t i) {
  const perl_block_t *b = &w->blocks->items.items[i], *outer = b + 1;
  return i + 1 < w->blocks->items.count && outer->stack == b->stack &&
         (outer->type == PERL_BLOCK_SORT || outer->type == PERL_BLOCK_DEFER ||
          (outer->type == PERL_BLOCK_FUNCTION && outer->flags & PERL_FUNCTION_OF_PATTERN));
}

static bool is_called_by_c(const walk_state_t *w, size_t i) {
  const perl_block_t *b = &w->blocks->items.items[i];
  switch (b->type) {
  case PERL_BLOCK_FORMAT: return false;
  case PERL_BLOCK_FUNCTION:
    return !b->next && (b->flags & PERL_FUNCTION_IS_REPEATED || !is_last_of_block(w, i));
  case PERL_BLOCK_EVAL:
    return !b->next && b->operation == PERL_OP_ENTEREVAL && !is_last_of_block(w, i);
  default: return true; /* a block of sort, or of `defer` */
  }
}

/* Whether the text or file of the eval B is being compiled, by C functions. */
static bool compiles(walk_state_t *w, const perl_block_t *b) {
  uint64_t body;
  uint32_t depth;
  if (b->operation == PERL_OP_ENTERTRY || b->operation == PERL_OP_ENTERTRYCATCH) return false;
  return !b->text || !perl_word(&w->perl->pages, b->text, &body) ||
         !perl_read(&w->perl->pages, body + PERL_CODE_DEPTH, &depth, sizeof depth) || !depth;
}

static bool read_eval(walk_state_t *w, size_t i) {
  const perl_block_t *b = &w->blocks->items.items[i];
  size_t at, before = w->environment;
  if (!find_environment(w, b->environment, &at) || !add_block(w, b)) return false;
  w->environment = at;
  if (is_of_c(b)) {
    const interpreter_frames_t *f = &w->perl->common.frames;
    return at > before && f->pcs.count == f->first + 1 && end_call_in(w, at - 1);
  }
  if (at == w->blocks->environments.count) return false;
  if (is_called_by_c(w, i)) {
    continues_none(w, at);
    return compiles(w, b) ? end_call_in(w, at) : end_call(w);
  }
  if (b->environment < w->limit && !compiles(w, b)) w->limit = b->environment;
  return true;
}

static bool read_block(walk_state_t *w, size_t i) {
  const perl_block_t *b = &w->blocks->items.items[i];
  if (b->type == PERL_BLOCK_EVAL) return read_eval(w, i);
  return add_block(w, b) && (!is_called_by_c(w, i) || end_call(w));
}

/* The main program is what runs outside of all blocks, or what is compiled there. A thread that
 * began meanwhile has the phase, too, but compiles nothing: only the first interpreter does. */
static bool read_main(walk_state_t *w) {
  const perl_blocks_t *b = w->blocks;
  perl_t *p = w->perl;
  size_t outermost = b->environments.count - 1;
  bool is_compiled = b->phase == PERL_PHASE_START && b->interpreter == p->first_interpreter &&
                     b->items.count && !has_frames(w);
  if (!b->has_main && !is_compiled) return !has_frames(w);
  strcpy(p->function, "main program");
  if (!add_frame(w)) return false;
  if (is_compiled) return end_call_in(w, outermost);
  continues_none(w, outermost);
  if (w->limit == NO_LIMIT) w->limit = b->environments.items[outermost];
  return end_call(w);
}

/* Each environment may be that of a function which continues a call. */
static bool add_continued(perl_t *p) {
  interpreter_frames_t *f = &p->common.frames;
  for (size_t i = 0; i < p->blocks.environments.count; i++) {
    uint64_t *added = ARRAY_ADD(f->continued);
    if (!added) return false;
    *added = p->blocks.environments.items[i];
  }
  return true;
}

/* Returns why frames are missing; NULL: none are. */
static const char *read_interpreter(perl_t *p, uint64_t address, const perl_range_t *stack,
                                    uint32_t depth) {
  walk_state_t w = {.perl = p,
                    .blocks = &p->blocks,
                    .continued = p->common.frames.continued.count,
                    .limit = NO_LIMIT};
  switch (
      perl_blocks_read(&p->pages, &p->layout, address, stack, p->common.evaluator, &p->blocks)) {
  case PERL_BLOCKS_READ: break;
  case PERL_BLOCKS_DEBUGGED: return debugged;
  case PERL_BLOCKS_REPLACED: return replaced;
  case PERL_BLOCKS_MANY: return too_many;
  default: return interpreter_damaged;
  }
  if (!add_continued(p)) return interpreter_damaged;
  w.place = (perl_place_t){p->blocks.statement, p->blocks.operation, false};
  size_t first = p->blocks.omitted;
  if (first) {
    const perl_block_t *b = &p->blocks.items.items[first - 1];
    w.place = (perl_place_t){b->statement, b->next, true};
  }
  for (size_t i = first; i < p->blocks.items.count; i++) {
    if (p->common.frames.pcs.count >= depth) {
      end_call(&w);
      return too_many;
    }
    if (!read_block(&w, i)) return interpreter_damaged;
  }
  return read_main(&w) ? NULL : interpreter_damaged;
}

static void read_thread(interpreter_t *self, pid_t tid, uint32_t depth) {
  perl_t *p = (perl_t *)self;
  perl_range_t stack = perl_stack_of(self);
  const char *problem = NULL;
  (void)tid;
  perl_pages_forget(&p->pages);
  memset(p->cached, 0, sizeof p->cached);
  if (!perl_word(&p->pages, p->first, &p->first_interpreter)) p->first_interpreter = 0;
  perl_running_find(&p->running, &p->pages, &p->layout, p->first_interpreter, &stack);
  for (size_t i = 0; i < p->running.count && !problem; i++)
    problem = read_interpreter(p, p->running.items[i], &stack, depth);
  interpreter_frames_end_state(&self->frames, problem);
}

const interpreter_kind_t perl_kind = {.language = LANGUAGE_PERL,
                                      .file = "perl",
                                      .size = sizeof(perl_t),
                                      .counts_exactly = true,
                                      .find = find,
                                      .close = close,
                                      .list_threads = list_threads,
                                      .read = read_thread,
                                      .name = name};
