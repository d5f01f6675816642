/* SPDX-License-Identifier: MIT */
#include "target/interpreter/perl/blocks.h"

#include <stdlib.h>
#include <string.h>

#include "base/load.h"

#define STACKS_MAX  (1u << 16)
#define BLOCKS_MAX  (1u << 18)
#define BLOCKS_READ 16
/* An environment and the functions around it take some 700 bytes of the native stack. */
#define ENVIRONMENTS_MAX (1u << 15)

/* ---- environments --------------------------------------------------------------------------- */

static bool is_in(const perl_range_t *stack, uint64_t address) {
  return address % 8 == 0 && address >= stack->start && address < stack->end;
}

bool perl_runs_on(perl_pages_t *p, const perl_layout_t *l, uint64_t address,
                  const perl_range_t *stack, uint64_t *environment) {
  return perl_word(p, address + l->environment, environment) && is_in(stack, *environment);
}

/* Each environment begins with the address of the next outer one. */
static bool read_environments(perl_pages_t *p, const perl_layout_t *l, const perl_range_t *stack,
                              perl_blocks_t *out) {
  uint64_t at, before = 0;
  const uint64_t outermost = out->interpreter + l->outermost;
  if (!perl_word(p, out->interpreter + l->environment, &at)) return false;
  while (at != outermost) {
    if (!is_in(stack, at) || at <= before || out->environments.count == ENVIRONMENTS_MAX)
      return false;
    uint64_t *added = ARRAY_ADD(out->environments);
    if (!added) return false;
    *added = before = at;
    if (!perl_word(p, before, &at)) return false;
  }
  return out->environments.count > 0;
}

/* ---- blocks --------------------------------------------------------------------------------- */

static bool is_kept(uint8_t type) {
  return type == PERL_BLOCK_SORT || type == PERL_BLOCK_FUNCTION || type == PERL_BLOCK_FORMAT ||
         type == PERL_BLOCK_EVAL || type == PERL_BLOCK_DEFER;
}

/* Whether `caller` knows the block with this type and these flags as a frame of its stack. */
static bool is_counted(uint8_t type, uint8_t flags) {
  return type == PERL_BLOCK_FUNCTION || type == PERL_BLOCK_FORMAT ||
         (type == PERL_BLOCK_EVAL && !(flags & PERL_EVAL_IS_TRY));
}

static bool add_block(const uint8_t *block, uint32_t stack, perl_blocks_t *out) {
  uint8_t type = block[PERL_BLOCK_TYPE] & PERL_BLOCK_TYPES;
  if (type > PERL_BLOCK_DEFER) return false;
  if (!is_kept(type)) return true;
  perl_block_t *added = ARRAY_ADD(out->items);
  if (!added) return false;
  *added = (perl_block_t){.statement = load64(block + PERL_BLOCK_STATEMENT),
                          .stack = stack,
                          .type = type,
                          .flags = block[PERL_BLOCK_TYPE] & (uint8_t)~PERL_BLOCK_TYPES};
  if (type == PERL_BLOCK_SORT || type == PERL_BLOCK_DEFER) return true;
  added->next = load64(block + PERL_BLOCK_RETURN);
  if (type == PERL_BLOCK_FUNCTION) {
    added->code = load64(block + PERL_BLOCK_CODE);
    added->variables = load64(block + PERL_BLOCK_VARIABLES);
    added->marks = load32(block + PERL_BLOCK_MARKS);
  }
  if (type != PERL_BLOCK_EVAL) return true;
  added->code = load64(block + PERL_BLOCK_FILE);
  added->text = load64(block + PERL_BLOCK_TEXT);
  added->environment = load64(block + PERL_BLOCK_ENVIRONMENT);
  uint16_t detail;
  memcpy(&detail, block + PERL_BLOCK_DETAIL, sizeof detail);
  added->operation = detail >> PERL_DETAIL_SHIFT;
  return true;
}

typedef struct blocks_stack {
  uint64_t values, blocks, outer;
  int32_t top, most, top_frame, type;
} blocks_stack_t;

static bool read_stack(perl_pages_t *p, uint64_t address, blocks_stack_t *out) {
  uint8_t stack[PERL_STACK_BYTES];
  if (address % 8 || !perl_read(p, address, stack, sizeof stack)) return false;
  *out = (blocks_stack_t){.values = load64(stack + PERL_STACK_VALUES),
                          .blocks = load64(stack + PERL_STACK_BLOCKS),
                          .outer = load64(stack + PERL_STACK_OUTER),
                          .top = (int32_t)load32(stack + PERL_STACK_TOP),
                          .most = (int32_t)load32(stack + PERL_STACK_MOST),
                          .top_frame = (int32_t)load32(stack + PERL_STACK_TOP_FRAME),
                          .type = (int32_t)load32(stack + PERL_STACK_TYPE)};
  return out->top >= -1 && out->top <= out->most && out->most < (int32_t)BLOCKS_MAX * 4;
}

/* Adds the blocks of STACK, which has NUMBER, and sets *TOP_FRAME to the index of the innermost
 * counted one; -1: it has none. */
