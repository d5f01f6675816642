/* SPDX-License-Identifier: MIT
 *
 * The built page has marks, which are replaced: the title, the text, the data, and the data of the
 * recording to compare with. Browsers that run no scripts, and search in the file, see the text.
 */
#include "report/exports/page/document.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "report/exports/page/built.h"
#include "report/json.h"
#include "sonde/status.h"

#define TITLE_MARK  "<!--sonde:title-->"
#define TEXT_MARK   "<!--sonde:text-->"
#define ANSWER_MARK "<!--sonde:answer-->"
#define DATA_MARK   "<!--sonde:data-->"
#define OLD_MARK    "<!--sonde:old-->"

/* Rows of the table of functions in the text. */
enum { TEXT_FUNCTIONS = 50 };

bool page_is_built(void) { return page_template[0] != 0; }

/* ---- HTML --------------------------------------------------------------------------------- */

void page_html(const char *text, FILE *out) {
  const unsigned char *p = (const unsigned char *)text;
  while (*p) {
    size_t n = utf8_length(p);
    bool is_control = (*p < ' ' && *p != '\n') || *p == 127;
    if (*p == '<')
      fputs("&lt;", out);
    else if (*p == '>')
      fputs("&gt;", out);
    else if (*p == '&')
      fputs("&amp;", out);
    else if (*p == '"')
      fputs("&quot;", out);
    else if (*p == '\'')
      fputs("&#39;", out);
    else if (!n || is_control)
      fputs("\xef\xbf\xbd", out);
    else
      (void)fwrite(p, 1, n, out);
    p += n ? n : 1;
  }
}

static json_object *member(json_object *o, const char *key) {
  json_object *value = NULL;
  return json_object_object_get_ex(o, key, &value) ? value : NULL;
}

static void text_member(json_object *o, const char *key, FILE *out) {
  const char *text = json_text_of(o, key);
  page_html(text ? text : "", out);
}

static void write_sentences(json_object *why, FILE *out) {
  json_object *findings = member(why, "findings");
  size_t count = findings ? json_object_array_length(findings) : 0;
  if (!count) {
    fputs("<p>Nothing is wrong, as far as the recorded sensors tell.</p>", out);
    return;
  }
  fputs("<ol class=\"why\">", out);
  for (size_t i = 0; i < count; i++) {
    json_object *f = json_object_array_get_idx(findings, i);
    fprintf(out, "<li class=\"%s\"><p>", json_flag_of(f, "fault") ? "fault" : "note");
    text_member(f, "sentence", out);
    fputs("</p><p class=\"evidence\">", out);
    text_member(member(f, "evidence"), "figure", out);
    fputs("</p></li>", out);
  }
  fputs("</ol>", out);
}

/* The head of a report: the program, how it ended, and what is missing. */
static int write_facts(const report_t *report, FILE *out) {
  report_t plain = *report;
  char *text = NULL;
  size_t size;
  FILE *memory = open_memstream(&text, &size);
  if (!memory) return SONDE_ENOMEM;
  plain.bold = plain.dim = plain.plain = "";
  report_head_text(&plain, memory);
  bool good = fclose(memory) == 0 && text;
  fputs("<pre class=\"facts\">", out);
  if (good) page_html(text, out);
  fputs("</pre>", out);
  free(text);
  return good ? 0 : SONDE_ENOMEM;
}

/* ---- the table of functions --------------------------------------------------------------- */

/* The columns of samples and of blocks; a key may name a member of an object. */
typedef struct function_table {
  const char *section, *title, *titles[2], *keys[2], *inner;
} function_table_t;

static void number_cell(json_object *row, const char *key, const char *inner, FILE *out) {
  json_object *value = member(row, key);
  if (value && inner) value = member(value, inner);
  fputs("<td>", out);
  if (value) fprintf(out, "%s", json_object_to_json_string(value));
  fputs("</td>", out);
}

static void write_row(const function_table_t *t, json_object *row, FILE *out) {
  fputs("<tr><td>", out);
  text_member(row, "function", out);
  fputs("</td>", out);
  for (int k = 0; k < 2; k++)
    number_cell(row, t->keys[k], t->inner, out);
  fputs("<td>", out);
  text_member(row, json_text_of(row, "file") ? "file" : "module", out);
  if (json_text_of(row, "file") && member(row, "line"))
    fprintf(out, ":%lld", (long long)json_object_get_int64(member(row, "line")));
  fputs("</td></tr>\n", out);
}

