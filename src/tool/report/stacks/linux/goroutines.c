/* SPDX-License-Identifier: MIT
 *
 * Facts: Go's src/runtime/runtime2.go (g, gobuf, m, the states) and proc.go (allgs). A goroutine
 * that does not run has its stack pointer and pc in g.sched.
 *
 * The program runs meanwhile. A goroutine counts as read if its state, stack pointer, pc and stack
 * are the same in two reads that follow each other; then no read met it while it ran.
 */
#include "report/stacks/goroutines.h"

#include <stdlib.h>
#include <string.h>

#include "recorder/preload_check.h"
#include "symbol/dwarf/structures.h"
#include "target/process.h"
#include "target/walk.h"

enum {
  GOROUTINES_MAX = 1 << 20,
  G_BYTES_MAX = 4096,
  REASONS_MAX = 256,
  REASON_BYTES_MAX = 40,
  ATTEMPTS = 3
};

/* The states of g.atomicstatus. */
enum {
  G_RUNNABLE = 1,
  G_RUNNING = 2,
  G_SYSCALL = 3,
  G_WAITING = 4,
  G_DEAD = 6,
  G_COPYING = 8,
  G_PREEMPTED = 9,
  G_STATES,
  G_SCANNED = 0x1000 /* the garbage collector reads its stack */
};

enum { AT_ID, AT_STATE, AT_REASON, AT_HIGH, AT_SP, AT_PC, AT_BP, AT_M, AT_CREATED, AT_START, OF_G };
enum { AT_THREAD = OF_G, MEMBERS };
enum { ALL, REASONS, VARIABLES };

typedef struct go {
  target_t *target;
  const module_t *module;
  structure_member_t members[MEMBERS];
  structure_variable_t variables[VARIABLES];
  size_t g_bytes;
  char reasons[REASONS_MAX][REASON_BYTES_MAX + 1];
  size_t reason_count;
  uint32_t depth;
  uint8_t *stack[2]; /* WINDOW_BYTES each */
  walk_t walk;
} go_t;

static bool read_bytes(const go_t *go, uint64_t address, void *out, size_t size) {
  memory_t *memory = go->target->memory;
  if (go->target->live) process_of(go->target)->memory.size = 0; /* a thread's stack */
  return memory->read(memory, address, out, size);
}

/* ---- the layout ----------------------------------------------------------------------------- */

static module_t *executable_of(target_t *target) {
  for (size_t i = 0; target->exe && i < target->modules.count; i++)
    if (!strcmp(target->modules.items[i].path, target->exe))
      return target_module(target, target->modules.items[i].start);
  return NULL;
}

static bool find_layout(go_t *go, const char *path) {
  static const char *const paths[OF_G] = {
      [AT_ID] = "goid",           [AT_STATE] = "atomicstatus",
      [AT_REASON] = "waitreason", [AT_HIGH] = "stack.hi",
      [AT_SP] = "sched.sp",       [AT_PC] = "sched.pc",
      [AT_BP] = "sched.bp",       [AT_M] = "m",
      [AT_CREATED] = "gopc",      [AT_START] = "startpc",
  };
  for (int i = 0; i < OF_G; i++)
    go->members[i] = (structure_member_t){.structure = "runtime.g", .path = paths[i]};
  go->members[AT_THREAD] = (structure_member_t){.structure = "runtime.m", .path = "procid"};
  go->variables[ALL].name = "runtime.allgs";
  go->variables[REASONS].name = "runtime.waitReasonStrings";
  if (!structures_find(path, go->members, MEMBERS, go->variables, VARIABLES)) return false;
  for (int i = 0; i < OF_G; i++)
    if (go->members[i].offset + 8 > go->g_bytes) go->g_bytes = go->members[i].offset + 8;
  return go->g_bytes <= G_BYTES_MAX && go->members[AT_THREAD].offset < G_BYTES_MAX;
}

static uint64_t variable_at(const go_t *go, int variable) {
  return go->variables[variable].address + go->module->image.slide;
}