static perl_blocks_status_t read_blocks(perl_pages_t *p, const blocks_stack_t *stack,
                                        uint32_t number, perl_blocks_t *out, int32_t *top_frame) {
  uint8_t read[BLOCKS_READ * PERL_BLOCK_BYTES];
  *top_frame = -1;
  for (int32_t left = stack->top + 1; left > 0;) {
    int32_t count = left < BLOCKS_READ ? left : BLOCKS_READ;
    left -= count;
    uint64_t at = stack->blocks + (uint64_t)left * PERL_BLOCK_BYTES;
    if (at % 8 || !perl_read(p, at, read, (size_t)count * PERL_BLOCK_BYTES))
      return PERL_BLOCKS_DAMAGED;
    for (int32_t i = count; i-- > 0;) {
      const uint8_t *block = read + (size_t)i * PERL_BLOCK_BYTES;
      if (out->items.count == BLOCKS_MAX) return PERL_BLOCKS_MANY;
      if (!add_block(block, number, out)) return PERL_BLOCKS_DAMAGED;
      if (*top_frame < 0 &&
          is_counted(block[PERL_BLOCK_TYPE] & PERL_BLOCK_TYPES, block[PERL_BLOCK_TYPE]))
        *top_frame = left + i;
    }
  }
  return PERL_BLOCKS_READ;
}

/* The outermost block of the main program is a plain one. */
static bool has_main(perl_pages_t *p, const blocks_stack_t *stack) {
  uint8_t type;
  return stack->top >= 0 && perl_read(p, stack->blocks + PERL_BLOCK_TYPE, &type, 1) &&
         (type & PERL_BLOCK_TYPES) == PERL_BLOCK_PLAIN;
}

/* Reads all stacks, from the innermost one, which the fields FIRST of the interpreter refer to. */
static perl_blocks_status_t read_stacks(perl_pages_t *p, const uint8_t *first, perl_blocks_t *out) {
  uint64_t at = load64(first + PERL_STACK), main = load64(first + PERL_MAIN_VALUES);
  for (uint32_t i = 0; i < STACKS_MAX; i++) {
    blocks_stack_t stack;
    int32_t top_frame;
    if (!read_stack(p, at, &stack)) return PERL_BLOCKS_DAMAGED;
    perl_blocks_status_t status = read_blocks(p, &stack, i, out, &top_frame);
    if (status != PERL_BLOCKS_READ) return status;
    /* Perl changes the index after it has pushed a block, and before it pops one. */
    if (i == 0 && top_frame != stack.top_frame) return PERL_BLOCKS_BETWEEN;
    if (stack.type == PERL_MAIN_STACK) {
      out->has_main = has_main(p, &stack);
      return stack.values == main && !stack.outer ? PERL_BLOCKS_READ : PERL_BLOCKS_DAMAGED;
    }
    at = stack.outer;
  }
  return PERL_BLOCKS_DAMAGED;
}

/* ---- instants between two states ------------------------------------------------------------ */

static bool is_of_text(uint32_t type) {
  return type == PERL_OP_ENTEREVAL || type == PERL_OP_REQUIRE || type == PERL_OP_DOFILE;
}

/* Sets *DEPTH to the number of calls of FUNCTION that have begun. */
static bool read_depth(perl_pages_t *p, uint64_t function, uint32_t *depth) {
  uint64_t body;
  return perl_word(p, function, &body) &&
         perl_read(p, body + PERL_CODE_DEPTH, depth, sizeof *depth);
}

/* The number of blocks of FUNCTION. */
static size_t count_blocks(const perl_blocks_t *blocks, uint64_t function) {
  size_t count = 0;
  for (size_t i = 0; i < blocks->items.count; i++) {
    const perl_block_t *b = &blocks->items.items[i];
    count += b->type == PERL_BLOCK_FUNCTION && b->code == function &&
             !(b->flags & PERL_FUNCTION_IS_FAKE);
  }
  return count;
}

/* Whether the function TOP has not begun: its first operation is a statement, which is next. */
static bool is_at_start(perl_pages_t *p, const perl_block_t *top, uint32_t type,
                        const perl_blocks_t *out) {
  uint64_t body, start;
  return (type == PERL_OP_NEXTSTATE || type == PERL_OP_DBSTATE) && perl_word(p, top->code, &body) &&
         perl_word(p, body + PERL_CODE_START, &start) && start == out->operation &&
         start != out->statement;
}

/* Whether an outer function continues where TOP does: the same operation called both. */
static bool is_repeated(const perl_blocks_t *blocks, const perl_block_t *top) {
  for (size_t i = 1; i < blocks->items.count; i++) {
    const perl_block_t *b = &blocks->items.items[i];
    if (b->type == PERL_BLOCK_FUNCTION && b->next == top->next && b->statement == top->statement)
      return true;
  }
  return false;
}

/* TOP is a function whose caller's statement is the current one, and an operation calls a function:
 * TOP itself, or one that TOP calls. NEXT follows that operation; 0 if C code makes the call. A
 * block that is being pushed is not yet counted by its function. Its fields are those of an earlier
 * block until Perl sets them.
 *
 * A function that calls itself, or another copy of its code, may do so at the place where it was
 * called. Then TOP is that of the caller or that of the call. The arguments of a call begin at a
 * mark, which Perl removes before it pushes the block: with a mark, TOP is the caller's. Perl
 * replaces the variables of the caller after it has pushed the block: with these, TOP is the
 * call's. Otherwise it is not known. */
