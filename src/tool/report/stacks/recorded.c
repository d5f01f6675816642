/* SPDX-License-Identifier: MIT
 *
 * A stack of a recording as text and as JSON.
 */
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "report/json.h"
#include "report/report.h"
#include "symbol/language.h"
#include "symbol/short_name.h"

enum { LINES_SHOWN = 12, OWN_SHOWN = 8, DEPTH_MAX = 4096 };

char *report_name(const report_t *r, const frame_name_t *name, int room, char *out) {
  enum { LEAST_ROOM = 20 };
  return frame_name_text(name, !r->columns, room > LEAST_ROOM ? (unsigned)room : LEAST_ROOM, out,
                         REPORT_NAME_MAX);
}

void report_place(const report_t *r, const frame_name_t *name, char *out, size_t size) {
  const char *slash = name->file && r->columns ? strrchr(name->file, '/') : NULL;
  const char *file = name->file ? plain_text(slash ? slash + 1 : name->file) : NULL;
  if (file && name->line)
    snprintf(out, size, "  %s:%" PRIu32, file, name->line);
  else if (file)
    snprintf(out, size, "  %s", file);
  else
    snprintf(out, size, "%s%s", name->known && *name->library ? "  " : "",
             name->known ? plain_text(name->library) : "");
}

/* COUNT: how many calls of the function follow each other (recursion). */
static void print_name(const report_t *r, const frame_name_t *name, int count, FILE *out) {
  enum { INDENT = 6 };
  char text[REPORT_NAME_MAX], place[PATH_MAX + 32], times[24] = "";
  if (count > 1) snprintf(times, sizeof times, "  ×%d", count);
  const char *inlined = name->inlined ? "  (inlined)" : "";
  report_place(r, name, place, sizeof place);
  int room =
      (int)r->columns - INDENT - (int)strlen(place) - (int)strlen(inlined) - (int)strlen(times);
  fprintf(out, "      %s%s%s%s%s%s\n", report_name(r, name, room, text), r->dim, place, inlined,
          times, r->plain);
}

void report_site_text(const report_t *r, const frame_name_t *site, FILE *out) {
  print_name(r, site, 1, out);
}

/* Functions of a stack that are printed together: a recursion is one line. */
typedef struct stack_line {
  int first, count; /* of its functions */
  bool is_shown;
} stack_line_t;

static int make_lines(const frame_name_t **names, int count, stack_line_t *lines) {
  int lines_count = 0;
  for (int i = 0; i < count; i++) {
    if (i && names[i] == names[i - 1])
      lines[lines_count - 1].count++;
    else
      lines[lines_count++] = (stack_line_t){.first = i, .count = 1};
  }
  return lines_count;
}

static int show(stack_line_t *line) {
  if (line->is_shown) return 0;
  line->is_shown = true;
  return 1;
}

/* The program's own functions come first, since people look for these: below many frames of
 * libraries, the innermost lines alone would have none. A single line is not left out, as what says
 * so takes a line. */
static void select_lines(const report_t *r, const frame_name_t **names, stack_line_t *lines,
                         int count) {
  int left = r->all ? count : LINES_SHOWN, own = r->all ? 0 : OWN_SHOWN;
  for (int i = 0; i < count && own > 0; i++)
    if (names[lines[i].first]->own) own--, left -= show(&lines[i]);
  for (int i = 0; i < count && left > 0; i++)
    left -= show(&lines[i]);
  for (int i = 0; i < count; i++)
    if (lines[i].count == 1 && (!i || lines[i - 1].is_shown) &&
        (i + 1 == count || lines[i + 1].is_shown))
      lines[i].is_shown = true;
}

static void print_omitted(const report_t *r, int omitted, bool is_more, FILE *out) {
  if (omitted || is_more)
    fprintf(out, "      %s… %d more frame%s%s%s%s\n", r->dim, omitted,
            report_plural((uint64_t)omitted), is_more ? ", at least" : "", report_rest(r),
            r->plain);
}

