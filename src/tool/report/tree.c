/* SPDX-License-Identifier: MIT
 *
 * The tree is an array of nodes. A hash table finds a node by its parent and function. Functions
 * are numbered by name and library, so copies of a function at several addresses are one function.
 *
 * Text indents only where a node has several children, which lines connect: otherwise a stack of
 * thirty functions would not fit on the screen. Text folds recursion: a function that is called
 * again below itself adds its callees to the outer call.
 */
#define _GNU_SOURCE
#include "report/tree.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/wrap.h"
#include "report/json.h"
#include "sonde/status.h"
#include "symbol/short_name.h"

enum { DEPTH_MAX = 4096, BRANCHES_MAX = 14, PREFIX_BYTES = 8 * BRANCHES_MAX };
enum { NAME_LEAST = 20 }; /* columns of a name before its library is left out */
#define LEAST_SHARE 0.01

typedef struct node {
  const frame_name_t *name;
  uint32_t function; /* number of the name */
  uint32_t parent, child, next;
  int64_t weight, self, count;
  bool recursive; /* calls of the function below were added to this one */
} node_t;

struct tree {
  const report_t *report;
  bool folds;    /* recursion */
  node_t *nodes; /* the first is the root */
  size_t node_count, node_capacity;
  const frame_name_t **functions;
  size_t function_count, function_capacity;
  hash_index_t node_index, function_index;
};

/* ---- building ----------------------------------------------------------------------------- */

static uint64_t hash_of_function(const void *tree, size_t i) {
  return frame_name_hash(((const tree_t *)tree)->functions[i]);
}

static uint64_t hash_of_node(const void *tree, size_t i) {
  const node_t *n = &((const tree_t *)tree)->nodes[i];
  return hash_pair(n->parent, n->function);
}

/* The number of NAME's function; UINT32_MAX: out of memory. */
static uint32_t number_of(tree_t *t, const frame_name_t *name) {
  uint32_t *slot;
  if (!hash_reserve(&t->function_index, t->function_count, hash_of_function, t)) return UINT32_MAX;
  HASH_FIND(&t->function_index, frame_name_hash(name), slot) {
    if (!frame_name_compare(t->functions[*slot - 1], name)) return *slot - 1;
  }
  if (!ARRAY_GROW(t->functions, t->function_count, t->function_capacity)) return UINT32_MAX;
  t->functions[t->function_count++] = name;
  *slot = (uint32_t)t->function_count;
  return *slot - 1;
}

/* The child of PARENT for the function NAME; 0: out of memory. */
static uint32_t child_of(tree_t *t, uint32_t parent, const frame_name_t *name) {
  uint32_t function = number_of(t, name), *slot;
  if (function == UINT32_MAX || !hash_reserve(&t->node_index, t->node_count, hash_of_node, t))
    return 0;
  HASH_FIND(&t->node_index, hash_pair(parent, function), slot) {
    if (t->nodes[*slot - 1].parent == parent && t->nodes[*slot - 1].function == function)
      return *slot - 1;
  }
  if (!ARRAY_GROW(t->nodes, t->node_count, t->node_capacity)) return 0;
  uint32_t made = (uint32_t)t->node_count++;
  t->nodes[made] = (node_t){
      .name = name, .function = function, .parent = parent, .next = t->nodes[parent].child};
  t->nodes[parent].child = made;
  *slot = made + 1;
  return made;
}

static void add_to(node_t *n, int64_t weight, int64_t count) {
  n->weight += weight;
  n->count += count;
}

/* The node of the function NAME among AT and the nodes above it; 0: none. */
static uint32_t outer_call(const tree_t *t, uint32_t at, const frame_name_t *name) {
  while (at && frame_name_compare(t->nodes[at].name, name))
    at = t->nodes[at].parent;
  return at;
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
    const frame_name_t *name = names[down ? depth - 1 - i : i];
    uint32_t outer = t->folds ? outer_call(t, at, name) : 0;
    if (outer) {
      t->nodes[outer].recursive = true;
      at = outer;
      continue;
    }
    at = child_of(t, at, name);
    if (!at) return false;
    add_to(&t->nodes[at], weight, count);
  }
  t->nodes[at].self += weight;
  return true;
}

