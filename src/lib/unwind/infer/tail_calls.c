/* SPDX-License-Identifier: MIT
 *
 * Reconstructs the path of jumps from the function that was called to the one on the stack.
 *
 * A function is searched for jumps at every byte (infer/insn.h). A tail call is a jump at a place
 * where the function's frame is released, exactly to another function's start; bytes that are not a
 * jump hardly ever look so. A function with a jump through a register at such a place could have
 * gone anywhere, so then no path is certain.
 */
#include "unwind/infer/infer.h"

#include <string.h>

#define FUNCTION_BYTES_MAX (64u << 10)
#define CHUNK              256
/* Limit of functions searched for one result. */
#define VISITS_MAX 256

typedef struct tail_call_search {
  const insn_code_t *code;
  /* Start of the function on the stack. */
  uint64_t target;
  /* Functions of the path so far, outermost first. */
  uint64_t starts[INFER_TAIL_CALLS_MAX];
  /* Addresses after their jumps. */
  uint64_t path[INFER_TAIL_CALLS_MAX];
  uint64_t found[INFER_TAIL_CALLS_MAX];
  int found_count, visits;
  bool uncertain;
} tail_call_search_t;

static void search_function(tail_call_search_t *search, uint64_t start, int depth);

/* Records that the path reached the target through DEPTH functions. */
static void record_path(tail_call_search_t *search, int depth) {
  if (search->found_count > 0) search->uncertain = true;
  memcpy(search->found, search->path, sizeof search->found);
  search->found_count = depth;
}

static void follow_jump(tail_call_search_t *search, uint64_t at, uint64_t to, unsigned length,
                        insn_range_t from, int depth) {
  const insn_code_t *code = search->code;
  if (to >= from.start && to < from.end) return;
  if (!insn_is_executable(code->images, to) || !insn_has_no_frame(code, at)) return;
  insn_target_t target = insn_skip_stub(code, to);
  insn_range_t other;
  if (!target.is_known) {
    search->uncertain = true;
    return;
  }
  search->path[depth - 1] = at + length;
  if (target.address == search->target)
    record_path(search, depth);
  else if (insn_function(code, target.address, &other) && other.start == target.address)
    search_function(search, target.address, depth + 1);
}

/* Searches the function at START, number DEPTH of the path, for jumps to the target. */
static void search_function(tail_call_search_t *search, uint64_t start, int depth) {
  const insn_code_t *code = search->code;
  insn_range_t from;
  if (depth > INFER_TAIL_CALLS_MAX || ++search->visits > VISITS_MAX ||
      !insn_function(code, start, &from) || from.end - from.start > FUNCTION_BYTES_MAX) {
    search->uncertain = true;
    return;
  }
  for (int i = 0; i < depth - 1; i++)
    /* A circle. */
    if (search->starts[i] == start) return;
  search->starts[depth - 1] = start;
  uint8_t bytes[CHUNK + 8];
  size_t step = code->machine == MACHINE_X86_64 ? 1 : 4;
  for (uint64_t at = from.start; at < from.end && !search->uncertain; at += CHUNK) {
    size_t size = from.end - at < sizeof bytes ? (size_t)(from.end - at) : sizeof bytes;
    memset(bytes, 0, sizeof bytes);
    if (!insn_read(code, at, bytes, size)) {
      search->uncertain = true;
      return;
    }
    for (size_t i = 0; i < CHUNK && i < size; i += step) {
      uint64_t to;
      unsigned length;
      insn_jump_t jump = insn_jump(code, bytes + i, at + i, &to, &length);
      if (jump == INSN_JUMP_DIRECT)
        follow_jump(search, at + i, to, length, from, depth);
      else if (jump == INSN_JUMP_INDIRECT && insn_has_no_frame(code, at + i))
        search->uncertain = true;
      else if (jump == INSN_JUMP_RETPOLINE && from.end - from.start <= 32)
        search->uncertain = true;
    }
  }
}

int infer_tail_calls(const insn_code_t *code, uint64_t return_address, insn_range_t function,
                     uint64_t pcs[INFER_TAIL_CALLS_MAX]) {
  tail_call_search_t search = {.code = code, .target = function.start};
  insn_target_t called = insn_call_target(code, return_address);
  insn_range_t entered;
  if (!called.is_known || called.address == function.start ||
      !insn_function(code, called.address, &entered) || entered.start != called.address)
    return 0;
  search_function(&search, called.address, 1);
  if (search.uncertain) return -1;
  for (int i = 0; i < search.found_count; i++)
    pcs[i] = search.found[search.found_count - 1 - i];
  return search.found_count > 0 ? search.found_count : -1;
}
