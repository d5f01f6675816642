/* SPDX-License-Identifier: MIT
 *
 * infer_frame_pointer, a search. The CFA of FUNCTION's frame is frame register + n, so its return
 * address is at a fixed distance from where the frame register points. The stack is read slot by
 * slot. A slot matches if
 * - the word at the place of the return address is in executable code,
 * - the call before it could have entered FUNCTION (infer/insn.h), and
 * - from there every frame's rule holds, up to the thread's start.
 * Leftovers of earlier calls on the stack can match too, and so can the frames of outer callers, as
 * if the frames between had been skipped. Therefore:
 * - if the function's code shows the distance between stack pointer and frame register, only the
 *   slot at that distance is tried, and a few above it unless the function never pushes arguments;
 *   a slot exactly there whose call names FUNCTION is the answer;
 * - otherwise the whole stack is searched, and exactly one slot may match.
 * A chain that ends because rules or registers are unknown might be the true one. It counts as a
 * match, but is never the answer.
 */
#include "unwind/infer/infer.h"
#include "unwind/cfi.h"

#define PUSHED_WORDS_MAX 16
#define CHAIN_STEPS_MAX  4096
#define TOTAL_STEPS_MAX  20000
#define CHUNK_WORDS      64

typedef struct fp_search {
  insn_code_t code;
  /* Of the frame, without its frame register. */
  const regs_t *regs;
  bool exact;
  insn_range_t function;
  /* Distance from where the frame register points to the return address. */
  uint64_t to_return;
  /* Steps taken so far, in all chains. */
  int steps;
  /* Slots that match. */
  int matches;
  /* A slot matches whose chain could not be followed to the end. */
  bool inconclusive;
  /* The call of the last matching slot names the function. */
  bool called_directly;
  uint64_t answer;
} fp_search_t;

typedef enum chain { CHAIN_BROKEN, CHAIN_COMPLETE, CHAIN_UNKNOWN } chain_t;

static chain_t check_chain(fp_search_t *search, uint64_t frame) {
  const insn_code_t *code = &search->code;
  regs_t regs = *search->regs;
  bool exact = search->exact;
  regs_set(&regs, machine_fp(code->machine), frame);
  for (int i = 0; i < CHAIN_STEPS_MAX && search->steps < TOTAL_STEPS_MAX; i++, search->steps++) {
    unwind_step_t step = cfi_step(code->machine, code->memory, code->images, &regs, exact);
    switch (step) {
    case STEP_CALLER: exact = false; break;
    case STEP_SIGNAL: exact = true; break;
    case STEP_END: return CHAIN_COMPLETE;
    case STEP_NO_RULE:
      return insn_is_executable(code->images, regs.pc - 1) ? CHAIN_UNKNOWN : CHAIN_BROKEN;
    case STEP_UNKNOWN_REGISTER: return CHAIN_UNKNOWN;
    default: return CHAIN_BROKEN;
    }
  }
  return CHAIN_UNKNOWN;
}

/* Tries the slot that FRAME points at; RETURN_ADDRESS would be the frame's return address. */
static void try_slot(fp_search_t *search, uint64_t frame, uint64_t return_address) {
  const insn_code_t *code = &search->code;
  if (return_address < 4096 || !insn_is_executable(code->images, return_address - 1)) return;
  insn_match_t link = insn_call_enters(code, return_address, search->function);
  if (link == INSN_MATCH_NO) return;
  switch (check_chain(search, frame)) {
  case CHAIN_COMPLETE:
    search->answer = frame;
    search->called_directly = link == INSN_MATCH_CERTAIN;
    search->matches++;
    break;
  case CHAIN_UNKNOWN:
    search->inconclusive = true;
    search->matches++;
    break;
  case CHAIN_BROKEN: break;
  }
}

/* Tries the slots from FIRST to END - 8, until two match. */
static bool search_slots(fp_search_t *search, uint64_t first, uint64_t end) {
  uint64_t words[CHUNK_WORDS];
  for (uint64_t at = first; at < end && search->matches < 2;) {
    uint64_t count = (end - at) / 8 < CHUNK_WORDS ? (end - at) / 8 : CHUNK_WORDS;
    if (count == 0) break;
    if (!search->code.memory->read(search->code.memory, at + search->to_return, words, count * 8))
      return false;
    for (uint64_t i = 0; i < count && search->matches < 2; i++)
      try_slot(search, at + i * 8, words[i]);
    at += count * 8;
  }
  return true;
}

/* Sets up the search for the frame's row. Returns false if the row has another form. */
static bool prepare(fp_search_t *search) {
  const insn_code_t *code = &search->code;
  int fp = machine_fp(code->machine);
  uint64_t pc = search->exact ? search->regs->pc : search->regs->pc - 1;
  cfi_row_t row;
  uint64_t slide;
  if (!insn_find_row(code, pc, &slide, &row)) return false;
  const cfi_rule_t *rule = &row.rules[row.return_register];
  if (row.cfa_is_expression || row.cfa_register != fp || rule->how != CFI_OFFSET ||
      regs_has(search->regs, fp))
    return false;
  search->function.start = row.function_start + slide;
  search->function.end = row.function_end + slide;
  search->to_return = (uint64_t)row.cfa_offset + (uint64_t)(int64_t)rule->offset;
  return search->to_return < 4096;
}

/* Tries the slot at DISTANCE above the stack pointer, and a few above it if arguments may be
 * pushed. */
static bool search_fixed(fp_search_t *search, uint64_t low, uint64_t end,
                         insn_fp_distance_t distance) {
  if (distance.bytes % 8 || distance.bytes >= end - low) return true;
  low += distance.bytes;
  if (!search_slots(search, low, low + 8)) return false;
  if (search->called_directly || !distance.varies) return true;
  uint64_t high = end - low > PUSHED_WORDS_MAX * 8 ? low + PUSHED_WORDS_MAX * 8 : end;
  return search_slots(search, low + 8, high);
}

fp_inference_t infer_frame_pointer(machine_t machine, memory_t *memory, images_t *images,
                                   regs_t *regs, bool exact, uint64_t stack_end) {
  int sp = machine_sp(machine);
  fp_search_t search = {.code = {machine, memory, images}, .regs = regs, .exact = exact};
  if (!regs_has(regs, sp) || regs->r[sp] % 8 || !prepare(&search)) return FP_INFERENCE_NONE;
  uint64_t low = regs->r[sp], end = stack_end - search.to_return;
  insn_fp_distance_t distance;
  if (stack_end < low || end > stack_end || end <= low) return FP_INFERENCE_NONE;
  bool readable;
  if (insn_fp_distance(&search.code, search.function, exact ? regs->pc : regs->pc - 1, &distance))
    readable = search_fixed(&search, low, end, distance);
  else if (end - low > FP_INFERENCE_STACK_BYTES_MAX)
    return FP_INFERENCE_TOO_LARGE;
  else
    readable = search_slots(&search, low, end);
  if (!readable || search.matches == 0) return FP_INFERENCE_NONE;
  if (search.matches > 1 || search.inconclusive) return FP_INFERENCE_AMBIGUOUS;
  regs_set(regs, machine_fp(machine), search.answer);
  return FP_INFERENCE_FOUND;
}
