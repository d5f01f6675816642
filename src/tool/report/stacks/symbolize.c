/* SPDX-License-Identifier: MIT
 *
 * Symbolizes the frames of a target. Each pc is looked up once, however many stacks contain it:
 * thousands of threads share a few hundred pcs.
 *
 * A return address is looked up at the byte before it, which is part of the call. The innermost pc
 * and an interrupted pc are looked up as they are.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"
#include "report/stacks/stacks.h"
#include "symbol/demangle.h"
#include "symbol/language.h"
#include "target/jit/live.h"
#include "target/interpreter/interpreter.h"

struct stack_symbolizer {
  target_t *target;
  stack_symbolizer_options_t options;
  symbolizer_t *files;
  jit_live_t jit; /* generated code; opened on first use */
  bool jit_tried;
  char why[PATH_MAX + 128];  /* why it is not used */
  symbol_module_t **modules; /* by index of the target's modules; NULL: not opened yet */
  symbolized_pc_t **pcs;
  size_t count, capacity;
  hash_index_t index; /* of PCS, by pc and exactness */
};

stack_symbolizer_t *stack_symbolizer_new(target_t *target,
                                         const stack_symbolizer_options_t *options) {
  stack_symbolizer_t *symbolizer = calloc(1, sizeof *symbolizer);
  if (!symbolizer) return NULL;
  symbolizer->target = target;
  symbolizer->options = *options;
  symbolizer->files = symbolizer_new(&(symbol_options_t){.no_lines = options->no_lines,
                                                         .no_inlines = options->no_lines,
                                                         .debug_dirs = options->debug_dirs,
                                                         .sysroots = options->sysroots,
                                                         .progress = options->progress});
  symbolizer->modules = calloc(target->modules.count + 1, sizeof *symbolizer->modules);
  if (symbolizer->files && symbolizer->modules) return symbolizer;
  stack_symbolizer_free(symbolizer);
  return NULL;
}

void stack_symbolizer_free(stack_symbolizer_t *symbolizer) {
  if (!symbolizer) return;
  for (size_t i = 0; i < symbolizer->count; i++) {
    free(symbolizer->pcs[i]->functions);
    free(symbolizer->pcs[i]->demangled);
    free(symbolizer->pcs[i]);
  }
  free(symbolizer->pcs);
  hash_free(&symbolizer->index);
  free(symbolizer->modules);
  if (symbolizer->jit_tried) jit_live_close(&symbolizer->jit);
  if (symbolizer->files) symbolizer_free(symbolizer->files);
  free(symbolizer);
}

/* ---- one pc ------------------------------------------------------------------------------- */

static symbol_module_t *symbols_of(stack_symbolizer_t *symbolizer, const module_t *module) {
  symbol_module_t **slot = &symbolizer->modules[module - symbolizer->target->modules.items];
  if (*slot) return *slot;
  symbol_source_t source = {.path = module->path,
                            .open_path = module->open_path,
                            .build_id = module->image.build_id,
                            .build_id_size = module->image.build_id_size};
  *slot = symbolizer_module(symbolizer->files, &source);
  return *slot;
}

/* Files that code generators map, which are not images. */
static bool is_jit_file(const module_t *module) {
  return strncmp(module->path, "/memfd:", 7) == 0 || strncmp(module->path, "/dev/", 5) == 0 ||
         strstr(module->path, "/jit-");
}

const char *stacks_role(const target_t *target, const system_rules_t *rules,
                        const module_t *module) {
  if (system_is(rules, target->exe, module->path)) return "system";
  bool is_exe = target->exe && strcmp(module->path, target->exe) == 0;
  return is_exe || system_verdict(rules, module->path) == SYSTEM_NO ? "app" : "library";
}

/* The image of an interpreter is not the program's own, also if it is the main executable. */
static bool is_system(const stack_symbolizer_t *symbolizer, const module_t *module) {
  const target_t *target = symbolizer->target;
  return (target->interpreter && target->interpreter->module == module) ||
         system_is(symbolizer->options.system, target->exe, module->path);
}

/* Why generated code has no name. The text is valid as long as the symbolizer. */
static const char *why_unnamed(stack_symbolizer_t *symbolizer) {
  const jit_live_t *jit = &symbolizer->jit;
  if (jit->codes && jit->file_count) return "generated code that its perf map does not name";
  if (jit->codes) return "generated code that its symbol files do not name";
  if (!jit->files.problem) return "generated code without a perf map";
  snprintf(symbolizer->why, sizeof symbolizer->why, "generated code; %s is not used: %s",
           jit->files.path, jit->files.problem);
  return symbolizer->why;
}