static bool write_functions(json_object *sections, const function_table_t *t, FILE *out) {
  json_object *section = member(sections, t->section);
  json_object *rows = section ? member(section, "functions") : NULL;
  size_t count = rows ? json_object_array_length(rows) : 0;
  if (!count) return false;
  fprintf(out,
          "<h2>%s</h2><table><thead><tr><th>function</th><th>%s</th><th>%s</th>"
          "<th>place</th></tr></thead><tbody>\n",
          t->title, t->titles[0], t->titles[1]);
  for (size_t i = 0; i < count && i < TEXT_FUNCTIONS; i++)
    write_row(t, json_object_array_get_idx(rows, i), out);
  fputs("</tbody></table>\n", out);
  return true;
}

/* The program as it was called: "redis-server" is a link to another file. Without it the name of
 * the recording. */
static void write_program(const page_source_t *s, FILE *out) {
  json_object *words = member(s->sections, "arguments");
  bool called = words && json_object_array_length(words);
  const char *path = called ? json_object_get_string(json_object_array_get_idx(words, 0))
                            : json_text_of(s->sections, "exe");
  if (!path || !*path) path = s->report->path;
  const char *slash = strrchr(path, '/');
  page_html(slash && slash[1] ? slash + 1 : path, out);
}

static int write_text(const page_source_t *s, FILE *out) {
  static const function_table_t tables[] = {
      {"sample", "CPU time by function", {"own samples", "total samples"}, {"own", "total"}, NULL},
      {"trace", "Calls by function", {"own ns", "total ns"}, {"self_ns", "total_ns"}, NULL},
      {"malloc",
       "Memory by function",
       {"bytes at the peak", "live bytes"},
       {"peak", "live"},
       "bytes"}};
  fputs("<h1>", out);
  write_program(s, out);
  fputs("</h1>", out);
  write_sentences(member(s->sections, "why"), out);
  int status = write_facts(s->report, out);
  bool written = false;
  for (size_t i = 0; i < sizeof tables / sizeof *tables && !written; i++)
    written = write_functions(s->sections, &tables[i], out);
  return status;
}

/* ---- the page ----------------------------------------------------------------------------- */

/* Compresses what PUT writes. */
static int write_packed(bool (*put)(const void *what, page_stream_t *out), const void *what,
                        FILE *out) {
  page_stream_t *stream = malloc(sizeof *stream);
  if (!stream || !page_stream_start(stream, out, true)) {
    free(stream);
    return SONDE_ENOMEM;
  }
  bool good = put(what, stream);
  good = page_stream_end(stream) && good;
  free(stream);
  return good ? 0 : SONDE_ENOMEM;
}

static bool put_data(const void *source, page_stream_t *out) {
  return page_data_write(source, out);
}

static int write_data(const page_source_t *s, FILE *out) { return write_packed(put_data, s, out); }

static bool put_text(const void *text, page_stream_t *out) {
  page_put(out, text);
  return true;
}

/* Writes the template up to MARK. Returns the text behind MARK. */
static const char *write_up_to(const char *text, const char *mark, FILE *out) {
  const char *at = strstr(text, mark);
  if (!at) return text; /* page/build.mjs refuses to build such a page */
  (void)fwrite(text, 1, (size_t)(at - text), out);
  return at + strlen(mark);
}

int page_write(const page_source_t *s, const page_source_t *old, FILE *out) {
  const char *rest = write_up_to(page_template, TITLE_MARK, out);
  write_program(s, out);
  rest = write_up_to(rest, TEXT_MARK, out);
  int status = write_text(s, out);
  rest = write_up_to(rest, ANSWER_MARK, out);
  rest = write_up_to(rest, DATA_MARK, out);
  if (status == 0) status = write_data(s, out);
  rest = write_up_to(rest, OLD_MARK, out);
  if (status == 0 && old) status = write_data(old, out);
  fputs(rest, out);
  return status;
}

int page_write_answer(const char *title, const char *text, json_object *data, FILE *out) {
  const char *rest = write_up_to(page_template, TITLE_MARK, out);
  page_html(title, out);
  rest = write_up_to(rest, TEXT_MARK, out);
  fputs("<h1>", out);
  page_html(title, out);
  fputs("</h1><pre class=\"facts\">", out);
  page_html(text, out);
  fputs("</pre>", out);
  rest = write_up_to(rest, ANSWER_MARK, out);
  int status = write_packed(put_text, json_print(data, JSON_STYLE), out);
  rest = write_up_to(rest, DATA_MARK, out);
  rest = write_up_to(rest, OLD_MARK, out);
  fputs(rest, out);
  return status;
}
