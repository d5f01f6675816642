/* SPDX-License-Identifier: MIT */
#include "base/link_name.h"

#include <stddef.h>
#include <string.h>

#include "base/glob.h"

enum { COMPONENT_MAX = 256, HASH_SIZE = 17, DEPTH_MAX = 64 };

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Reads "10checkpoint" at *AT and moves *AT behind it. NULL: it is longer than the text. */
static const char *read_identifier(const char **at, uint32_t *size) {
  uint32_t n = 0;
  const char *p = *at;
  while (is_digit(*p) && n < UINT16_MAX)
    n = 10 * n + (uint32_t)(*p++ - '0');
  for (uint32_t i = 0; i < n; i++)
    if (!p[i]) return NULL;
  *size = n;
  *at = p + n;
  return n ? p : NULL;
}

/* Moves *AT behind the group of pieces that begins at *AT and ends with E. */
static bool skip_group(const char **at, uint32_t depth);

/* Moves *AT behind S_, S0_, St, T_, T0_: a substitution or a template parameter. */
static bool skip_reference(const char **at) {
  for (++*at; is_digit(**at) || (**at >= 'A' && **at <= 'Z');)
    ++*at;
  return *(*at)++ != 0;
}

/* Moves *AT behind one piece of the group OPENER: an identifier, a code of a letter or two, a
 * group. False: the text ends, or is not known here. */
static bool skip_piece(const char **at, char opener, uint32_t depth) {
  uint32_t size;
  char c = **at, next = c ? (*at)[1] : 0;
  if (!next || depth == DEPTH_MAX) return false;
  if (is_digit(c)) return read_identifier(at, &size) != NULL;
  if (c == 'S' || c == 'T') return skip_reference(at);
  if (c == 'L' && opener == 'N') { /* internal linkage */
    ++*at;
    return true;
  }
  if (c == 'L') { /* a literal: its type and its digits */
    ++*at;
    if (next == '_' || !skip_piece(at, c, depth + 1)) return false;
    while (is_digit(**at) || **at == 'n')
      ++*at;
    return *(*at)++ == 'E';
  }
  if (c == 'D' || c == 'U') ++*at; /* Dn, DTcl…E, UlvE_, Ut_ */
  if (c == 'A' || (c == 'U' && next == 't')) {
    for (++*at; is_digit(**at);)
      ++*at;
    return *(*at)++ == '_';
  }
  bool is_lambda = c == 'U' && next == 'l';
  if (is_lambda || (c == 'D' && (next == 'T' || next == 't')) || c == 'I' || c == 'N' || c == 'J' ||
      c == 'X' || c == 'F' || c == 'Z') {
    if (!skip_group(at, depth)) return false;
    while (is_lambda && is_digit(**at))
      ++*at;
    return !is_lambda || *(*at)++ == '_';
  }
  ++*at;
  return true;
}

static bool skip_group(const char **at, uint32_t depth) {
  char opener = *(*at)++;
  while (**at != 'E')
    if (!skip_piece(at, opener, depth + 1)) return false;
  ++*at;
  return true;
}

/* "h0123456789abcdef" */
static bool is_hash(const char *text, uint32_t size) {
  if (size != HASH_SIZE || *text != 'h') return false;
  for (uint32_t i = 1; i < size; i++)
    if (!is_digit(text[i]) && (text[i] < 'a' || text[i] > 'f')) return false;
  return true;
}

const char *link_name_last(const char *name, uint32_t *size) {
  const char *last = NULL, *p = name;
  if (p[0] != '_' || p[1] != 'Z' || p[2] != 'N') return NULL;
  for (p += 3; *p == 'K' || *p == 'V' || *p == 'r' || *p == 'R' || *p == 'O';)
    p++;
  while (*p != 'E') {
    uint32_t length;
    const char *text = p + 1;
    if (is_digit(*p) || (*p == 'L' && is_digit(*text))) {
      p += *p == 'L'; /* internal linkage */
      text = read_identifier(&p, &length);
      if (!text) return NULL;
      if (last && *p == 'E' && is_hash(text, length)) break;
      last = text;
      *size = length;
    } else if (*p == 'B') { /* an ABI tag */
      p++;
      if (!read_identifier(&p, &length)) return NULL;
    } else if (*p == 'I') {
      if (!skip_group(&p, 0)) return NULL;
    } else if (*p == 'S') { /* std, or a prefix that came before */
      if (!skip_reference(&p)) return NULL;
      last = NULL;
    } else if (*p == 'C' && last && is_digit(*text)) {
      p += 2;
    } else {
      return NULL;
    }
  }
  return last;
}

bool link_name_matches(const char *glob, const char *name) {
  char component[COMPONENT_MAX];
  uint32_t size = 0;
  if (*glob != LINK_NAME_LAST) return glob_matches(glob, name);
  const char *last = link_name_last(name, &size);
  if (!last || size >= sizeof component) return false;
  memcpy(component, last, size);
  component[size] = 0;
  return glob_matches(glob + 1, component);
}
