/* SPDX-License-Identifier: MIT
 *
 * The tree is an array of nodes; a hash table finds the child of a node by the child's function.
 * Functions are numbered once, by name and library, so that the same function at two addresses, in
 * two places of the source or after inlining is one.
 *
 * A function with one child that matters is followed by it without indenting further, for a stack
 * of thirty functions would otherwise leave the screen; where there are several, each has a dash.
 */
#define _GNU_SOURCE
#include "report/tree.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"
#include "report/json.h"

enum { DEPTH_MAX = 4096, INDENT_MAX = 40 };
#define LEAST_SHARE 0.01

typedef struct node {
  const frame_name_t *name;
  uint32_t function; /* number of the name */
  uint32_t parent, child, next;
  int64_t weight, self, count;
} node_t;

typedef struct table {
  uint32_t *slots; /* number + 1 */
  size_t mask, used;
} table_t;

struct tree {
  const report_t *report;
  node_t *nodes; /* the first is the root: everything */
  size_t node_count, node_room;
  const frame_name_t **functions;
  size_t function_count, function_room;
  table_t node_table, function_table;
};

/* ---- building ----------------------------------------------------------------------------- */

static size_t hash_function(const frame_name_t *name) {
  return (size_t)hash_text(hash_text(HASH_START, name->function), name->library);
}

static size_t hash_node(uint32_t parent, uint32_t function) {
  return (size_t)(((uint64_t)parent << 32 | function) * UINT64_C(0x9e3779b97f4a7c15) >> 24);
}

static size_t hash_of_item(const tree_t *t, const table_t *table, uint32_t i) {
  return table == &t->node_table ? hash_node(t->nodes[i].parent, t->nodes[i].function)
                                 : hash_function(t->functions[i]);
}

/* Room for one more, at most half full. */
static bool table_room(const tree_t *t, table_t *table) {
  if (table->slots && 2 * (table->used + 1) <= table->mask) return true;
  size_t mask = table->slots ? 2 * table->mask + 1 : 1023;
  uint32_t *slots = calloc(mask + 1, sizeof *slots);
  if (!slots) return false;
  for (size_t k = 0; table->slots && k <= table->mask; k++) {
    if (!table->slots[k]) continue;
    size_t i = hash_of_item(t, table, table->slots[k] - 1) & mask;
    while (slots[i])
      i = (i + 1) & mask;
    slots[i] = table->slots[k];
  }
  free(table->slots);
  table->slots = slots;
  table->mask = mask;
  return true;
}

static bool same_function(const frame_name_t *a, const frame_name_t *b) {
  return a == b || (!strcmp(a->function, b->function) && !strcmp(a->library, b->library));
}

/* The number of NAME's function; UINT32_MAX without memory. */
static uint32_t number_of(tree_t *t, const frame_name_t *name) {
  if (!table_room(t, &t->function_table)) return UINT32_MAX;
  size_t i = hash_function(name) & t->function_table.mask;
  for (uint32_t found; (found = t->function_table.slots[i]); i = (i + 1) & t->function_table.mask)
    if (same_function(t->functions[found - 1], name)) return found - 1;
  if (!ARRAY_GROW(t->functions, t->function_count, t->function_room)) return UINT32_MAX;
  t->functions[t->function_count++] = name;
  t->function_table.slots[i] = (uint32_t)t->function_count;
  t->function_table.used++;
  return (uint32_t)t->function_count - 1;
}