static void print_lines(const report_t *r, const frame_name_t **names, int known, int count,
                        FILE *out) {
  stack_line_t lines[DEPTH_MAX];
  int lines_count = make_lines(names, known, lines), omitted = 0;
  select_lines(r, names, lines, lines_count);
  for (int i = 0; i < lines_count; i++) {
    if (!lines[i].is_shown) {
      omitted += lines[i].count;
      continue;
    }
    print_omitted(r, omitted, false, out);
    omitted = 0;
    print_name(r, names[lines[i].first], lines[i].count, out);
  }
  print_omitted(r, omitted + count - known, count > READER_DEPTH_MAX, out);
}

void report_stack_text(const report_t *r, uint32_t stack, FILE *out) {
  const frame_name_t *names[DEPTH_MAX];
  int count = frame_names_of_stack(r->names, stack, names, DEPTH_MAX);
  if (count < 0)
    fprintf(out, "      [the stack is not in the recording]\n");
  else
    print_lines(r, names, count < DEPTH_MAX ? count : DEPTH_MAX, count, out);
}

void report_function_json(const frame_name_t *name, json_object *o) {
  json_add_text(o, "function", name->function);
  if (*name->library) json_add_text(o, "module", name->library);
  if (!name->file) return;
  json_add_text(o, "file", name->file);
  json_add_count(o, "line", name->line);
}

static json_object *frame_json(const record_frame_t *f, const frame_name_t *name) {
  json_object *o = json_new_object();
  if (reader_is_interpreted(f))
    json_add_text(o, "language", language_facts(language_of_pc(f->pc))->key);
  else
    json_add_address(o, "pc", f->pc);
  if (*name->library) json_add_text(o, "module", name->library);
  if (name->known) json_add_text(o, "function", name->function);
  if (name->file) {
    json_add_text(o, "file", name->file);
    json_add_number(o, "line", name->line);
  }
  if (name->inlined) json_add_flag(o, "inlined", true);
  return o;
}

json_object *report_counts_json(counts_t counts) {
  json_object *o = json_new_object();
  json_add_count(o, "blocks", counts.count);
  json_add_count(o, "bytes", counts.bytes);
  return o;
}

json_object *report_frames_json(const report_t *r, uint32_t stack, bool *complete) {
  const record_frame_t *frames[DEPTH_MAX];
  const frame_name_t *names;
  json_object *list = json_new_array();
  int count = frame_names_frames(r->names, stack, frames, DEPTH_MAX);
  bool whole = count > 0 && count <= DEPTH_MAX;
  for (int i = 0; i < count && i < DEPTH_MAX; i++) {
    if (frame_names_is_marker(frames[i])) {
      whole = false;
      continue;
    }
    int n = frame_names_of_frame(r->names, frames[i], &names);
    for (int k = 0; k < n; k++)
      json_append(list, frame_json(frames[i], &names[k]));
  }
  if (complete) *complete = whole;
  return list;
}

void report_add_stack(const report_t *r, completeness_t *to, uint32_t stack, uint64_t weight) {
  const record_frame_t *frames[DEPTH_MAX];
  int count = stack ? reader_program_stack(r->reader, stack, frames, DEPTH_MAX) : 0;
  to->all += weight;
  if (count > 0 && count <= DEPTH_MAX && !frame_names_is_marker(frames[count - 1]))
    to->complete += weight;
}

void report_completeness_text(const report_t *r, const completeness_t *c, const char *what,
                              FILE *out) {
  if (!c->all || (r->brief && c->complete == c->all)) return;
  double share = 100.0 * (double)c->complete / (double)c->all;
  if (c->complete < c->all && share > 99.99) share = 99.99; /* not all */
  fprintf(out, "  stacks     %.2f %% of %s complete%s\n", share, what,
          c->complete < c->all ? "; the others lack their outer frames" : "");
}