static perl_blocks_status_t check_call(perl_pages_t *p, perl_block_t *top, uint64_t next,
                                       perl_blocks_t *out) {
  uint32_t depth;
  if (!read_depth(p, top->code, &depth)) return PERL_BLOCKS_BETWEEN;
  bool is_pushed = count_blocks(out, top->code) > depth;
  if (!is_pushed && (top->next != next || out->marks > top->marks)) return PERL_BLOCKS_READ;
  if (!is_pushed && out->variables != top->variables && (depth > 1 || is_repeated(out, top)))
    return PERL_BLOCKS_BETWEEN;
  top->next = next;
  out->omitted = 1;
  return PERL_BLOCKS_READ;
}

/* TOP is a function whose first operation is next. */
static perl_blocks_status_t check_start(perl_pages_t *p, const perl_block_t *top,
                                        perl_blocks_t *out) {
  uint32_t depth;
  if (top->statement != out->statement || !top->next || !read_depth(p, top->code, &depth) ||
      depth > 1)
    return PERL_BLOCKS_BETWEEN;
  out->omitted = 1;
  return PERL_BLOCKS_READ;
}

/* Compares the innermost block with the current statement. Operations that push a function set the
 * statement later; those that leave several blocks at once set it earlier. A function that has not
 * begun, and does not call itself, is omitted. */
static perl_blocks_status_t check_top(perl_pages_t *p, const perl_range_t *stack,
                                      perl_blocks_t *out) {
  uint8_t op[PERL_OP_FIRST];
  if (!out->operation) return PERL_BLOCKS_READ; /* it compiles */
  if (out->operation % 8 || !perl_read(p, out->operation, op, sizeof op))
    return PERL_BLOCKS_BETWEEN;
  uint32_t type = load32(op + PERL_OP_TYPE) & PERL_OP_TYPES;
  if (type >= PERL_OP_LAST && type <= PERL_OP_EXIT) return PERL_BLOCKS_BETWEEN;
  perl_block_t *top = out->items.count ? out->items.items : NULL;
  if (!top) return PERL_BLOCKS_READ;
  uint64_t next = load64(op + PERL_OP_NEXT);
  bool is_same = top->statement == out->statement, is_new = is_same && top->next == next;
  if (top->type == PERL_BLOCK_EVAL)
    return (is_new && is_of_text(type)) || (is_same && type == PERL_OP_LEAVEEVAL)
               ? PERL_BLOCKS_BETWEEN
               : PERL_BLOCKS_READ;
  if (top->type != PERL_BLOCK_FUNCTION) return PERL_BLOCKS_READ;
  if (is_same && is_in(stack, out->operation) && !next) return check_call(p, top, 0, out);
  if (is_same && type == PERL_OP_ENTERSUB)
    return next ? check_call(p, top, next, out) : PERL_BLOCKS_BETWEEN;
  return is_at_start(p, top, type, out) ? check_start(p, top, out) : PERL_BLOCKS_READ;
}

/* ---- all ------------------------------------------------------------------------------------ */

static perl_blocks_status_t read_all(perl_pages_t *p, const perl_layout_t *l,
                                     const perl_range_t *stack, uint64_t evaluator,
                                     perl_blocks_t *out) {
  uint8_t first[PERL_FIRST_BYTES];
  uint64_t debugger, runs, address = out->interpreter;
  if (!perl_read(p, address, first, sizeof first) ||
      !perl_word(p, address + l->debugger, &debugger) ||
      !perl_word(p, address + l->evaluator, &runs) ||
      !perl_read(p, address + l->phase, &out->phase, sizeof out->phase) ||
      !read_environments(p, l, stack, out))
    return PERL_BLOCKS_DAMAGED;
  if (runs != evaluator) return PERL_BLOCKS_REPLACED;
  if (debugger) return PERL_BLOCKS_DEBUGGED;
  out->operation = load64(first + PERL_OPERATION);
  out->statement = load64(first + PERL_STATEMENT);
  out->variables = load64(first + PERL_VARIABLES);
  out->marks = (load64(first + PERL_LAST_MARK) - load64(first + PERL_MARKS)) / sizeof(int32_t);
  return read_stacks(p, first, out);
}

perl_blocks_status_t perl_blocks_read(perl_pages_t *p, const perl_layout_t *l, uint64_t address,
                                      const perl_range_t *stack, uint64_t evaluator,
                                      perl_blocks_t *out) {
  out->interpreter = address;
  out->has_main = false;
  out->items.count = out->environments.count = out->omitted = 0;
  perl_blocks_status_t status = read_all(p, l, stack, evaluator, out);
  return status == PERL_BLOCKS_READ ? check_top(p, stack, out) : status;
}

void perl_blocks_free(perl_blocks_t *b) {
  free(b->items.items);
  free(b->environments.items);
}
