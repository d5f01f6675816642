/* SPDX-License-Identifier: MIT
 *
 * Both manglings write a nested name as its parts, each after its length: Itanium C++ ABI, 5.1.3
 * <nested-name> (_ZN…E, with K, V, R and O for qualifiers of a member function, I…E for template
 * arguments, L for internal linkage), Rust's legacy scheme (_ZN…17h<hash>E) and v0 (RFC 2603: _R, a
 * part may have a disambiguator, which is not matched). A lambda is an entity of its function: _ZZ,
 * the function, E, and the lambda's number (5.1.8). In a glob, # stands for the length of a part
 * that has a wildcard.
 */
#include "symbol/link_pattern.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS_MAX = 16, ENCODED_MAX = 512 };

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

/* A part of a name: "Socket", "W<int>", "operator()", "{lambda#2}". */
typedef struct part {
  const char *text;
  size_t size; /* without the arguments of a function */
  size_t base; /* and without those of a template */
} part_t;

typedef struct name {
  const char *prefix; /* a library and a colon, or an image and "!" */
  int prefix_size;
  bool may_be_local; /* not only imports: functions with internal linkage, too */
  part_t parts[PARTS_MAX];
  int count;
  int operator_form; /* of an operator with two codes */
} name_t;

static bool starts(const part_t *p, const char *with) {
  size_t n = strlen(with);
  return p->size >= n && !strncmp(p->text, with, n);
}

static bool has_wildcard(const char *text, size_t size) {
  return memchr(text, '*', size) || memchr(text, '?', size);
}

/* ---- parsing ------------------------------------------------------------------------------ */

static const char anonymous[] = "(anonymous namespace)";

/* The end of the symbol of an operator at AT, which may contain brackets. */
static const char *after_operator(const char *at, const char *end) {
  static const char word[] = "operator";
  size_t n = sizeof word - 1;
  if ((size_t)(end - at) < n || strncmp(at, word, n)) return at;
  at += n;
  if (end - at >= 2 && (!strncmp(at, "()", 2) || !strncmp(at, "->", 2))) return at + 2;
  while (at < end && strchr("<>=", *at))
    at++;
  return at;
}

/* The end of the brackets that open at AT. */
static const char *after_brackets(const char *at, const char *end) {
  int depth = 0;
  for (; at < end; at++) {
    depth += strchr("(<{[", *at) != NULL;
    depth -= strchr(")>}]", *at) != NULL;
    if (depth <= 0) return at + 1;
  }
  return end;
}

/* Reads one part at AT and returns its end. */
static const char *read_part(const char *at, const char *end, part_t *out) {
  const char *start = at, *symbol = after_operator(at, end), *arguments = NULL, *base = NULL;
  if ((size_t)(end - at) >= sizeof anonymous - 1 && !strncmp(at, anonymous, sizeof anonymous - 1))
    at += sizeof anonymous - 1;
  else
    at = symbol;
  while (at < end && (at[0] != ':' || at + 1 == end || at[1] != ':')) {
    bool opens = strchr("(<{[", *at) != NULL;
    if (*at == ' ' && !arguments && symbol <= start) { /* behind the type of the result */
      start = ++at;
      base = NULL;
      continue;
    }
    if (!arguments && (*at == '(' || *at == '[')) arguments = at; /* or an ABI tag */
    if (*at == '<' && at > start && !base) base = at;
    at = opens ? after_brackets(at, end) : at + 1;
  }
  if (arguments == start) arguments = NULL;
  out->text = start;
  out->size = (size_t)((arguments ? arguments : at) - start);
  out->base = base && (!arguments || base < arguments) ? (size_t)(base - start) : out->size;
  return at;
}

/* Splits TEXT at "::". False: too many parts, or an empty one. */
static bool read_parts(const char *text, size_t size, name_t *out) {
  const char *end = text + size;
  for (out->count = 0;; text += 2) {
    if (out->count == PARTS_MAX) return false;
    part_t *p = &out->parts[out->count++];
    text = read_part(text, end, p);
    if (!p->size || !p->base) return false;
    if (text == end) return true;
    if (end - text < 2) return false;
  }
}

/* ---- the parts of linker names --------------------------------------------------------------- */

