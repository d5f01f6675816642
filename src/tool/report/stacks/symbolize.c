/* SPDX-License-Identifier: MIT
 *
 * Names for the frames of a target. A pc is named once, however many stacks hold it: ten thousand
 * threads of a server share a few hundred pcs.
 *
 * A return address is looked up one byte before itself, so that the call is named and not what
 * follows it; the innermost pc, and one that a signal interrupted, as they are.
 */
#include <stdlib.h>
#include <string.h>

#include "image/path.h"
#include "report/stacks/stacks.h"
#include "target/jit.h"

typedef struct slot {
  symbolized_pc_t *named; /* NULL: free */
} slot_t;

struct stack_symbolizer {
  target_t *target;
  stack_symbolizer_options_t options;
  symbolizer_t *files;
  jit_t *jit; /* code made at run time; opened when the first pc wants it */
  bool jit_tried;
  symbol_module_t **modules; /* by index in the target's modules; NULL: not asked yet */
  slot_t *slots;             /* open addressing */
  size_t slot_count, used;
};

stack_symbolizer_t *stack_symbolizer_new(target_t *target,
                                         const stack_symbolizer_options_t *options) {
  stack_symbolizer_t *symbolizer = calloc(1, sizeof *symbolizer);
  if (!symbolizer) return NULL;
  symbolizer->target = target;
  symbolizer->options = *options;
  symbolizer->files = symbolizer_new(&(symbol_options_t){.no_lines = options->no_lines,
                                                         .no_inlines = options->no_lines,
                                                         .progress = options->progress});
  symbolizer->slot_count = 1024;
  symbolizer->slots = calloc(symbolizer->slot_count, sizeof *symbolizer->slots);
  symbolizer->modules = calloc(target->modules.count + 1, sizeof *symbolizer->modules);
  if (symbolizer->files && symbolizer->slots && symbolizer->modules) return symbolizer;
  stack_symbolizer_free(symbolizer);
  return NULL;
}

void stack_symbolizer_free(stack_symbolizer_t *symbolizer) {
  if (!symbolizer) return;
  for (size_t i = 0; symbolizer->slots && i < symbolizer->slot_count; i++) {
    if (!symbolizer->slots[i].named) continue;
    free(symbolizer->slots[i].named->functions);
    free(symbolizer->slots[i].named);
  }
  free(symbolizer->slots);
  free(symbolizer->modules);
  jit_close(symbolizer->jit);
  if (symbolizer->files) symbolizer_free(symbolizer->files);
  free(symbolizer);
}

/* ---- the table ---------------------------------------------------------------------------- */

static size_t hash(uint64_t pc, bool exact) {
  return (size_t)((pc * 2 + exact) * 0x9e3779b97f4a7c15ull >> 20);
}

static slot_t *find_slot(slot_t *slots, size_t count, uint64_t pc, bool exact) {
  for (size_t i = hash(pc, exact) & (count - 1);; i = (i + 1) & (count - 1)) {
    symbolized_pc_t *named = slots[i].named;
    if (!named || (named->pc == pc && named->exact == exact)) return &slots[i];
  }
}

static bool grow(stack_symbolizer_t *symbolizer) {
  size_t count = symbolizer->slot_count * 2;
  slot_t *slots = calloc(count, sizeof *slots);
  if (!slots) return false;
  for (size_t i = 0; i < symbolizer->slot_count; i++) {
    symbolized_pc_t *named = symbolizer->slots[i].named;
    if (named) find_slot(slots, count, named->pc, named->exact)->named = named;
  }
  free(symbolizer->slots);
  symbolizer->slots = slots;
  symbolizer->slot_count = count;
  return true;
}

/* ---- one name ----------------------------------------------------------------------------- */

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

/* Files that makers of code map to keep it in, or to announce it: no images. */
static bool is_jit_file(const module_t *module) {
  return strncmp(module->path, "/memfd:", 7) == 0 || strncmp(module->path, "/dev/", 5) == 0 ||
         strstr(module->path, "/jit-");
}

const char *stacks_role(const target_t *target, const module_t *module) {
  if (target->exe && strcmp(module->path, target->exe) == 0) return "app";
  if (path_is_system(module->path) || strcmp(module->path, "[vdso]") == 0) return "system";
  return "library";
}

static bool is_system(const stack_symbolizer_t *symbolizer, const module_t *module) {
  if (symbolizer->options.system) return system_is(symbolizer->options.system, module->path);
  return strcmp(stacks_role(symbolizer->target, module), "system") == 0;
}

static void look_up_jit(stack_symbolizer_t *symbolizer, symbolized_pc_t *named) {
  if (!symbolizer->jit_tried) symbolizer->jit = jit_open(symbolizer->target);
  symbolizer->jit_tried = true;
  const jit_symbol_t *symbol =
      symbolizer->jit ? jit_find(symbolizer->jit, named->exact ? named->pc : named->pc - 1) : NULL;
  named->why = symbolizer->jit
                   ? "the code was made at run time, and its map does not name it"
                   : "no file stands behind it: code made at run time, without a perf map";
  if (!symbol) return;
  named->functions = calloc(1, sizeof *named->functions);
  if (!named->functions) return;
  named->count = 1;
  named->source = jit_source(symbolizer->jit);
  named->functions[0] = (symbol_frame_t){.function = symbol->name,
                                         .raw = symbol->name,
                                         .has_offset = true,
                                         .function_offset = named->pc - symbol->address};
  named->why = NULL;
}

static void look_up(stack_symbolizer_t *symbolizer, symbolized_pc_t *named) {
  module_t *module = target_module(symbolizer->target, named->exact ? named->pc : named->pc - 1);
  named->module = module;
  named->system = module && is_system(symbolizer, module);
  if (!module || (module->state != MODULE_READY && is_jit_file(module))) {
    named->module = NULL;
    look_up_jit(symbolizer, named);
    return;
  }
  if (module->state != MODULE_READY) {
    named->why = module->problem ? module->problem : "its file cannot be read";
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
  /* The offset is that of the pc, which for a return address is one more than what was asked. */
  symbol_frame_t *outermost = &named->functions[count - 1];
  if (outermost->has_offset && !named->exact) outermost->function_offset++;
}

const symbolized_pc_t *stack_symbolizer_lookup(stack_symbolizer_t *symbolizer,
                                               const frame_t *frame) {
  slot_t *slot = find_slot(symbolizer->slots, symbolizer->slot_count, frame->pc, frame->exact);
  if (slot->named) return slot->named;
  if (symbolizer->used * 2 >= symbolizer->slot_count) {
    if (!grow(symbolizer)) return NULL;
    slot = find_slot(symbolizer->slots, symbolizer->slot_count, frame->pc, frame->exact);
  }
  symbolized_pc_t *named = calloc(1, sizeof *named);
  if (!named) return NULL;
  named->pc = frame->pc;
  named->exact = frame->exact;
  look_up(symbolizer, named);
  slot->named = named;
  symbolizer->used++;
  return named;
}

const char *stack_symbolizer_debug_path(stack_symbolizer_t *symbolizer, const module_t *module) {
  symbol_module_t *symbols = symbols_of(symbolizer, module);
  return symbols ? symbol_debug_path(symbols) : NULL;
}