/* The runtime's words for each reason. */
static void read_reasons(go_t *go) {
  uint64_t strings[REASONS_MAX][2]; /* address, size */
  size_t count = go->variables[REASONS].size / sizeof strings[0];
  if (count > REASONS_MAX) count = REASONS_MAX;
  if (!read_bytes(go, variable_at(go, REASONS), strings, count * sizeof strings[0])) return;
  for (size_t i = 0; i < count; i++) {
    size_t size = strings[i][1] < REASON_BYTES_MAX ? strings[i][1] : REASON_BYTES_MAX;
    if (!size || !read_bytes(go, strings[i][0], go->reasons[i], size)) go->reasons[i][0] = 0;
  }
  go->reason_count = count;
}

/* ---- one goroutine -------------------------------------------------------------------------- */

typedef struct g_bytes {
  uint8_t bytes[G_BYTES_MAX];
} g_bytes_t;

static uint64_t number_of(const go_t *go, const g_bytes_t *g, int member, size_t size) {
  uint64_t value = 0;
  memcpy(&value, g->bytes + go->members[member].offset, size);
  return value;
}

static uint32_t state_of(const go_t *go, const g_bytes_t *g) {
  return (uint32_t)number_of(go, g, AT_STATE, 4) & ~(uint32_t)G_SCANNED;
}

static const char *state_word(uint32_t state) {
  static const char *const words[G_STATES] = {
      [G_RUNNABLE] = "runnable", [G_RUNNING] = "running",         [G_SYSCALL] = "in a system call",
      [G_WAITING] = "waiting",   [G_COPYING] = "its stack grows", [G_PREEMPTED] = "preempted"};
  return state < G_STATES && words[state] ? words[state] : "in an unknown state";
}

static bool same(const go_t *go, const g_bytes_t *a, const g_bytes_t *b) {
  static const int compared[] = {AT_ID, AT_SP, AT_PC, AT_BP, AT_HIGH};
  for (size_t i = 0; i < sizeof compared / sizeof *compared; i++)
    if (number_of(go, a, compared[i], 8) != number_of(go, b, compared[i], 8)) return false;
  return state_of(go, a) == state_of(go, b);
}

static regs_t regs_of(const go_t *go, const g_bytes_t *g) {
  regs_t regs = {.pc = number_of(go, g, AT_PC, 8)};
  regs_set(&regs, machine_sp(go->target->machine), number_of(go, g, AT_SP, 8));
  regs_set(&regs, machine_fp(go->target->machine), number_of(go, g, AT_BP, 8));
  return regs;
}

/* Copies the stack of G twice. False if it ran meanwhile, or if it cannot be read. */
static bool copy_stack(const go_t *go, uint64_t address, const g_bytes_t *g, size_t *size) {
  g_bytes_t again;
  uint64_t sp = number_of(go, g, AT_SP, 8), high = number_of(go, g, AT_HIGH, 8);
  if (sp >= high) return false;
  *size = high - sp < WINDOW_BYTES ? (size_t)(high - sp) : WINDOW_BYTES;
  for (int i = 0; i < 2; i++)
    if (!read_bytes(go, sp, go->stack[i], *size)) return false;
  return !memcmp(go->stack[0], go->stack[1], *size) &&
         read_bytes(go, address, again.bytes, go->g_bytes) && same(go, g, &again);
}

/* Whether the stack of a goroutine in STATE is where g.sched says. */
static bool has_saved_stack(uint32_t state) {
  return state == G_RUNNABLE || state == G_WAITING || state == G_PREEMPTED;
}

static void walk_saved(go_t *go, const g_bytes_t *g, size_t size, thread_t *out) {
  regs_t regs = regs_of(go, g);
  if (go->target->live) {
    stack_copy_t copy = {regs, go->stack[0], size};
    stacks_of_copy(go->target, &copy, go->depth, out);
  } else {
    walk_stack(go->target, &regs, go->depth, &go->walk);
    walk_give(&go->walk, out);
  }
  /* What the runtime saved is a return address, but for a goroutine that has not begun. */
  if (out->frame_count && regs.pc != number_of(go, g, AT_START, 8)) out->frames[0].exact = false;
}

static void describe(const go_t *go, const g_bytes_t *g, goroutine_t *out) {
  uint32_t state = state_of(go, g);
  uint64_t m = number_of(go, g, AT_M, 8), thread, reason = number_of(go, g, AT_REASON, 1);
  out->id = number_of(go, g, AT_ID, 8);
  out->state = state_word(state);
  out->created_pc = number_of(go, g, AT_CREATED, 8);
  out->start_pc = number_of(go, g, AT_START, 8);
  if (state == G_WAITING && reason < go->reason_count)
    snprintf(out->wait, sizeof out->wait, "%s", go->reasons[reason]);
  if ((state == G_RUNNING || state == G_SYSCALL) && m &&
      read_bytes(go, m + go->members[AT_THREAD].offset, &thread, sizeof thread))
    out->tid = (pid_t)thread;
}

