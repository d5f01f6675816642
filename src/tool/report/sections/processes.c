/* SPDX-License-Identifier: MIT
 *
 * Section `processes`: the processes of a run that followed children (sonde record --follow), or
 * the children that were not followed.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/children.h"
#include "reader/body.h"
#include "report/json.h"
#include "report/report.h"
#include "symbol/short_name.h"

/* Rows of a summary. */
enum { BRIEF_ROWS = 10 };
/* Bytes of a command in a summary, so that a row fits in 80 columns. */
enum { BRIEF_COMMAND = 42 };

typedef struct process {
  uint64_t pid, parent, start_ns, end_ns, cpu_ns;
  char *command, *file, *why;
} process_t;

typedef struct processes {
  process_t *items;
  size_t count, capacity, unrecorded;
  bool has_children;
  uint64_t own_cpu_ns, children_cpu_ns;
} processes_t;

static void end(void *state) {
  processes_t *p = state;
  for (size_t i = 0; i < p->count; i++) {
    free(p->items[i].command);
    free(p->items[i].file);
    free(p->items[i].why);
  }
  free(p->items);
}

static char *take_text(body_t *b) {
  uint64_t size;
  const uint8_t *text = body_string(b, &size);
  return strndup((const char *)text, size);
}

static bool add_process(processes_t *p, const record_event_t *e) {
  body_t b = {.p = e->body, .end = e->body + e->body_size};
  process_t *r = ARRAY_ADD(*p);
  if (!r) return false;
  *r = (process_t){0};
  uint64_t *const numbers[] = {&r->pid, &r->parent, &r->start_ns, &r->end_ns, &r->cpu_ns};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    *numbers[i] = body_number(&b);
  r->command = take_text(&b);
  r->file = take_text(&b);
  r->why = take_text(&b);
  if (!r->command || !r->file || !r->why) return false;
  p->unrecorded += !*r->file;
  return true;
}

static bool add_event(void *state, const record_event_t *e) {
  processes_t *p = state;
  uint64_t n[2];
  if (e->kind != EVENT_EXTENDED) return true;
  if (e->subtype == EXTENDED_PROCESS) return add_process(p, e);
  if (e->subtype != EXTENDED_CHILDREN || !body_numbers(e, n, 2)) return true;
  p->has_children = true;
  p->own_cpu_ns = n[0];
  p->children_cpu_ns = n[1];
  return true;
}

static bool has_data(const report_t *r, void *state) {
  const processes_t *p = state;
  return p->count > (r->brief ? 1 : 0) ||
         (p->has_children && children_matter(reader_header(r->reader)->mode & RECORD_AUDIT,
                                             p->own_cpu_ns, p->children_cpu_ns));
}

/* The path of a child's recording, which is beside that of the program, also after both moved. */
static void place(const report_t *r, const char *file, char *out, size_t size) {
  const char *slash = strrchr(r->path, '/'), *name = strrchr(file, '/');
  snprintf(out, size, "%.*s%s", slash ? (int)(slash + 1 - r->path) : 0, r->path,
           name ? name + 1 : file);
}

static uint64_t lasted_ns(const process_t *p) {
  return p->end_ns > p->start_ns ? p->end_ns - p->start_ns : 0;
}

static void print_row(const report_t *r, const process_t *p, FILE *out) {
  char path[PATH_MAX];
  size_t length = strlen(p->command), most = r->brief ? BRIEF_COMMAND : length;
  fprintf(out, "  %8u  ", (unsigned)p->pid);
  if (p->end_ns)
    fprintf(out, "%8.3f s", (double)lasted_ns(p) / 1e9);
  else
    fprintf(out, "   running");
  fprintf(out, "  %8.3f s  %.*s%s\n", (double)p->cpu_ns / 1e9, (int)most, plain_text(p->command),
          length > most ? "…" : "");
  if (*p->file) {
    place(r, p->file, path, sizeof path);
    fprintf(out, "            %s%s%s\n", r->dim, plain_text(path), r->plain);
  } else {
    fprintf(out, "            not recorded: %s\n", p->why);
  }
}

/* A program from outside whose calls are audited is traced, without its children. */
static void print_children(const report_t *r, const processes_t *p, FILE *out) {
  uint32_t mode = reader_header(r->reader)->mode;
  bool traced = mode & RECORD_AUDIT && mode & RECORD_FROM_OUTSIDE;
  fprintf(out,
          "  the children of the command were not recorded: they used %.2f s of CPU\n"
          "  time, the command itself %.2f s%s\n",
          (double)p->children_cpu_ns / 1e9, (double)p->own_cpu_ns / 1e9,
          traced ? "" : "; record them with 'sonde record --follow'");
}

static int by_start(const void *a, const void *b) {
  const process_t *one = a, *two = b;
  if (one->start_ns != two->start_ns) return one->start_ns < two->start_ns ? -1 : 1;
  return one->pid < two->pid ? -1 : one->pid > two->pid;
}

static int print_text(const report_t *r, void *state, FILE *out) {
  processes_t *p = state;
  fprintf(out, "\n%sprocesses%s\n", r->bold, r->plain);
  if (p->has_children) print_children(r, p, out);
  if (!p->count) return 0;
  qsort(p->items, p->count, sizeof *p->items, by_start);
  fprintf(out, "  %zu in this run", p->count);
  if (p->unrecorded) fprintf(out, ", %zu of them not recorded", p->unrecorded);
  fprintf(out, "; 'sonde report' reads each file\n");
  fprintf(out, "       %spid      lasted    CPU time  command%s\n", r->dim, r->plain);
  size_t most = r->brief ? report_rows(r, BRIEF_ROWS) : p->count;
  size_t shown = p->count > most ? most : p->count;
  for (size_t i = 0; i < shown; i++)
    print_row(r, &p->items[i], out);
  if (shown < p->count)
    fprintf(out, "  … and %zu more; 'sonde report FILE processes' lists all\n", p->count - shown);
  return 0;
}

static json_object *row_json(const report_t *r, const process_t *p) {
  char path[PATH_MAX];
  json_object *o = json_new_object();
  json_add_count(o, "pid", p->pid);
  if (p->parent) json_add_count(o, "parent", p->parent);
  json_add_text(o, "command", p->command);
  json_add_count(o, "start_ns", p->start_ns);
  if (p->end_ns) json_add_count(o, "duration_ns", lasted_ns(p));
  json_add_count(o, "cpu_ns", p->cpu_ns);
  if (*p->file) {
    place(r, p->file, path, sizeof path);
    json_add_text(o, "file", path);
  } else {
    json_add_text(o, "not_recorded", p->why);
  }
  return o;
}

static json_object *make_json(const report_t *r, void *state) {
  processes_t *p = state;
  json_object *o = json_new_object(), *list = json_new_array();
  if (p->count) qsort(p->items, p->count, sizeof *p->items, by_start);
  for (size_t i = 0; i < p->count; i++)
    json_append(list, row_json(r, &p->items[i]));
  json_add(o, "list", list);
  if (p->has_children) {
    json_add_count(o, "own_cpu_ns", p->own_cpu_ns);
    json_add_count(o, "children_cpu_ns", p->children_cpu_ns);
  }
  return o;
}

const report_section_t section_processes = {.name = "processes",
                                            .option = "--follow",
                                            .state_bytes = sizeof(processes_t),
                                            .event = add_event,
                                            .has_data = has_data,
                                            .text = print_text,
                                            .json = make_json,
                                            .end = end};