static void look_up_jit(stack_symbolizer_t *symbolizer, symbolized_pc_t *named) {
  jit_live_t *jit = &symbolizer->jit;
  if (!symbolizer->jit_tried) jit_live_open(jit, symbolizer->target);
  symbolizer->jit_tried = true;
  const jit_symbol_t *symbol =
      jit->codes ? jit_find(jit->codes, named->exact ? named->pc : named->pc - 1) : NULL;
  named->why = why_unnamed(symbolizer);
  if (!symbol) return;
  named->functions = calloc(1, sizeof *named->functions);
  if (!named->functions) return;
  named->count = 1;
  named->source = jit_live_file_of(jit, symbol);
  static char text[DEMANGLE_MAX];
  if (demangle(symbol->name, text, sizeof text)) named->demangled = strdup(text);
  const char *function = named->demangled ? named->demangled : symbol->name;
  named->functions[0] = (symbol_frame_t){.function = function,
                                         .raw = symbol->name,
                                         .has_offset = true,
                                         .function_offset = named->pc - symbol->address};
  named->why = NULL;
}

static void look_up_interpreted(stack_symbolizer_t *symbolizer, symbolized_pc_t *named) {
  const interpreter_t *interpreter = symbolizer->target->interpreter;
  interpreter_name_t name;
  named->language = language_of_pc(named->pc);
  named->why = "its name could not be read";
  if (!interpreter || !interpreter->kind->name(interpreter, named->pc, &name) || !name.function)
    return;
  named->system = language_facts(named->language)->role(name.file) == SOURCE_STANDARD;
  named->functions = calloc(1, sizeof *named->functions);
  if (!named->functions) return;
  named->count = 1;
  named->why = NULL;
  named->functions[0] = (symbol_frame_t){.function = name.function, .raw = name.function};
  if (symbolizer->options.no_lines) return;
  named->functions[0].file = name.file;
  named->functions[0].line = name.line;
}

static void look_up(stack_symbolizer_t *symbolizer, symbolized_pc_t *named) {
  if (language_of_pc(named->pc) != LANGUAGE_NATIVE) {
    look_up_interpreted(symbolizer, named);
    return;
  }
  module_t *module = target_module(symbolizer->target, named->exact ? named->pc : named->pc - 1);
  named->module = module;
  named->system = module && is_system(symbolizer, module);
  if (!module || (module->state != MODULE_READY && is_jit_file(module))) {
    named->module = NULL;
    look_up_jit(symbolizer, named);
    return;
  }
  if (module->state != MODULE_READY) {
    named->why = module->problem ? module->problem : "cannot read its file";
    return;
  }
  named->offset = named->pc - module->image.slide;
  named->has_offset = true;
  symbol_module_t *symbols = symbols_of(symbolizer, module);
  if (!symbols) return;
  symbol_frame_t frames[SYMBOL_FRAMES_MAX];
  symbol_reason_t reason = SYMBOL_NAMED;
  int count = symbol_lookup(symbols, named->exact ? named->offset : named->offset - 1, frames,
                            SYMBOL_FRAMES_MAX, &reason);
  if (reason != SYMBOL_NAMED) named->why = symbol_reason_text(reason);
  if (count <= 0) return;
  named->functions = malloc((size_t)count * sizeof *frames);
  if (!named->functions) return;
  memcpy(named->functions, frames, (size_t)count * sizeof *frames);
  named->count = count;
  /* The lookup of a return address was one byte lower. */
  symbol_frame_t *outermost = &named->functions[count - 1];
  if (outermost->has_offset && !named->exact) outermost->function_offset++;
}

static uint64_t hash_pc(uint64_t pc, bool exact) { return hash_number(pc * 2 + exact); }

static uint64_t hash_of_pc(const void *symbolizer, size_t i) {
  const symbolized_pc_t *named = ((const stack_symbolizer_t *)symbolizer)->pcs[i];
  return hash_pc(named->pc, named->exact);
}

const symbolized_pc_t *stack_symbolizer_lookup(stack_symbolizer_t *s, const frame_t *frame) {
  uint32_t *slot;
  if (!hash_reserve(&s->index, s->count, hash_of_pc, s)) return NULL;
  HASH_FIND(&s->index, hash_pc(frame->pc, frame->exact), slot) {
    const symbolized_pc_t *known = s->pcs[*slot - 1];
    if (known->pc == frame->pc && known->exact == frame->exact) return known;
  }
  symbolized_pc_t *named = calloc(1, sizeof *named);
  if (!named || !ARRAY_GROW(s->pcs, s->count, s->capacity)) {
    free(named);
    return NULL;
  }
  s->pcs[s->count++] = named;
  *slot = (uint32_t)s->count;
  named->pc = frame->pc;
  named->exact = frame->exact;
  look_up(s, named);
  return named;
}

bool stack_symbolizer_variable(stack_symbolizer_t *symbolizer, uint64_t address, char *out,
                               size_t size) {
  module_t *module = target_module(symbolizer->target, address);
  symbol_module_t *symbols =
      module && module->state == MODULE_READY ? symbols_of(symbolizer, module) : NULL;
  return symbols && symbol_variable(symbols, address - module->image.slide, out, size);
}

const char *stack_symbolizer_debug_path(stack_symbolizer_t *symbolizer, const module_t *module) {
  symbol_module_t *symbols = symbols_of(symbolizer, module);
  return symbols ? symbol_debug_path(symbols) : NULL;
}