/* The code of an operator, 5.1.3.2; of the unary one for the second FORM. NULL: there is none. */
static const char *code_of_operator(const part_t *p, int form) {
  static const struct {
    const char *symbol, *codes[2];
  } all[] = {{" new[]", {"na", NULL}},  {" new", {"nw", NULL}},      {" delete[]", {"da", NULL}},
             {" delete", {"dl", NULL}}, {" co_await", {"aw", NULL}}, {"\"\"", {"li*", NULL}},
             {"()", {"cl", NULL}},      {"[]", {"ix", NULL}},        {"->*", {"pm", NULL}},
             {"->", {"pt", NULL}},      {"<=>", {"ss", NULL}},       {"<<=", {"lS", NULL}},
             {">>=", {"rS", NULL}},     {"<<", {"ls", NULL}},        {">>", {"rs", NULL}},
             {"<=", {"le", NULL}},      {">=", {"ge", NULL}},        {"==", {"eq", NULL}},
             {"!=", {"ne", NULL}},      {"&&", {"aa", NULL}},        {"||", {"oo", NULL}},
             {"++", {"pp", NULL}},      {"--", {"mm", NULL}},        {"+=", {"pL", NULL}},
             {"-=", {"mI", NULL}},      {"*=", {"mL", NULL}},        {"/=", {"dV", NULL}},
             {"%=", {"rM", NULL}},      {"&=", {"aN", NULL}},        {"|=", {"oR", NULL}},
             {"^=", {"eO", NULL}},      {"<", {"lt", NULL}},         {">", {"gt", NULL}},
             {"=", {"aS", NULL}},       {"+", {"pl", "ps"}},         {"-", {"mi", "ng"}},
             {"*", {"ml", "de"}},       {"&", {"an", "ad"}},         {"/", {"dv", NULL}},
             {"%", {"rm", NULL}},       {"|", {"or", NULL}},         {"^", {"eo", NULL}},
             {"!", {"nt", NULL}},       {"~", {"co", NULL}},         {",", {"cm", NULL}},
             {" ", {"cv*", NULL}}};
  const char *symbol = p->text + strlen("operator");
  size_t size = p->size - strlen("operator");
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (size >= strlen(all[i].symbol) && !strncmp(symbol, all[i].symbol, strlen(all[i].symbol)))
      return all[i].codes[form];
  return NULL;
}

static bool is_operator(const part_t *p) { return starts(p, "operator") && code_of_operator(p, 0); }

static bool is_lambda(const part_t *p) { return starts(p, "{lambda"); }

/* SIZE bytes of TEXT with their length; with a wildcard the length is unknown. */
static void put_counted(buffer_t *b, const char *text, size_t size) {
  if (*text == '*')
    put(b, "%.*s", (int)size, text);
  else if (has_wildcard(text, size))
    put(b, "#%.*s", (int)size, text);
  else
    put(b, "%zu%.*s", size, (int)size, text);
}

/* Part I of C++. */
static void put_part(buffer_t *b, const name_t *n, int i) {
  const part_t *p = &n->parts[i], *outer = i ? p - 1 : NULL;
  bool is_last = i == n->count - 1;
  if (!i && p->size == 3 && starts(p, "std"))
    put(b, "St");
  else if (starts(p, anonymous))
    put(b, "12_GLOBAL__N_1");
  else if (is_operator(p))
    put(b, "%s", code_of_operator(p, n->operator_form));
  else if (*p->text == '~')
    put(b, "D?");
  else if (outer && is_last && p->base == outer->base && !strncmp(p->text, outer->text, p->base))
    put(b, "C?");
  else
    put_counted(b, p->text, p->base);
  if (p->base < p->size && !is_last) put(b, "I*E");
}

static void put_parts(buffer_t *b, const name_t *n, int count) {
  for (int i = 0; i < count; i++)
    put_part(b, n, i);
}

/* ---- C++ ---------------------------------------------------------------------------------- */

static void begin(buffer_t *b, const name_t *n, const char *start) {
  put(b, "%s%.*s%s", b->used && b->out[b->used - 1] != ',' ? "," : "", n->prefix_size, n->prefix,
      start);
}

/* A lambda of the function that the other parts name: the first one is E_, the second E0_. */
static void put_lambda(buffer_t *b, const name_t *n) {
  static const char *const starts_of[2][2] = {{"_ZZ", "_ZZL"}, {"_ZZN", "_ZZN?"}};
  const part_t *lambda = &n->parts[n->count - 1];
  const char *mark = memchr(lambda->text, '#', lambda->size);
  for (const char *p = mark; p && p < lambda->text + lambda->size; p++)
    if (*p == '#') mark = p; /* the last one */
  unsigned long number = mark ? strtoul(mark + 1, NULL, 10) : 0;
  for (int s = 0; s < 2; s++) {
    begin(b, n, starts_of[n->count > 2][s]);
    put_parts(b, n, n->count - 1);
    put(b, "*EN*Ul*E");
    if (number > 1) put(b, "%lu", number - 2);
    put(b, mark ? "_cl*" : "*_cl*");
  }
}

