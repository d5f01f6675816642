/* SPDX-License-Identifier: MIT
 *
 * One pass over the name. Brackets nest, so the pass is recursive; NESTED_MAX bounds it.
 */
#include "symbol/short_name.h"
#include "base/unicode.h"
#include "base/wrap.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define ELLIPSIS "\u2026"

enum { NESTED_MAX = 64 };

typedef struct shortener {
  const char *at;
  char *out;
  size_t used, size;
  int keep; /* template arguments nested deeper than this are shown as <…> */
} shortener_t;

static bool starts(const char *text, const char *with) {
  return !strncmp(text, with, strlen(with));
}

static void put_plain(shortener_t *s, const char *text, size_t length) {
  if (length >= s->size - s->used) length = s->size - s->used - 1;
  memcpy(s->out + s->used, text, length);
  s->used += length;
}

/* Programs choose their names, and a control character commands the terminal: it is shown as C
 * writes it. Those above 127 have two bytes in UTF-8. */
static void put_byte(shortener_t *s, char byte) {
  static const char named[] = "abtnvfr"; /* 7 to 13 */
  unsigned char c = (unsigned char)byte;
  char text[8] = {byte, 0};
  if (c >= 7 && c <= 13)
    snprintf(text, sizeof text, "\\%c", named[c - 7]);
  else if (c < ' ' || c == 127)
    snprintf(text, sizeof text, "\\x%02x", c);
  else if (c >= 0x80 && c < 0xa0 && s->used && s->out[s->used - 1] == '\xc2')
    s->used--, snprintf(text, sizeof text, "\\u%04x", c);
  put_plain(s, text, strlen(text));
}

static void put(shortener_t *s, const char *text, size_t length) {
  for (size_t i = 0; i < length; i++)
    put_byte(s, text[i]);
}

static void put_text(shortener_t *s, const char *text) { put(s, text, strlen(text)); }

/* Copies N characters of the name. */
static void take(shortener_t *s, size_t n) {
  put(s, s->at, n);
  s->at += n;
}

static bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '$' || (unsigned char)c >= 0x80;
}

static bool ends(const shortener_t *s, size_t from, const char *with) {
  size_t n = strlen(with);
  return s->used - from >= n && !memcmp(s->out + s->used - n, with, n);
}

static char closing(char open) {
  return open == '(' ? ')' : open == '<' ? '>' : open == '{' ? '}' : open == '[' ? ']' : 0;
}

/* The end of the bracketed text that starts at TEXT. Arrows and operators are no brackets. */
static const char *skip_brackets(const char *text) {
  char expected[NESTED_MAX];
  int depth = 0;
  for (const char *p = text; *p; p++) {
    if (p[0] == '-' && p[1] == '>') {
      p++;
    } else if (depth && *p == expected[depth - 1]) {
      if (--depth == 0) return p + 1;
    } else if (closing(*p)) {
      if (depth == NESTED_MAX) break;
      expected[depth++] = closing(*p);
    }
  }
  return text + strlen(text);
}

/* ---- the parts of a name ------------------------------------------------------------------ */

