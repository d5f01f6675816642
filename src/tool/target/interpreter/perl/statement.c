/* SPDX-License-Identifier: MIT
 *
 * The rule is that of closest_cop in Perl's util.c, which `caller`, `warn` and `die` use. The
 * operations of a statement are a tree after the statement. Statements in it that were optimized
 * away keep their line.
 */
#include "target/interpreter/perl/statement.h"

#include <string.h>

#include "base/load.h"
#include "target/interpreter/perl/layout.h"

#define LEVELS_MAX     512u
#define OPERATIONS_MAX (1u << 16)

typedef struct operation {
  uint64_t address, next, sibling, child;
  uint32_t type;
  bool is_statement; /* which was optimized away */
} operation_t;

/* The way from the root of a tree: an operation of each level, and the last statement before it. */
typedef struct search {
  perl_pages_t *pages;
  const perl_place_t *place;
  uint32_t depth, left;
  struct level {
    operation_t operation;
    uint64_t statement;
  } levels[LEVELS_MAX];
} search_t;

static bool read_operation(perl_pages_t *p, uint64_t address, operation_t *out) {
  uint8_t op[PERL_OP_BYTES] = {0};
  if (address % 8 || !perl_read(p, address, op, PERL_OP_FIRST)) return false;
  uint32_t bits = load32(op + PERL_OP_TYPE);
  bool has_child = op[PERL_OP_FLAGS] & PERL_OP_HAS_CHILD;
  if (has_child && !perl_word(p, address + PERL_OP_FIRST, &out->child)) return false;
  if (!has_child) out->child = 0;
  out->address = address;
  out->next = load64(op + PERL_OP_NEXT);
  out->sibling = bits & PERL_OP_HAS_NEXT ? load64(op + PERL_OP_SIBLING) : 0;
  out->type = bits & PERL_OP_TYPES;
  out->is_statement = out->type == PERL_OP_NULL && load64(op + PERL_OP_TARGET) == PERL_OP_NEXTSTATE;
  return true;
}

static bool is_at_place(const search_t *s, const operation_t *op) {
  if (!s->place->is_after) return op->address == s->place->operation;
  return op->next == s->place->operation && op->type != PERL_OP_SCOPE;
}

/* Goes to ADDRESS, on the level DEPTH; STATEMENT is the last one before it. */
static bool go_to(search_t *s, uint64_t address, uint32_t depth, uint64_t statement) {
  if (depth == LEVELS_MAX || !s->left--) return false;
  struct level *level = &s->levels[depth];
  if (!read_operation(s->pages, address, &level->operation)) return false;
  level->statement = depth && level->operation.is_statement ? address : statement;
  s->depth = depth;
  return true;
}

/* Goes to the next operation, in the order of the tree. False: there is none, or DAMAGED. */
static bool go_on(search_t *s, bool *damaged) {
  const struct level *level = &s->levels[s->depth];
  uint32_t depth = s->depth;
  uint64_t to = level->operation.child;
  if (to)
    depth++;
  else
    for (;; depth--) {
      if (!depth) return false;
      to = s->levels[depth].operation.sibling;
      if (to) break;
    }
  uint64_t statement = depth > s->depth ? level->statement : s->levels[depth].statement;
  *damaged = !go_to(s, to, depth, statement);
  return !*damaged;
}

typedef enum found { FOUND, FOUND_NONE, FOUND_DAMAGED } found_t;

/* Searches the tree at ROOT, which follows STATEMENT. */
static found_t search(search_t *s, uint64_t root, uint64_t statement) {
  bool damaged = false;
  s->left = OPERATIONS_MAX;
  if (!go_to(s, root, 0, statement)) return FOUND_DAMAGED;
  while (!is_at_place(s, &s->levels[s->depth].operation))
    if (!go_on(s, &damaged)) return damaged ? FOUND_DAMAGED : FOUND_NONE;
  return FOUND;
}

/* Sets *OUT to the statement of PLACE that has its line. ROOT is the tree after its statement. */
static bool find_closest(perl_pages_t *p, const perl_place_t *place, uint64_t root, uint64_t *out) {
  search_t s;
  s.pages = p;
  s.place = place;
  *out = place->statement;
  if (!root || !place->operation) return true;
  found_t found = search(&s, root, place->statement);
  if (found == FOUND) *out = s.levels[s.depth].statement;
  return found != FOUND_DAMAGED;
}

static bool is_statement(const operation_t *op) {
  return op->type == PERL_OP_NULL || op->type == PERL_OP_NEXTSTATE || op->type == PERL_OP_DBSTATE;
}

bool perl_place_read(perl_pages_t *p, const perl_place_t *place, char *file, size_t size,
                     uint32_t *line) {
  operation_t first;
  uint64_t closest, name;
  if (!read_operation(p, place->statement, &first) || !is_statement(&first) ||
      !find_closest(p, place, first.sibling, &closest) ||
      !perl_read(p, closest + PERL_STATEMENT_LINE, line, sizeof *line) ||
      !perl_word(p, place->statement + PERL_STATEMENT_FILE, &name))
    return false;
  if (name) return perl_string(p, name, file, size);
  file[0] = 0;
  return true;
}
