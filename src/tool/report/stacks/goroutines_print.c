/* SPDX-License-Identifier: MIT
 *
 * Goroutines as text, those of equal stacks as one paragraph, and as JSON.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/terminal.h"
#include "report/json.h"
#include "report/stacks/goroutines.h"

enum { IDS_SHOWN = 12 };

/* The runtime itself creates the first goroutine: then NULL. */
static const symbolized_pc_t *creator_of(const stacks_view_t *view, const goroutine_t *g) {
  const frame_t frame = {.pc = g->created_pc};
  const symbolized_pc_t *named =
      g->created_pc ? stack_symbolizer_lookup(view->symbolizer, &frame) : NULL;
  if (!named || !named->count || !named->functions[0].function) return NULL;
  return strncmp(named->functions[0].function, "runtime.", 8) != 0 ? named : NULL;
}

/* ---- groups --------------------------------------------------------------------------------- */

static int compare_numbers(uint64_t a, uint64_t b) { return a < b ? -1 : a > b; }

/* 0 for goroutines that share a paragraph. */
static int compare_stacks(const goroutine_t *a, const goroutine_t *b) {
  const thread_t *x = &a->stack, *y = &b->stack;
  int order = strcmp(a->state, b->state);
  if (!order) order = strcmp(a->wait, b->wait);
  if (!order) order = compare_numbers((uint64_t)a->tid, (uint64_t)b->tid);
  if (!order) order = compare_numbers(a->created_pc, b->created_pc);
  if (!order) order = compare_numbers(x->frame_count, y->frame_count);
  for (uint32_t i = 0; !order && i < x->frame_count; i++)
    order = compare_numbers(x->frames[i].pc, y->frames[i].pc);
  return order ? order : compare_numbers(x->ending, y->ending);
}

static int by_stack(const void *left, const void *right) {
  const goroutine_t *a = *(goroutine_t *const *)left, *b = *(goroutine_t *const *)right;
  int order = compare_stacks(a, b);
  return order ? order : compare_numbers(a->id, b->id);
}

typedef struct goroutine_group {
  goroutine_t **items;
  size_t count;
} goroutine_group_t;

static int by_first_id(const void *left, const void *right) {
  const goroutine_group_t *a = left, *b = right;
  return compare_numbers(a->items[0]->id, b->items[0]->id);
}

static size_t make_groups(goroutine_t **items, size_t count, goroutine_group_t *groups) {
  size_t made = 0;
  if (count) qsort(items, count, sizeof *items, by_stack);
  for (size_t i = 0; i < count; i++)
    if (made && !compare_stacks(groups[made - 1].items[0], items[i]))
      groups[made - 1].count++;
    else
      groups[made++] = (goroutine_group_t){&items[i], 1};
  if (made) qsort(groups, made, sizeof *groups, by_first_id);
  return made;
}

/* ---- text ----------------------------------------------------------------------------------- */

static void print_creator(FILE *out, const stacks_view_t *view, const goroutine_t *g) {
  const symbolized_pc_t *named = creator_of(view, g);
  if (!named) return;
  const symbol_frame_t *function = &named->functions[0];
  fprintf(out, "  created by %s", function->function);
  if (function->file && function->line) fprintf(out, "  %s:%u", function->file, function->line);
  fputc('\n', out);
}

static void print_group(FILE *out, const stacks_view_t *view, const goroutine_group_t *group) {
  const goroutine_t *g = group->items[0];
  fprintf(out, "\n%sgoroutine%s ", terminal_style(out, TERMINAL_GREEN),
          group->count == 1 ? "" : "s");
  for (size_t i = 0; i < group->count && i < IDS_SHOWN; i++)
    fprintf(out, "%s%" PRIu64, i ? ", " : "", group->items[i]->id);
  if (group->count > IDS_SHOWN)
    fprintf(out, " and %zu more (%zu in all)", group->count - IDS_SHOWN, group->count);
  fprintf(out, "%s, %s", terminal_style(out, TERMINAL_PLAIN), g->state);
  if (g->wait[0]) fprintf(out, ": %s", g->wait);
  if (g->tid) fprintf(out, ", on thread %d", g->tid);
  fputc('\n', out);
  if (!g->tid) stacks_frames_text(out, view, &g->stack);
  print_creator(out, view, g);
}

void goroutines_text(FILE *out, const stacks_view_t *view, const goroutines_t *all) {
  goroutine_t **items = calloc(all->count + 1, sizeof *items);
  goroutine_group_t *groups = calloc(all->count + 1, sizeof *groups);
  size_t shown = 0, made = 0;
  for (size_t i = 0; items && groups && i < all->count; i++)
    if (view->native || !all->items[i].is_system) items[shown++] = &all->items[i];
  if (items && groups) made = make_groups(items, shown, groups);
  if (all->problem)
    fprintf(out, "\ngoroutines are not known: %s\n", all->problem);
  else
    fprintf(out, "\n%zu goroutine%s, %zu different stack%s", shown, shown == 1 ? "" : "s", made,
            made == 1 ? "" : "s");
  if (!all->problem && shown < all->count)
    fprintf(out, "; %zu of Go's runtime not shown (--native)", all->count - shown);
  if (!all->problem && all->left_out) fprintf(out, "; %" PRIu64 " not read", all->left_out);
  if (!all->problem) fputc('\n', out);
  for (size_t i = 0; i < made; i++)
    print_group(out, view, &groups[i]);
  free(items);
  free(groups);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static json_object *new_goroutine(const stacks_view_t *view, const goroutine_t *g) {
  json_object *object = json_new_object(), *frames = json_new_array();
  json_add_count(object, "id", g->id);
  json_add_text(object, "state", g->state);
  if (g->wait[0]) json_add_text(object, "wait", g->wait);
  if (g->tid) json_add_number(object, "tid", g->tid);
  if (g->is_system) json_add_flag(object, "system", true);
  const symbolized_pc_t *named = creator_of(view, g);
  if (named) {
    json_object *creator = json_new_object();
    json_add_function(creator, &named->functions[0]);
    json_add(object, "created_by", creator);
  }
  stacks_frames_json(frames, view, &g->stack);
  json_add(object, "frames", frames);
  json_add_flag(object, "complete", g->stack.ending == ENDING_COMPLETE);
  if (g->stack.reason) json_add_text(object, "reason", g->stack.reason);
  return object;
}

void goroutines_json(FILE *out, const stacks_view_t *view, const goroutines_t *all) {
  fputs(",\"goroutines\":[", out);
  for (size_t i = 0; i < all->count; i++) {
    json_object *object = new_goroutine(view, &all->items[i]);
    fprintf(out, "%s\n%s", i ? "," : "", json_print(object, JSON_STYLE));
    json_object_put(object);
  }
  fputs("\n]", out);
  if (!all->problem) return;
  json_object *problem = json_new_text(all->problem);
  fprintf(out, ",\"goroutines_missing\":%s", json_print(problem, JSON_STYLE));
  json_object_put(problem);
}