/* At "operator": copies it with its symbol or its type. */
static void copy_operator(shortener_t *s) {
  static const char *const symbols[] = {
      "<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "->", "()", "[]", "<", ">", NULL};
  take(s, strlen("operator"));
  for (int i = 0; symbols[i]; i++)
    if (starts(s->at, symbols[i])) {
      take(s, strlen(symbols[i]));
      if (starts(s->at, " <")) s->at++;
      return;
    }
  while (*s->at && *s->at != '(' && *s->at != '<')
    take(s, 1); /* 'operator new', 'operator==', 'operator bool' */
}

static bool is_at_operator(const shortener_t *s, size_t from) {
  return starts(s->at, "operator") && !is_word(s->at[8]) &&
         (s->used == from || !is_word(s->out[s->used - 1]));
}

/* At '{': {lambda(int)#2} becomes {lambda#2}; others stay. */
static void copy_braces(shortener_t *s) {
  const char *end = skip_brackets(s->at);
  const char *number = NULL;
  for (const char *p = s->at; p < end; p++)
    if (*p == '#') number = p;
  if (starts(s->at, "{lambda(") && number) {
    put_text(s, "{lambda");
    s->at = number;
  }
  take(s, (size_t)(end - s->at));
}

/* The call of a lambda is the lambda. */
static void skip_call_of_lambda(shortener_t *s, size_t from) {
  if (starts(s->at, "::operator()") && (ends(s, from, "}") || ends(s, from, "<lambda>")))
    s->at += strlen("::operator()");
}

/* Behind an argument list. */
static void skip_qualifiers(shortener_t *s) {
  static const char *const words[] = {" const", " volatile", " &&", " &", " noexcept", NULL};
  for (int i = 0; words[i];) {
    if (starts(s->at, words[i])) {
      s->at += strlen(words[i]);
      i = 0;
    } else {
      i++;
    }
  }
}

/* std::basic_string<char, …> becomes std::string. */
static bool take_alias(shortener_t *s, size_t from) {
  const char *end = skip_brackets(s->at);
  bool is_char = starts(s->at, "<char,") || starts(s->at, "<char>");
  bool is_wide = starts(s->at, "<wchar_t,") || starts(s->at, "<wchar_t>");
  if (!is_char && !is_wide) return false;
  size_t word = s->used;
  while (word > from && is_word(s->out[word - 1]))
    word--;
  const size_t prefix = strlen("basic_");
  if (s->used - word <= prefix || memcmp(s->out + word, "basic_", prefix)) return false;
  memmove(s->out + word, s->out + word + prefix, s->used - word - prefix);
  s->used -= prefix;
  if (is_wide && s->used + 1 < s->size) {
    memmove(s->out + word + 1, s->out + word, s->used - word);
    s->out[word] = 'w';
    s->used++;
  }
  s->at = end;
  return true;
}

static void copy(shortener_t *s, int depth);

/* At '<'. At the start of a component it is a name: a lambda of gcc, a Rust implementation. */
static void copy_angles(shortener_t *s, size_t from, int depth) {
  const char *end = skip_brackets(s->at);
  bool is_name = s->used == from || ends(s, from, "::");
  if (is_name && starts(s->at, "<lambda")) {
    put_text(s, "<lambda>");
    s->at = end;
  } else if (is_name || depth < s->keep) {
    take(s, 1);
    copy(s, depth + 1);
    if (*s->at == '>' && ends(s, from, " ")) s->used--; /* of "> >" */
    if (*s->at == '>') take(s, 1);
  } else if (!take_alias(s, from)) {
    put_text(s, "<" ELLIPSIS ">");
    s->at = end;
  }
}

/* At '(' outside template arguments. Returns false at the end of the name. */
static bool copy_parentheses(shortener_t *s, size_t from) {
  const char *end = skip_brackets(s->at);
  if (starts(s->at, "(anonymous namespace)") || ends(s, from, ".")) { /* a Go receiver */
    take(s, (size_t)(end - s->at));
    return true;
  }
  if (s->used == from || ends(s, from, "decltype")) { /* of a return type */
    s->at = end;
    return true;
  }
  s->at = end;
  skip_qualifiers(s);
  return starts(s->at, "::");
}

/* Skips what is never shown. */
static bool skip_noise(shortener_t *s) {
  static const char *const spaces[] = {"__cxx11::", "__1::", "__ndk1::", NULL};
  if (starts(s->at, "[abi:") || starts(s->at, " [clone")) {
    s->at = skip_brackets(*s->at == ' ' ? s->at + 1 : s->at);
    return true;
  }
  for (int i = 0; spaces[i]; i++)
    if (starts(s->at, spaces[i]) && ends(s, 0, "::")) {
      s->at += strlen(spaces[i]);
      return true;
    }
  return false;
}

/* Copies up to the end of the name or to a bracket that closes. DEPTH counts the brackets around.
 */
static void copy(shortener_t *s, int depth) {
  size_t from = s->used;
  while (*s->at && *s->at != '>' && *s->at != ')') {
    skip_call_of_lambda(s, from);
    if (!*s->at) break;
    if (skip_noise(s)) continue;
    if (is_at_operator(s, from)) {
      copy_operator(s);
    } else if (*s->at == '{') {
      copy_braces(s);
    } else if (*s->at == '<' && depth < NESTED_MAX) {
      if (!(depth < s->keep) || !take_alias(s, from)) copy_angles(s, from, depth);
    } else if (*s->at == '(' && depth == 0) {
      if (!copy_parentheses(s, from)) break;
    } else if (*s->at == '(') {
      take(s, (size_t)(skip_brackets(s->at) - s->at));
    } else if (*s->at == ' ' && depth == 0) {
      s->at++;
      s->used = from; /* what came before was the return type */
    } else if (s->at[0] == '-' && s->at[1] == '>') {
      take(s, 2);
    } else if (starts(s->at, ", ")) {
      take(s, 2);
      from = s->used;
    } else {
      take(s, 1);
    }
  }
}

/* ---- fitting ------------------------------------------------------------------------------ */

static unsigned columns(const char *text) { return (unsigned)wrap_columns(text, strlen(text)); }

/* The next component of a name, behind "::" outside brackets; NULL: TEXT is the last. A closure
 * or lambda has no name of its own: it belongs to the component before it. */
static const char *next_component(const char *text) {
  for (const char *p = text; *p;) {
    if (starts(p, "operator") && !is_word(p[8]) && (p == text || !is_word(p[-1]))) return NULL;
    if (p[0] == ':' && p[1] == ':' && p[2] != '{') return p + 2;
    p = closing(*p) ? skip_brackets(p) : p + 1;
  }
  return NULL;
}

/* <alloc::vec::Vec<…> as core::ops::drop::Drop>::drop of Rust becomes <Vec<…>>::drop. */
static void omit_trait(char *out) {
  if (*out != '<') return;
  const char *end = skip_brackets(out) - 1, *type = out + 1, *next, *as = type;
  while (as < end && !starts(as, " as "))
    as = closing(*as) ? skip_brackets(as) : as + 1;
  if (as >= end || *end != '>') return;
  while ((next = next_component(type)) && next < as)
    type = next;
  size_t length = (size_t)(as - type);
  memmove(out + 1, type, length);
  memmove(out + 1 + length, end, strlen(end) + 1);
}

/* Omits outer components until the rest fits WIDTH. */
static void omit_outer(char *out, size_t size, unsigned width) {
  static const char mark[] = ELLIPSIS "::";
  const char *rest = out, *next;
  while ((next = next_component(rest)) && columns(rest) + (rest == out ? 0 : 3) > width)
    rest = next;
  size_t length = strlen(rest);
  if (rest == out || length + sizeof mark > size) return;
  memmove(out + sizeof mark - 1, rest, length + 1);
  memcpy(out, mark, sizeof mark - 1);
}

static void cut(char *out, size_t size, unsigned width) {
  if (columns(out) <= width) return;
  char *p = out;
  for (unsigned n = 1; n < width; n++)
    do
      p++;
    while (((unsigned char)*p & 0xc0) == 0x80);
  if ((size_t)(p - out) + sizeof ELLIPSIS <= size)
    memcpy(p, ELLIPSIS, sizeof ELLIPSIS);
  else
    *p = 0;
}

static void shorten(const char *full, int keep, char *out, size_t size) {
  shortener_t s = {.at = full, .out = out, .size = size, .keep = keep};
  copy(&s, 0);
  out[s.used] = 0;
  if (!s.used && *full) { /* nothing that looks like a name is left */
    put_text(&s, full);
    out[s.used] = 0;
  }
}

char *short_text(const char *text, unsigned width, char *out, size_t size) {
  shortener_t s = {.out = out, .size = size};
  put_text(&s, text);
  out[s.used] = 0;
  if (width) cut(out, size, width);
  return out;
}

const char *plain_text(const char *text) {
  static char copies[8][4096];
  static unsigned next;
  const char *p = text;
  while (*p && !unicode_control(p))
    p++;
  return *p ? short_text(text, 0, copies[next++ % 8], sizeof *copies) : text;
}

static bool is_objective_c(const char *name) {
  return strstr(name, "-[") != NULL || strstr(name, "+[") != NULL;
}

char *short_name(const char *full, unsigned width, char *out, size_t size) {
  static const int keeps[] = {NESTED_MAX, 1, 0};
  if (is_objective_c(full)) return short_text(full, width, out, size);
  for (int i = 0; i < 3; i++) {
    shorten(full, keeps[i], out, size);
    if (!width || columns(out) <= width) return out;
  }
  omit_trait(out);
  omit_outer(out, size, width);
  cut(out, size, width);
  return out;
}
