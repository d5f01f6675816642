/* SPDX-License-Identifier: MIT
 *
 * Both manglings write a nested name as its parts, each after its length: Itanium C++ ABI, 5.1.3
 * <nested-name> (_ZN…E, with K and V for qualifiers of a member function, I…E for template
 * arguments), Rust's legacy scheme (_ZN…17h<hash>E) and v0 (RFC 2603: _R, a part may have a
 * disambiguator, which is not matched). A part with a wildcard has an unknown length, so a wildcard
 * stands for its digits, too.
 */
#include "symbol/link_pattern.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { PARTS_MAX = 16 };

typedef struct buffer {
  char *out;
  size_t size, used;
  bool full;
} buffer_t;

static void put(buffer_t *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(buffer_t *b, const char *format, ...) {
  va_list list;
  va_start(list, format);
  int n = vsnprintf(b->out + b->used, b->size - b->used, format, list);
  va_end(list);
  if (n < 0 || (size_t)n >= b->size - b->used)
    b->full = true;
  else
    b->used += (size_t)n;
}

static bool has_wildcard(const char *text, size_t size) {
  for (size_t i = 0; i < size; i++)
    if (strchr("*?[", text[i])) return true;
  return false;
}

typedef struct name {
  const char *parts[PARTS_MAX];
  size_t sizes[PARTS_MAX];
  int count;
} name_t;

/* Splits TEXT, without the arguments, at "::". False: too many parts, or an empty one. */
static bool split(const char *text, size_t size, name_t *out) {
  out->count = 0;
  for (size_t at = 0; at <= size;) {
    size_t end = at;
    while (end < size && strncmp(text + end, "::", 2))
      end++;
    if (out->count == PARTS_MAX || end == at) return false;
    out->parts[out->count] = text + at;
    out->sizes[out->count++] = end - at;
    if (end == size) return true;
    at = end + 2;
  }
  return false;
}

/* The parts with their lengths. */
static void put_parts(buffer_t *b, const name_t *n) {
  for (int i = 0; i < n->count; i++) {
    bool is_any = n->sizes[i] == 1 && *n->parts[i] == '*';
    if (is_any)
      put(b, "*");
    else if (has_wildcard(n->parts[i], n->sizes[i]))
      put(b, "*%.*s", (int)n->sizes[i], n->parts[i]);
    else
      put(b, "%zu%.*s", n->sizes[i], (int)n->sizes[i], n->parts[i]);
  }
}

/* The globs for one function, each after PREFIX: a library and a colon, or an image and "!". */
static void put_function(buffer_t *b, const char *prefix, int prefix_size, const name_t *n) {
  static const char *const ends[] = {"E*", "I*", "17h*"};
  static const char *const starts[] = {"_ZN", "_ZNK"};
  if (n->count == 1) { /* a function of C++ outside of namespaces */
    put(b, "%.*s_Z", prefix_size, prefix);
    put_parts(b, n);
    put(b, "*");
    return;
  }
  bool is_open = n->parts[n->count - 1][n->sizes[n->count - 1] - 1] == '*';
  for (size_t s = 0; s < 2; s++)
    for (size_t e = 0; e < (is_open ? 1u : s ? 2u : 3u); e++) {
      put(b, "%.*s%s", prefix_size, prefix, starts[s]);
      put_parts(b, n);
      put(b, "%s,", is_open ? "" : ends[e]);
    }
  put(b, "%.*s_R*", prefix_size, prefix);
  put_parts(b, n);
  if (!is_open) put(b, ",%.*s_R*", prefix_size, prefix); /* with the arguments of a generic one */
  if (!is_open) put_parts(b, n);
  if (!is_open) put(b, "E*");
}

/* The length of the library's glob with its colon, a single one; or of the image's with its "!". */
static size_t library_size(const char *glob, size_t size) {
  const char *mark = memchr(glob, '!', size);
  if (mark) return (size_t)(mark - glob) + 1;
  for (size_t i = 0; i < size; i++)
    if (glob[i] == ':') return i + 1 < size && glob[i + 1] == ':' ? 0 : i + 1;
  return 0;
}

/* The length of a name without its arguments. */
static size_t name_size(const char *text, size_t size) {
  for (size_t i = 1; i < size; i++)
    if (text[i] == '(') return i;
  return size;
}

static void put_glob(buffer_t *b, const char *glob, size_t size) {
  name_t name;
  size_t library = library_size(glob, size), rest = name_size(glob + library, size - library);
  bool is_method = strchr("-+", *glob) && size > 1 && glob[1] == '[';
  bool is_nested = rest < size - library;
  for (size_t i = library; i + 1 < library + rest; i++)
    is_nested |= glob[i] == ':' && glob[i + 1] == ':';
  if (size && !is_method && is_nested && split(glob + library, rest, &name))
    put_function(b, glob, (int)library, &name);
  else
    put(b, "%.*s", (int)size, glob);
}

/* The end of the glob at TEXT: a comma outside of parentheses, or the end. */
static const char *glob_end(const char *text) {
  int depth = 0;
  for (; *text && (*text != ',' || depth > 0); text++)
    depth += (*text == '(') - (*text == ')');
  return text;
}

bool link_pattern(const char *pattern, char *out, size_t size) {
  buffer_t b = {out, size, 0, false};
  for (const char *end;; pattern = end + 1) {
    end = glob_end(pattern);
    put_glob(&b, pattern, (size_t)(end - pattern));
    if (!*end) break;
    put(&b, ",");
  }
  return !b.full;
}