static void tree_free(tree_t *t) {
  if (!t) return;
  free(t->nodes);
  free(t->functions);
  hash_free(&t->node_index);
  hash_free(&t->function_index);
  free(t);
}

/* NULL: out of memory. */
static tree_t *tree_make(const report_t *report, tree_fill_fn *fill, const void *context,
                         bool folds) {
  tree_t *t = calloc(1, sizeof *t);
  if (!t) return NULL;
  t->report = report;
  t->folds = folds;
  if (ARRAY_GROW(t->nodes, 0, t->node_capacity)) {
    t->nodes[0] = (node_t){.function = UINT32_MAX};
    t->node_count = 1;
    if (fill(t, context)) return t;
  }
  tree_free(t);
  return NULL;
}

/* ---- text -------------------------------------------------------------------------------- */

static int64_t size_of(int64_t weight) { return weight < 0 ? -weight : weight; }

static int heavier(const void *left, const void *right, void *context) {
  const tree_t *t = context;
  const node_t *a = &t->nodes[*(const uint32_t *)left], *b = &t->nodes[*(const uint32_t *)right];
  if (size_of(a->weight) != size_of(b->weight))
    return size_of(a->weight) > size_of(b->weight) ? -1 : 1;
  return frame_name_compare(a->name, b->name);
}

/* The children of PARENT, largest weight first; NULL: out of memory, or none. */
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

/* How many of the COUNT children in LIST the report shows. */
static size_t shown_of(const tree_t *t, const uint32_t *list, size_t count) {
  int64_t whole = size_of(t->nodes[0].weight);
  size_t shown = 0;
  while (shown < count && shown < t->report->top &&
         (t->report->all ||
          (double)size_of(t->nodes[list[shown]].weight) >= LEAST_SHARE * (double)whole))
    shown++;
  return shown;
}

typedef struct printer {
  tree_t *tree;
  const char *unit; /* NULL: bytes */
  FILE *out;
  char prefix[PREFIX_BYTES]; /* the lines left of the current node */
  int branches;              /* in PREFIX, of three columns each */
  size_t hidden;             /* branches that are not printed, */
  int64_t hidden_weight;     /* and theirs */
} printer_t;

static char *amount_of(int64_t weight, const char *unit, char *out) {
  return unit ? report_count((uint64_t)weight, out) : report_bytes(weight, out);
}

static double share_of(const printer_t *p, int64_t weight) {
  int64_t whole = size_of(p->tree->nodes[0].weight);
  return whole ? 100.0 * (double)weight / (double)whole : 0;
}

/* BRANCH is what connects the node with the others of its parent; "" for an only child. */
static void print_row(const printer_t *p, const node_t *n, const char *branch) {
  const report_t *r = p->tree->report;
  char amount[24], self[16] = "", name[REPORT_NAME_MAX];
  bool library = n->name->known && *n->name->library, down = r->tree == TREE_TOP_DOWN;
  const char *recursive = n->recursive ? " (recursive)" : "";
  int used = (down ? 32 : 23) + 3 * p->branches + (*branch ? 3 : 0) + (int)strlen(recursive);
  int place = library ? 2 + (int)strlen(n->name->library) : 0;
  if (r->columns && used + place + NAME_LEAST > (int)r->columns) library = false;
  if (library) used += place;
  if (down) snprintf(self, sizeof self, "  %5.1f %%", share_of(p, n->self));
  fprintf(p->out, "  %5.1f %%%s  %10s  %s%s%s%s%s%s%s", share_of(p, n->weight), self,
          amount_of(n->weight, p->unit, amount), r->dim, p->prefix, branch, r->plain,
          report_name(r, n->name, (int)r->columns - used, name), r->dim, recursive);
  if (library) fprintf(p->out, "  %s", plain_text(n->name->library));
  fprintf(p->out, "%s\n", r->plain);
}