/* The child of PARENT that stands for NAME; 0 without memory. */
static uint32_t child_of(tree_t *t, uint32_t parent, const frame_name_t *name) {
  uint32_t function = number_of(t, name);
  if (function == UINT32_MAX || !table_room(t, &t->node_table)) return 0;
  size_t i = hash_node(parent, function) & t->node_table.mask;
  for (uint32_t found; (found = t->node_table.slots[i]); i = (i + 1) & t->node_table.mask)
    if (t->nodes[found - 1].parent == parent && t->nodes[found - 1].function == function)
      return found - 1;
  if (!ARRAY_GROW(t->nodes, t->node_count, t->node_room)) return 0;
  uint32_t made = (uint32_t)t->node_count++;
  t->nodes[made] = (node_t){
      .name = name, .function = function, .parent = parent, .next = t->nodes[parent].child};
  t->nodes[parent].child = made;
  t->node_table.slots[i] = made + 1;
  t->node_table.used++;
  return made;
}

static void add_to(node_t *n, int64_t weight, int64_t count) {
  n->weight += weight;
  n->count += count;
}

bool tree_add(tree_t *t, uint32_t stack, int64_t weight, int64_t count) {
  static const frame_name_t unknown = {
      .function = "[a stack that is not in the recording]", .library = "", .known = true};
  const frame_name_t *names[DEPTH_MAX] = {&unknown};
  int depth = frame_names_of_stack(t->report->names, stack, names, DEPTH_MAX);
  if (depth <= 0) depth = 1;
  if (depth > DEPTH_MAX) depth = DEPTH_MAX;
  uint32_t at = 0;
  add_to(&t->nodes[0], weight, count);
  for (int i = 0; i < depth; i++) {
    bool down = t->report->tree == TREE_TOP_DOWN;
    at = child_of(t, at, names[down ? depth - 1 - i : i]);
    if (!at) return false;
    add_to(&t->nodes[at], weight, count);
  }
  t->nodes[at].self += weight;
  return true;
}

tree_t *tree_new(const report_t *report) {
  tree_t *t = calloc(1, sizeof *t);
  if (!t) return NULL;
  t->report = report;
  if (!ARRAY_GROW(t->nodes, 0, t->node_room)) {
    free(t);
    return NULL;
  }
  t->nodes[0] = (node_t){.function = UINT32_MAX};
  t->node_count = 1;
  return t;
}

void tree_free(tree_t *t) {
  if (!t) return;
  free(t->nodes);
  free(t->functions);
  free(t->node_table.slots);
  free(t->function_table.slots);
  free(t);
}

/* ---- the rows ----------------------------------------------------------------------------- */

static int64_t size_of(int64_t weight) { return weight < 0 ? -weight : weight; }

static int heavier(const void *left, const void *right, void *context) {
  const tree_t *t = context;
  const node_t *a = &t->nodes[*(const uint32_t *)left], *b = &t->nodes[*(const uint32_t *)right];
  if (size_of(a->weight) != size_of(b->weight))
    return size_of(a->weight) > size_of(b->weight) ? -1 : 1;
  int order = strcmp(a->name->function, b->name->function);
  return order ? order : strcmp(a->name->library, b->name->library);
}

/* The children of PARENT, heaviest first; NULL without memory or without children. */
static uint32_t *ranked_children(tree_t *t, uint32_t parent, size_t *count) {
  *count = 0;
  for (uint32_t c = t->nodes[parent].child; c; c = t->nodes[c].next)
    ++*count;
  uint32_t *list = *count ? malloc(*count * sizeof *list) : NULL;
  if (!list) return NULL;
  size_t n = 0;
  for (uint32_t c = t->nodes[parent].child; c; c = t->nodes[c].next)
    list[n++] = c;
  qsort_r(list, n, sizeof *list, heavier, t);
  return list;
}

/* How many of the COUNT children in LIST are shown. */
static size_t shown_of(const tree_t *t, const uint32_t *list, size_t count) {
  int64_t whole = size_of(t->nodes[0].weight);
  size_t shown = 0;
  while (shown < count && shown < t->report->top &&
         (double)size_of(t->nodes[list[shown]].weight) >= LEAST_SHARE * (double)whole)
    shown++;
  return shown;
}

typedef struct printer {
  tree_t *tree;
  bool bytes;
  FILE *out;
} printer_t;

