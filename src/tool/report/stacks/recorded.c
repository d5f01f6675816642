/* SPDX-License-Identifier: MIT
 *
 * A stack of a recording as text and as JSON.
 */
#include <inttypes.h>

#include "report/json.h"
#include "report/report.h"

enum { DEPTH_SHOWN = 12, DEPTH_MAX = 4096 };

static void print_name(const report_t *r, const frame_name_t *name, FILE *out) {
  fprintf(out, "      %s", name->function);
  if (name->file)
    fprintf(out, "  %s%s:%" PRIu32 "%s", r->dim, name->file, name->line, r->plain);
  else if (name->known && *name->library)
    fprintf(out, "  %s%s%s", r->dim, name->library, r->plain);
  if (name->inlined) fprintf(out, "  %s(inlined)%s", r->dim, r->plain);
  fputc('\n', out);
}

void report_stack_text(const report_t *r, uint32_t stack, FILE *out) {
  const frame_name_t *names[DEPTH_MAX];
  int count = frame_names_of_stack(r->names, stack, names, DEPTH_MAX);
  if (count < 0) fprintf(out, "      [the stack is not in the recording]\n");
  for (int i = 0; i < count && i < DEPTH_SHOWN; i++)
    print_name(r, names[i], out);
  if (count > DEPTH_SHOWN)
    fprintf(out, "      … %d more%s\n", count - DEPTH_SHOWN,
            count > READER_DEPTH_MAX ? ", at least" : "");
}

void report_function_json(const frame_name_t *name, json_object *o) {
  json_add_text(o, "function", name->function);
  if (*name->library) json_add_text(o, "module", name->library);
  if (!name->file) return;
  json_add_text(o, "file", name->file);
  json_add_count(o, "line", name->line);
}

static json_object *frame_json(const record_frame_t *f, const frame_name_t *name) {
  json_object *o = json_object_new_object();
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
  json_object *o = json_object_new_object();
  json_add_count(o, "blocks", counts.count);
  json_add_count(o, "bytes", counts.bytes);
  return o;
}

json_object *report_frames_json(const report_t *r, uint32_t stack, bool *complete) {
  const record_frame_t *frames[DEPTH_MAX];
  const frame_name_t *names;
  json_object *list = json_object_new_array();
  int count = reader_stack(r->reader, stack, frames, DEPTH_MAX);
  bool whole = count > 0 && count <= DEPTH_MAX;
  for (int i = 0; i < count && i < DEPTH_MAX; i++) {
    if (frame_names_is_marker(frames[i])) {
      whole = false;
      continue;
    }
    int n = frame_names_of_frame(r->names, frames[i], &names);
    for (int k = 0; k < n; k++)
      json_object_array_add(list, frame_json(frames[i], &names[k]));
  }
  if (complete) *complete = whole;
  return list;
}