/* Counts the children that are not shown, and prints a row for them if together they are large. */
static void print_rest(printer_t *p, const uint32_t *list, size_t shown, size_t count) {
  const report_t *r = p->tree->report;
  int64_t rest = 0;
  for (size_t i = shown; i < count; i++)
    rest += p->tree->nodes[list[i]].weight;
  p->hidden += count - shown;
  p->hidden_weight += rest;
  if (shown == count || share_of(p, size_of(rest)) < 100 * LEAST_SHARE) return;
  fprintf(p->out, "  %5.1f %%%*s  %s%s└─ %s… in %zu more\n", share_of(p, rest),
          r->tree == TREE_TOP_DOWN ? 21 : 12, "", r->dim, p->prefix, r->plain, count - shown);
}

/* Whether a row for the children that are not shown follows. */
static bool has_rest(const printer_t *p, const uint32_t *list, size_t shown, size_t count) {
  int64_t rest = 0;
  for (size_t i = shown; i < count; i++)
    rest += p->tree->nodes[list[i]].weight;
  return shown < count && share_of(p, size_of(rest)) >= 100 * LEAST_SHARE;
}

static void print_children(printer_t *p, uint32_t parent) {
  size_t count, size = strlen(p->prefix);
  uint32_t *list = ranked_children(p->tree, parent, &count);
  size_t shown = list ? shown_of(p->tree, list, count) : 0;
  bool rest = list && has_rest(p, list, shown, count);
  bool branches = shown + rest > 1 && p->branches < BRANCHES_MAX;
  for (size_t i = 0; i < shown; i++) {
    bool is_last = i + 1 == shown && !rest;
    print_row(p, &p->tree->nodes[list[i]], !branches ? "" : is_last ? "└─ " : "├─ ");
    if (branches) {
      snprintf(p->prefix + size, sizeof p->prefix - size, "%s", is_last ? "   " : "│  ");
      p->branches++;
    }
    print_children(p, list[i]);
    p->branches -= branches;
    p->prefix[size] = 0;
  }
  if (list) print_rest(p, list, shown, count);
  free(list);
}

int tree_print(const report_t *r, tree_fill_fn *fill, const void *context, const char *title,
               const char *unit, FILE *out) {
  char amount[24];
  tree_t *t = tree_make(r, fill, context, true);
  if (!t) return SONDE_ENOMEM;
  printer_t p = {.tree = t, .unit = unit, .out = out};
  fputc('\n', out);
  wrap_format(out, (wrap_t){.indent = 2, .columns = r->columns},
              "%s%s, %s%s: %s%s%s; below each function: its %s\n", r->bold, title,
              r->tree == TREE_TOP_DOWN ? "top-down" : "bottom-up", r->plain,
              amount_of(t->nodes[0].weight, unit, amount), unit && *unit ? " " : "",
              unit ? unit : "", r->tree == TREE_TOP_DOWN ? "callees" : "callers");
  fprintf(out, "%s  %7s%s  %10s  function%s\n", r->dim, "total",
          r->tree == TREE_TOP_DOWN ? "     self" : "", unit && *unit ? unit : "bytes", r->plain);
  print_children(&p, 0);
  if (p.hidden)
    fprintf(out,
            "%s  hidden: %zu branches with %.1f %% in all, each below 1 %% or beyond --top %u%s\n",
            r->dim, p.hidden, share_of(&p, p.hidden_weight), r->top, r->plain);
  tree_free(t);
  return 0;
}

/* ---- JSON --------------------------------------------------------------------------------- */

static json_object *node_json(tree_t *t, uint32_t index) {
  const node_t *n = &t->nodes[index];
  json_object *o = json_new_object();
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
    json_object *children = json_new_array();
    for (size_t i = 0; i < shown; i++)
      json_append(children, node_json(t, list[i]));
    json_add(o, "children", children);
  }
  free(list);
  return o;
}

void tree_add_json(const report_t *r, tree_fill_fn *fill, const void *context, json_object *o) {
  tree_t *t = tree_make(r, fill, context, false);
  if (!t) return;
  json_object *tree = node_json(t, 0);
  json_add_text(tree, "direction", r->tree == TREE_TOP_DOWN ? "top-down" : "bottom-up");
  json_add(o, "tree", tree);
  tree_free(t);
}