static void print_row(const printer_t *p, const node_t *n, int indent, bool branch) {
  const report_t *r = p->tree->report;
  char amount[24];
  int64_t whole = size_of(p->tree->nodes[0].weight);
  double share = whole ? 100.0 * (double)n->weight / (double)whole : 0;
  if (p->bytes)
    report_bytes(n->weight, amount);
  else
    report_count((uint64_t)n->weight, amount);
  fprintf(p->out, "  %5.1f %%  %10s  %*s%s%s", share, amount, indent, "", branch ? "- " : "  ",
          n->name->function);
  if (n->name->known && *n->name->library)
    fprintf(p->out, "  %s%s%s", r->dim, n->name->library, r->plain);
  fputc('\n', p->out);
}

/* What is left out below PARENT, when it matters as a whole. */
static void print_rest(const printer_t *p, const uint32_t *list, size_t shown, size_t count,
                       int indent) {
  int64_t rest = 0, whole = size_of(p->tree->nodes[0].weight);
  for (size_t i = shown; i < count; i++)
    rest += p->tree->nodes[list[i]].weight;
  if ((double)size_of(rest) < LEAST_SHARE * (double)whole) return;
  fprintf(p->out, "  %5.1f %%  %10s  %*s- … in %zu more\n", 100.0 * (double)rest / (double)whole,
          "", indent, "", count - shown);
}

static void print_children(const printer_t *p, uint32_t parent, int indent) {
  size_t count;
  uint32_t *list = ranked_children(p->tree, parent, &count);
  size_t shown = list ? shown_of(p->tree, list, count) : 0;
  for (size_t i = 0; i < shown; i++) {
    print_row(p, &p->tree->nodes[list[i]], indent, shown > 1);
    size_t below;
    uint32_t *next = ranked_children(p->tree, list[i], &below);
    bool chain = next && shown_of(p->tree, next, below) == 1;
    free(next);
    print_children(p, list[i], chain || indent >= INDENT_MAX ? indent : indent + 2);
  }
  if (list) print_rest(p, list, shown, count, indent);
  free(list);
}

void tree_text(tree_t *t, const char *title, bool bytes, const char *unit, FILE *out) {
  const report_t *r = t->report;
  char amount[24];
  if (bytes)
    report_bytes(t->nodes[0].weight, amount);
  else
    report_count((uint64_t)t->nodes[0].weight, amount);
  fprintf(out, "\n%s%s, %s%s: %s%s%s; below a function stands who %s\n", r->bold, title,
          r->tree == TREE_TOP_DOWN ? "top-down" : "bottom-up", r->plain, amount, *unit ? " " : "",
          unit, r->tree == TREE_TOP_DOWN ? "it called" : "called it");
  const printer_t p = {t, bytes, out};
  print_children(&p, 0, 0);
}

static json_object *of_node(tree_t *t, uint32_t index) {
  const node_t *n = &t->nodes[index];
  json_object *o = json_object_new_object();
  if (n->name) {
    json_add_text(o, "function", n->name->function);
    if (*n->name->library) json_add_text(o, "module", n->name->library);
  }
  json_add_number(o, "weight", n->weight);
  json_add_number(o, "self", n->self);
  json_add_number(o, "count", n->count);
  size_t count;
  uint32_t *list = ranked_children(t, index, &count);
  size_t shown = list ? shown_of(t, list, count) : 0;
  if (shown) {
    json_object *children = json_object_new_array();
    for (size_t i = 0; i < shown; i++)
      json_object_array_add(children, of_node(t, list[i]));
    json_object_object_add(o, "children", children);
  }
  free(list);
  return o;
}

json_object *tree_json(tree_t *t) {
  json_object *o = of_node(t, 0);
  json_add_text(o, "direction", t->report->tree == TREE_TOP_DOWN ? "top-down" : "bottom-up");
  return o;
}