/* A function outside of namespaces and classes, or of std itself. */
static void put_plain(buffer_t *b, const name_t *n) {
  static const char *const starts_of[] = {"_Z", "_ZL"};
  for (int s = 0; s < (n->may_be_local ? 2 : 1); s++) {
    begin(b, n, starts_of[s]);
    put_parts(b, n, n->count);
    put(b, "*");
  }
}

static void put_nested(buffer_t *b, const name_t *n) {
  static const struct {
    const char *start, *linkage, *end;
  } forms[] = {{"_ZN", "", "E*"},  {"_ZN", "", "I*"},  {"_ZN", "", "B*"},
               {"_ZN?", "", "E*"}, {"_ZN?", "", "I*"}, {"_ZN", "L", "E*"}};
  const part_t *last = &n->parts[n->count - 1];
  bool is_open = last->text[last->size - 1] == '*' && !is_operator(last);
  for (size_t i = 0; i < sizeof forms / sizeof *forms - !n->may_be_local; i++) {
    if (is_open && forms[i].end[0] != 'E') continue;
    begin(b, n, forms[i].start);
    put_parts(b, n, n->count - 1);
    put(b, "%s", forms[i].linkage);
    put_part(b, n, n->count - 1);
    if (!is_open) put(b, "%s", forms[i].end);
  }
}

/* ---- Rust --------------------------------------------------------------------------------- */

/* Writes a part as the legacy scheme does: "_$LT$r..Socket$u20$as$u20$r..Tr$GT$". */
static void encode_legacy(const part_t *p, char out[ENCODED_MAX]) {
  static const char *const codes[] = {"<$LT$",  ">$GT$",  " $u20$", "&$RF$",  "*$BP$",
                                      "($LP$",  ")$RP$",  ",$C$",   "[$u5b$", "]$u5d$",
                                      "{$u7b$", "}$u7d$", ";$u3b$", "+$u2b$", "'$u27$"};
  size_t used = 0;
  if (strchr("<&*([{", *p->text)) out[used++] = '_';
  for (size_t i = 0; i < p->size && used < ENCODED_MAX - 8; i++) {
    const char *code = NULL;
    for (size_t k = 0; k < sizeof codes / sizeof *codes; k++)
      if (codes[k][0] == p->text[i]) code = codes[k] + 1;
    if (p->text[i] == ':' && i + 1 < p->size && p->text[i + 1] == ':') {
      code = "..";
      i++;
    }
    if (code)
      used += (size_t)sprintf(out + used, "%s", code);
    else
      out[used++] = p->text[i];
  }
  out[used] = 0;
}

static void put_legacy(buffer_t *b, const name_t *n) {
  char encoded[ENCODED_MAX];
  begin(b, n, "_ZN");
  for (int i = 0; i < n->count; i++) {
    const part_t *p = &n->parts[i];
    bool is_plain = !memchr(p->text, '<', p->size);
    encode_legacy(p, encoded);
    put_counted(b, is_plain ? p->text : encoded, is_plain ? p->size : strlen(encoded));
  }
  put(b, "17h*");
}

/* The last component of a type's path: "Socket" of "r::net::Socket<T>". */
static void put_component(buffer_t *b, const char *text, size_t size) {
  size_t from = 0, end = 0;
  while (end < size && text[end] != '<')
    end++;
  for (size_t i = 0; i + 1 < end; i++)
    if (text[i] == ':' && text[i + 1] == ':') from = i + 2;
  put_counted(b, text + from, end - from);
  put(b, "*");
}

/* "<Type as Trait>::go" is _RNvX, the implementation, the type and the trait; "<Type>::go" is
 * _RNvM.
 */
static void put_implementation(buffer_t *b, const name_t *n) {
  const char *text = n->parts[0].text + 1, *as = NULL;
  size_t size = n->parts[0].size - 2;
  for (size_t i = 0; i + 4 < size; i++)
    if (!strncmp(text + i, " as ", 4)) as = text + i;
  begin(b, n, as ? "_RNvX*" : "_RNvM*");
  put_component(b, text, as ? (size_t)(as - text) : size);
  if (as) put_component(b, as + 4, size - (size_t)(as + 4 - text));
  for (int i = 1; i < n->count; i++)
    put_counted(b, n->parts[i].text, n->parts[i].size);
  put(b, "*");
}