/* False if the goroutine has ended. */
static bool read_goroutine(go_t *go, uint64_t address, goroutine_t *out) {
  g_bytes_t g;
  size_t size = 0;
  *out = (goroutine_t){.stack = {.ending = ENDING_NONE, .reason = "it ran while it was read"}};
  for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
    if (!read_bytes(go, address, g.bytes, go->g_bytes)) return false;
    uint32_t state = state_of(go, &g);
    if (state == G_DEAD || state == 0) return false;
    describe(go, &g, out);
    if (!has_saved_stack(state)) {
      if (out->tid) out->stack.reason = NULL;
      return true;
    }
    if (go->target->live && !copy_stack(go, address, &g, &size)) continue;
    walk_saved(go, &g, size, &out->stack);
    return true;
  }
  return true;
}

/* ---- all of them ---------------------------------------------------------------------------- */

static int by_id(const void *left, const void *right) {
  uint64_t a = ((const goroutine_t *)left)->id, b = ((const goroutine_t *)right)->id;
  return a < b ? -1 : a > b;
}

/* Whether the function at START is the runtime's, other than main. */
static bool starts_in_runtime(stack_symbolizer_t *symbolizer, uint64_t start) {
  const frame_t frame = {.pc = start, .exact = true};
  const symbolized_pc_t *named = start ? stack_symbolizer_lookup(symbolizer, &frame) : NULL;
  const char *name = named && named->count ? named->functions[named->count - 1].function : NULL;
  return name && !strncmp(name, "runtime.", 8) && strcmp(name, "runtime.main") != 0;
}

static const char *read_all(go_t *go, goroutines_t *out, stack_symbolizer_t *symbolizer) {
  uint64_t slice[2], *list; /* its address and length */
  if (!read_bytes(go, variable_at(go, ALL), slice, sizeof slice))
    return "the runtime's list cannot be read";
  uint64_t count = slice[1] < GOROUTINES_MAX ? slice[1] : GOROUTINES_MAX;
  out->left_out = slice[1] - count;
  list = malloc((count + 1) * sizeof *list);
  out->items = calloc(count + 1, sizeof *out->items);
  const char *problem = list && out->items ? NULL : "out of memory";
  if (!problem && !read_bytes(go, slice[0], list, count * sizeof *list))
    problem = "the runtime's list cannot be read";
  for (uint64_t i = 0; !problem && i < count; i++) {
    goroutine_t *goroutine = &out->items[out->count];
    if (!read_goroutine(go, list[i], goroutine)) continue;
    goroutine->is_system = starts_in_runtime(symbolizer, goroutine->start_pc);
    out->count++;
  }
  if (out->count) qsort(out->items, out->count, sizeof *out->items, by_id);
  free(list);
  return problem;
}

void goroutines_read(goroutines_t *out, target_t *target, stack_symbolizer_t *symbolizer,
                     uint32_t depth) {
  *out = (goroutines_t){0};
  module_t *module = executable_of(target);
  if (!module || module->state != MODULE_READY || !preload_check_path_is_go(module->open_path))
    return;
  const char *path = stack_symbolizer_debug_path(symbolizer, module);
  out->is_go = true;
  go_t *go = calloc(1, sizeof *go);
  uint8_t *stacks = malloc(2 * (size_t)WINDOW_BYTES);
  if (!go || !stacks) {
    out->problem = "out of memory";
  } else {
    *go = (go_t){.target = target,
                 .module = module,
                 .depth = depth,
                 .stack = {stacks, stacks + WINDOW_BYTES}};
    if (!path || !find_layout(go, path)) {
      out->problem = "the program has no debug information of Go's runtime";
    } else {
      read_reasons(go);
      out->problem = read_all(go, out, symbolizer);
    }
    free(go->walk.frames);
  }
  free(stacks);
  free(go);
}

void goroutines_free(goroutines_t *goroutines) {
  for (size_t i = 0; i < goroutines->count; i++)
    free(goroutines->items[i].stack.frames);
  free(goroutines->items);
  *goroutines = (goroutines_t){0};
}
