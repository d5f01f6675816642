/* SPDX-License-Identifier: MIT
 *
 * V8's kinds and marks: logging/log.cc and objects/code-kind.cc. node 18 and earlier write
 * LazyCompile: and Function: instead of JS:.
 */
#include "reader/generated_name.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const char *behind(const char *text, const char *start) {
  size_t n = strlen(start);
  return strncmp(text, start, n) == 0 ? text + n : NULL;
}

enum { KIND_JS, KIND_SCRIPT = 3, KINDS = 5 }; /* from KIND_SCRIPT on: code outside functions */

/* What follows the kind. NULL: not a name of JavaScript. */
static const char *behind_kind(const char *text, int *kind) {
  static const char *const kinds[KINDS] = {"JS:", "LazyCompile:", "Function:", "Script:", "Eval:"};
  const char *rest = NULL;
  *kind = -1;
  while (!rest && ++*kind < KINDS)
    rest = behind(text, kinds[*kind]);
  return rest && *rest ? rest + !isalnum((unsigned char)*rest) : rest;
}

/* ":LINE:COLUMN" at the end of TEXT; NULL: there is none. node 18 writes ":LINE" alone. */
static const char *find_line(const char *text, int kind, uint32_t *line) {
  const char *p = text + strlen(text), *found = NULL;
  int numbers = 0;
  for (; numbers < 2; numbers++) {
    const char *end = p;
    while (p > text && isdigit((unsigned char)p[-1]))
      p--;
    if (p == end || p == text || p[-1] != ':') break;
    found = --p;
  }
  if (numbers < (kind == KIND_JS ? 2 : 1)) return NULL;
  *line = (uint32_t)strtoul(found + 1, NULL, 10);
  return found;
}

/* The space before the file in TEXT, which ends at END. Both names may contain spaces. */
static const char *find_file(const char *text, const char *end) {
  const char *last = NULL;
  for (const char *p = text; p < end; p++) {
    if (*p != ' ') continue;
    last = p;
    if (p[1] == '/' || behind(p + 1, "file:") || behind(p + 1, "node:")) break;
  }
  return last;
}

static int is_javascript(const char *text, generated_name_t *out) {
  int kind;
  uint32_t line = 0;
  const char *name = behind_kind(text, &kind), *end = name ? find_line(name, kind, &line) : NULL;
  const char *space = end ? find_file(name, end) : NULL;
  if (!space) return 0;
  const char *file = behind(space + 1, "file://");
  if (!file) file = space + 1;
  *out = (generated_name_t){name, file, (size_t)(space - name), (size_t)(end - file), line};
  if (out->function_size && kind < KIND_SCRIPT) return 1;
  out->function = kind >= KIND_SCRIPT ? "(script)" : "(anonymous)";
  out->function_size = strlen(out->function);
  return 1;
}

/* Skips the type before a method: the last word before its arguments is its name. */
static const char *behind_type(const char *text) {
  const char *end = strchr(text, '('), *name = text;
  for (const char *p = text; end && p < end; p++) {
    bool is_template = *p == '<' && p > text && p[-1] != '.'; /* not a constructor, .<init> */
    if (is_template || *p == ':') return text;                /* another language's */
    if (*p == ' ' && p[1] != '(') name = p + 1;
  }
  return end && memchr(name, '.', (size_t)(end - name)) ? name : text;
}

void generated_name(const char *text, generated_name_t *out) {
  if (is_javascript(text, out)) return;
  *out = (generated_name_t){.function = behind_type(text)};
  out->function_size = strlen(out->function);
}
