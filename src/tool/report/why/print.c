/* SPDX-License-Identifier: MIT
 *
 * Prints findings as text, Markdown and JSON.
 */
#include <string.h>

#include "base/terminal.h"
#include "base/wrap.h"
#include "report/json.h"
#include "report/why/why.h"

enum { TEXT_MAX = 1600, HEAD_LINES = 5, SHORT_HEAD_LINES = 3, NOTES_SHOWN = 2 };

/* ---- sentences ---------------------------------------------------------------------------- */

/* A sensor: what it shows, the option that records it. */
typedef struct sense {
  const char *text, *option;
  bool recorded;
} sense_t;
enum { SENSES = 7 };

static void list_senses(const why_t *w, sense_t out[SENSES]) {
  const sense_t all[SENSES] = {
      {"CPU samples", "--sample", w->has_ticks},
      {"event loops", "--stall", w->has_stalls},
      {"waits", "--wall", w->has_waits},
      {"allocations", "--malloc", w->replay != NULL},
      {"sensitive calls", "--audit", w->has_calls},
      {"descriptors and resident memory", NULL, w->usage && w->usage->is_recorded},
      {"crashes", NULL, w->reader || w->is_core}};
  memcpy(out, all, sizeof all);
}

/* Appends to TEXT, of TEXT_MAX bytes. */
static void append(char *text, const char *more) {
  size_t used = strlen(text);
  snprintf(text + used, TEXT_MAX - used, "%s", more);
}

static void append_senses(const why_t *w, bool recorded, char *text) {
  sense_t senses[SENSES];
  const char *separator = "";
  list_senses(w, senses);
  for (int i = 0; i < SENSES; i++) {
    if (senses[i].recorded != recorded || (!recorded && !senses[i].option)) continue;
    append(text, separator);
    append(text, senses[i].text);
    if (!recorded && !w->is_live && !w->is_core) {
      append(text, " (");
      append(text, senses[i].option);
      append(text, ")");
    }
    separator = ", ";
  }
}

static bool is_healthy(const findings_list_t *list) {
  return !list->count || list->items[0].is_note;
}

/* "No fault was found in …; most of the CPU time, …; not recorded: …" */
static void healthy_sentence(const why_report_t *why, char *out) {
  char missing[TEXT_MAX] = "", seen[TEXT_MAX] = "";
  append_senses(&why->facts, true, seen);
  append_senses(&why->facts, false, missing);
  snprintf(out, TEXT_MAX, "No fault was found in %s", seen);
  for (size_t i = 0; i < why->findings.count && i < NOTES_SHOWN; i++) {
    append(out, "; ");
    char *start = out + strlen(out);
    append(out, why->findings.items[i].what);
    if (*start >= 'A' && *start <= 'Z') *start = (char)(*start + 'a' - 'A');
  }
  if (*missing) {
    append(out, "; not recorded: ");
    append(out, missing);
  }
  if (why->is_go) {
    append(out, why->has_goroutines ? "; all goroutines: sonde stacks "
                                    : "; goroutines that wait have no thread: sonde stacks ");
    append(out, why->path);
  }
  append(out, ".");
}

/* "since 1.20 s"; "" if the time is unknown or part of the figures. */
static void since_text(const why_t *w, const finding_t *f, char *out, size_t size) {
  enum { START_SHARE = 20 };
  *out = 0;
  if (w->is_live || w->is_core || f->is_note || f->kind == WHY_CRASH || !f->since_ns) return;
  if (f->since_ns < w->duration_ns / START_SHARE)
    snprintf(out, size, ", from the start");
  else
    snprintf(out, size, ", since %.2f s", (double)f->since_ns / 1e9);
}

static void finding_sentence(const why_t *w, const finding_t *f, char *out) {
  char since[40];
  since_text(w, f, since, sizeof since);
  snprintf(out, TEXT_MAX, "%s%s%s%s.", f->what, since, *f->advice ? "; " : "", f->advice);
}

static void command_of(const why_report_t *why, const finding_t *f, char *out, size_t size) {
  if (f->command)
    snprintf(out, size, "%s %s", f->command, why->path);
  else if (why->facts.is_core)
    snprintf(out, size, "sonde stacks --core %s", why->path);
  else if (why->facts.is_live)
    snprintf(out, size, "sonde stacks %s", why->path);
  else
    snprintf(out, size, "sonde report %s%s%s", why->path, f->section ? " " : "",
             f->section ? f->section : "");
}

static size_t shown_of(const findings_list_t *list) {
  return list->count < WHY_SHOWN_MAX ? list->count : WHY_SHOWN_MAX;
}

/* ---- text --------------------------------------------------------------------------------- */