static void put_v0(buffer_t *b, const name_t *n) {
  static const char *const ends[] = {"", "E*"}; /* with the arguments of a generic function */
  const part_t *last = &n->parts[n->count - 1];
  bool is_open = last->text[last->size - 1] == '*';
  for (int e = 0; e < (is_open ? 1 : 2); e++) {
    begin(b, n, "_R*");
    for (int i = 0; i < n->count; i++)
      put_counted(b, n->parts[i].text, n->parts[i].size);
    put(b, "%s", ends[e]);
  }
}

/* ---- globs -------------------------------------------------------------------------------- */

/* The globs for one function. */
static void put_function(buffer_t *b, name_t *n) {
  if (n->count > 1 && is_operator(&n->parts[n->count - 1]) && is_lambda(&n->parts[n->count - 2]))
    n->count--; /* the call of a lambda is the lambda */
  const part_t *last = &n->parts[n->count - 1];
  if (*n->parts[0].text == '<' && n->parts[0].size > 2 && n->count > 1) {
    put_legacy(b, n);
    put_implementation(b, n);
  } else if (is_lambda(last)) {
    put_lambda(b, n);
  } else {
    bool is_plain =
        n->count == 1 || (n->count == 2 && starts(&n->parts[0], "std") && n->parts[0].size == 3);
    int forms = is_operator(last) && code_of_operator(last, 1) ? 2 : 1;
    for (n->operator_form = 0; n->operator_form < forms; n->operator_form++)
      (is_plain ? put_plain : put_nested)(b, n);
    if (n->count == 1 || is_operator(last) || *last->text == '~') return;
    for (int i = 0; i < n->count; i++)
      if (starts(&n->parts[i], anonymous)) return;
    put_legacy(b, n);
    put_v0(b, n);
  }
}

/* The length of the library's glob with its colon, a single one; or of the image's with its "!". */
static size_t library_size(const char *glob, size_t size) {
  for (size_t i = 0; i < size; i++) {
    if (glob[i] == '!') return i + 1;
    if (strchr("<({~", glob[i])) return 0;
    if (glob[i] == ':') return i + 1 < size && glob[i + 1] == ':' ? 0 : i + 1;
  }
  return 0;
}

/* A name that a function of C may have, too; possibly with a wildcard, but not at its start. */
static bool is_of_c(const name_t *n, size_t size) {
  const part_t *p = &n->parts[0];
  if (n->count > 1 || p->size < size || p->base < size || is_operator(p)) return false;
  return !strpbrk("+<({~", (char[]){*p->text, 0});
}

/* Functions of namespaces and classes with the only part of N as their last component: those of C++
 * and of Rust's legacy scheme (base/link_name.h), and of v0 those that are not generic. */
static void put_last(buffer_t *b, const name_t *n) {
  const part_t *p = &n->parts[0];
  begin(b, n, ">");
  put(b, "%.*s", (int)p->size, p->text);
  begin(b, n, "_RNv*");
  put_counted(b, p->text, p->size);
}

static void put_glob(buffer_t *b, const char *glob, size_t size) {
  size_t library = library_size(glob, size), rest = size - library;
  const char *text = glob + library;
  bool is_method = size > 1 && strchr("-+*?", *glob) && glob[1] == '[';
  name_t name = {.prefix = glob,
                 .prefix_size = (int)library,
                 .may_be_local = !library || glob[library - 1] == '!'};
  bool is_name =
      rest && !is_method && *text != '+' && !memchr("[", *text, 1) && read_parts(text, rest, &name);
  bool is_c = is_name && is_of_c(&name, rest);
  if (!is_name || is_c) put(b, "%.*s", (int)size, glob);
  if (!is_name || (is_c && (*text == '*' || *text == '_'))) return;
  put_function(b, &name);
  if (is_c && library && glob[library - 1] == '!') put_last(b, &name);
  if (library || has_wildcard(text, rest)) return;
  /* Alone and without wildcards: functions of the program, too. Linker names have wildcards. */
  name.prefix = "!";
  name.prefix_size = 1;
  put_function(b, &name);
  if (is_c) put_last(b, &name);
}

/* The end of the glob at TEXT: a comma outside of brackets, or the end. */
static const char *glob_end(const char *text) {
  const char *end = text + strlen(text);
  for (; *text && *text != ',';) {
    const char *symbol = after_operator(text, end);
    if (symbol > text)
      text = symbol;
    else
      text = strchr("(<{[", *text) ? after_brackets(text, end) : text + 1;
  }
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