void why_text(const why_report_t *why, unsigned columns, FILE *out) {
  char text[TEXT_MAX], command[600];
  if (is_healthy(&why->findings)) {
    healthy_sentence(why, text);
    wrap_print(out, text, (wrap_t){0, 0, columns, WRAP_ALL_LINES});
    return;
  }
  for (size_t i = 0; i < shown_of(&why->findings); i++) {
    const finding_t *f = &why->findings.items[i];
    finding_sentence(&why->facts, f, text);
    fprintf(out, "%zu. ", i + 1);
    wrap_print(out, text, (wrap_t){3, 3, columns, WRAP_ALL_LINES});
    command_of(why, f, command, sizeof command);
    snprintf(text, sizeof text, "%s: %s", f->evidence, command);
    fprintf(out, "   %s", terminal_style(out, TERMINAL_DIM));
    wrap_print(out, text, (wrap_t){3, 3, columns, WRAP_ALL_LINES});
    fputs(terminal_style(out, TERMINAL_PLAIN), out);
  }
}

void why_head_text(const why_report_t *why, const report_t *r, FILE *out) {
  char text[TEXT_MAX];
  int lines = r->brief_rows < HEAD_LINES ? SHORT_HEAD_LINES : HEAD_LINES;
  if (is_healthy(&why->findings)) return;
  for (size_t i = 0; i < shown_of(&why->findings) && lines > 0; i++) {
    finding_sentence(&why->facts, &why->findings.items[i], text);
    fprintf(out, "  %s%s%s", r->bold, i ? "           " : "why        ", r->plain);
    lines = wrap_print(out, text, (wrap_t){13, 13, r->columns, lines});
  }
}

/* ---- Markdown ----------------------------------------------------------------------------- */

/* Functions and texts may contain any character. */
static void print_escaped(const char *text, FILE *out) {
  for (; *text; text++) {
    if (strchr("\\`*_{}[]<>#|", *text)) fputc('\\', out);
    fputc(*text, out);
  }
}

void why_markdown(const why_report_t *why, FILE *out) {
  char text[TEXT_MAX], command[600];
  if (is_healthy(&why->findings)) {
    healthy_sentence(why, text);
    print_escaped(text, out);
    fputc('\n', out);
    return;
  }
  for (size_t i = 0; i < shown_of(&why->findings); i++) {
    const finding_t *f = &why->findings.items[i];
    finding_sentence(&why->facts, f, text);
    command_of(why, f, command, sizeof command);
    fprintf(out, "%zu. ", i + 1);
    print_escaped(text, out);
    fputs("  \n   ", out);
    print_escaped(f->evidence, out);
    fprintf(out, ": `%s`\n", command);
  }
}

/* ---- JSON --------------------------------------------------------------------------------- */

static json_object *culprit_json(const why_function_t *f) {
  json_object *o = json_new_object();
  json_add_text(o, "function", f->name);
  if (*f->library) json_add_text(o, "module", f->library);
  if (f->file) json_add_text(o, "file", f->file);
  if (f->file && f->line) json_add_count(o, "line", f->line);
  return o;
}

static json_object *finding_json(const why_report_t *why, const finding_t *f) {
  char text[TEXT_MAX];
  json_object *o = json_new_object(), *evidence = json_new_object();
  json_add_text(o, "kind", why_kind_key(f->kind));
  json_add_flag(o, "fault", !f->is_note);
  finding_sentence(&why->facts, f, text);
  json_add_text(o, "sentence", text);
  if (f->culprit) json_add(o, "culprit", culprit_json(f->culprit));
  if (f->tid) json_add_count(o, "tid", f->tid);
  if (f->since_ns) json_add_count(o, "since_ns", f->since_ns);
  if (f->unit) {
    json_add(o, "amount", json_object_new_double(f->amount));
    json_add_text(o, "unit", f->unit);
  }
  if (*f->advice) json_add_text(o, "advice", f->advice);
  json_add_text(evidence, "figure", f->evidence);
  command_of(why, f, text, sizeof text);
  json_add_text(evidence, "command", text);
  json_add(o, "evidence", evidence);
  return o;
}

static json_object *senses_json(const why_t *w, bool recorded) {
  sense_t senses[SENSES];
  json_object *list = json_new_array();
  list_senses(w, senses);
  for (int i = 0; i < SENSES; i++)
    if (senses[i].recorded == recorded) json_append(list, json_new_text(senses[i].text));
  return list;
}

json_object *why_json(const why_report_t *why) {
  json_object *o = json_new_object(), *list = json_new_array();
  json_add_flag(o, "healthy", is_healthy(&why->findings));
  for (size_t i = 0; i < shown_of(&why->findings); i++)
    json_append(list, finding_json(why, &why->findings.items[i]));
  json_add(o, "findings", list);
  json_add(o, "looked_at", senses_json(&why->facts, true));
  json_add(o, "not_recorded", senses_json(&why->facts, false));
  return o;
}
