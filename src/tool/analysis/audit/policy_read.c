/* SPDX-License-Identifier: MIT
 *
 * Reads a policy's YAML through libyaml. The first error ends the reading and names its line: a
 * policy is used as it is written or not at all.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "analysis/audit/policy.h"
#include "analysis/audit/policy_memory.h"
#include "base/glob.h"

enum { NESTING_MAX = 8, ITEMS_MAX = 20000 };

typedef struct policy_parser {
  policy_t *policy;
  yaml_document_t *document;
  const char *name;              /* of the source */
  size_t number;                 /* of the source */
  bool builtin;                  /* its functions need not exist in this machine's C library */
  const policy_sources_t *bases; /* replace the built-in ones; NULL: none do */
  time_t today;
  size_t items; /* bounds documents whose aliases expand without limit */
  char *error;
  size_t error_size;
} policy_parser_t;

/* ---- messages and texts --------------------------------------------------------------------- */

static bool wrong(policy_parser_t *r, size_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static bool wrong(policy_parser_t *r, size_t line, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int n = snprintf(r->error, r->error_size, "%s:%zu: ", r->name, line);
  if (n >= 0 && (size_t)n < r->error_size)
    vsnprintf(r->error + n, r->error_size - (size_t)n, format, arguments);
  va_end(arguments);
  return false;
}

static bool no_memory(policy_parser_t *r) { return wrong(r, 1, "out of memory"); }

/* Adds an item to an array of the policy. False, with a message, when memory runs out. */
#define ADD_ITEM(r, items, count, item)                                                            \
  ((items = policy_grow((r)->policy, items, count, sizeof *(items)))                               \
       ? ((items)[(count)++] = (item), true)                                                       \
       : no_memory(r))

static size_t line_of(const yaml_node_t *node) { return node->start_mark.line + 1; }

static yaml_node_t *node_of(policy_parser_t *r, int index) {
  return yaml_document_get_node(r->document, index);
}

static const char *scalar(const yaml_node_t *node) {
  return node && node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : NULL;
}

static bool text(policy_parser_t *r, const yaml_node_t *node, const char *what, const char **out) {
  const char *value = scalar(node);
  if (!value || strlen(value) != node->data.scalar.length)
    return wrong(r, line_of(node), "'%s' takes a text", what);
  *out = policy_copy(r->policy, value, strlen(value));
  return *out || no_memory(r);
}

/* ---- lists ---------------------------------------------------------------------------------- */

typedef bool node_visitor_t(policy_parser_t *r, const yaml_node_t *node, void *context);

/* Calls ITEM with each scalar of NODE and of the lists inside it: a list of functions may contain
 * an alias of another list. */
static bool each_scalar(policy_parser_t *r, const yaml_node_t *node, const char *what, int depth,
                        node_visitor_t *item, void *context) {
  if (++r->items > ITEMS_MAX) return wrong(r, line_of(node), "too many items in this policy");
  if (node->type == YAML_SCALAR_NODE) return item(r, node, context);
  if (node->type != YAML_SEQUENCE_NODE || depth == NESTING_MAX)
    return wrong(r, line_of(node), "'%s' takes a list", what);
  for (yaml_node_item_t *i = node->data.sequence.items.start; i < node->data.sequence.items.top;
       i++)
    if (!each_scalar(r, node_of(r, *i), what, depth + 1, item, context)) return false;
  return true;
}

static bool add_text(policy_parser_t *r, const yaml_node_t *node, void *context) {
  policy_texts_t *texts = context;
  texts->items = policy_grow(r->policy, texts->items, texts->count, sizeof *texts->items);
  if (!texts->items) return no_memory(r);
  return text(r, node, "item", &texts->items[texts->count]) && ++texts->count;
}

static bool list(policy_parser_t *r, const yaml_node_t *node, const char *what,
                 policy_texts_t *out) {
  return each_scalar(r, node, what, 0, add_text, out);
}

/* Calls ITEM with each mapping of the sequence NODE. */
static bool each_mapping(policy_parser_t *r, const yaml_node_t *node, const char *what,
                         node_visitor_t *item) {
  if (node->type != YAML_SEQUENCE_NODE) return wrong(r, line_of(node), "'%s' takes a list", what);
  for (yaml_node_item_t *i = node->data.sequence.items.start; i < node->data.sequence.items.top;
       i++) {
    const yaml_node_t *entry = node_of(r, *i);
    if (++r->items > ITEMS_MAX) return wrong(r, line_of(node), "too many items in this policy");
    if (entry->type != YAML_MAPPING_NODE)
      return wrong(r, line_of(entry), "an item of '%s' consists of 'key: value'", what);
    if (!item(r, entry, NULL)) return false;
  }
  return true;
}

/* The value of KEY, or NULL. */
static const yaml_node_t *value_of(policy_parser_t *r, const yaml_node_t *mapping,
                                   const char *key) {
  for (yaml_node_pair_t *p = mapping->data.mapping.pairs.start; p < mapping->data.mapping.pairs.top;
       p++) {
    const char *name = scalar(node_of(r, p->key));
    if (name && !strcmp(name, key)) return node_of(r, p->value);
  }
  return NULL;
}

static bool unknown_key(policy_parser_t *r, const yaml_node_t *key, const char *const *keys) {
  char known[256] = "";
  const char *name = scalar(key);
  for (int i = 0; keys[i]; i++) {
    size_t n = strlen(known);
    snprintf(known + n, sizeof known - n, "%s%s", i ? ", " : "", keys[i]);
  }
  return wrong(r, line_of(key), "unknown key '%s'; the keys here are: %s", name ? name : "?",
               known);
}

/* False, with a message, when MAPPING has a key that is not in KEYS, or a key twice. */
static bool only_keys(policy_parser_t *r, const yaml_node_t *mapping, const char *const *keys) {
  yaml_node_pair_t *start = mapping->data.mapping.pairs.start;
  for (yaml_node_pair_t *p = start; p < mapping->data.mapping.pairs.top; p++) {
    const yaml_node_t *key = node_of(r, p->key);
    const char *name = scalar(key);
    int i = 0;
    while (name && keys[i] && strcmp(keys[i], name))
      i++;
    if (!name || !keys[i]) return unknown_key(r, key, keys);
    for (yaml_node_pair_t *q = start; q < p; q++)
      if (!strcmp(scalar(node_of(r, q->key)), name))
        return wrong(r, line_of(key), "'%s' is given twice", name);
  }
  return true;
}

/* Sets *OUT to the text of KEY. A missing key is an error if it is NEEDED; otherwise *OUT keeps its
 * value. */
static bool text_at(policy_parser_t *r, const yaml_node_t *mapping, const char *key, bool needed,
                    const char **out) {
  const yaml_node_t *value = value_of(r, mapping, key);
  if (value && scalar(value) && !*scalar(value))
    return wrong(r, line_of(value), "'%s' is empty", key);
  if (value) return text(r, value, key, out);
  return !needed || wrong(r, line_of(mapping), "'%s' is missing here", key);
}

static bool list_at(policy_parser_t *r, const yaml_node_t *mapping, const char *key,
                    policy_texts_t *out) {
  const yaml_node_t *value = value_of(r, mapping, key);
  return !value || list(r, value, key, out);
}

static bool number_at(policy_parser_t *r, const yaml_node_t *mapping, const char *key,
                      uint64_t *out) {
  const yaml_node_t *value = value_of(r, mapping, key);
  const char *digits = value ? scalar(value) : NULL;
  char *end = NULL;
  unsigned long long n = digits && isdigit((unsigned char)*digits) ? strtoull(digits, &end, 10) : 0;
  if (!end || *end || !n || n > 1000000)
    return wrong(r, line_of(value ? value : mapping), "'%s' takes a number from 1 to 1000000", key);
  *out = n;
  return true;
}

/* ---- functions ------------------------------------------------------------------------------ */

static const char *skip_space(const char *p) { return p + strspn(p, " \t"); }

static bool argument_kind(const char *name, size_t size, uint8_t *out) {
  static const char *const words[] = {
#define ARGUMENT_WORD(name, value, text) text,
      AUDIT_ARGUMENT_TABLE(ARGUMENT_WORD)
#undef ARGUMENT_WORD
  };
  for (int i = 0; i < AUDIT_ARGUMENT_KINDS; i++)
    if (strlen(words[i]) == size && !memcmp(words[i], name, size)) {
      *out = (uint8_t)i;
      return true;
    }
  return false;
}

/* "path, flags)" */
static bool parse_arguments(policy_parser_t *r, size_t line, const char *p, policy_function_t *f) {
  for (int i = 0; *(p = skip_space(p)) != ')'; i++) {
    size_t size = strcspn(p, " ,)");
    if (i == AUDIT_ARGUMENTS)
      return wrong(r, line, "'%s': only the first %d arguments can be recorded", f->name,
                   AUDIT_ARGUMENTS);
    if (!argument_kind(p, size, &f->arguments[i]))
      return wrong(r, line,
                   "'%s': an argument is one of -, text, path, number, process, flags, address, "
                   "strings, hashed-text, hashed-path, hashed-address, hashed-strings",
                   f->name);
    p = skip_space(p + size);
    if (*p == ',')
      p++;
    else if (*p != ')')
      return wrong(r, line, "'%s': ',' or ')' is missing after an argument", f->name);
  }
  return !p[1] || wrong(r, line, "'%s': unexpected text after ')'", f->name);
}

/* Apple's functions need not exist here. */
static bool extends_apple(const policy_t *p) {
  for (size_t i = 0; i < p->bases.count; i++)
    if (!strcmp(p->bases.items[i].name, "apple")) return true;
  return false;
}

/* "LIBRARY:NAME(ARGUMENTS)"; the library and the arguments are optional. */
static bool parse_function(policy_parser_t *r, size_t line, const char *source,
                           policy_function_t *f) {
  const char *name = skip_space(source), *colon = strchr(source, ':');
  const char *open = strchr(source, '(');
  if (colon && open && colon > open) colon = NULL;
  f->line = (int)line;
  f->source = r->name;
  f->library = colon ? policy_copy(r->policy, name, (size_t)(colon - name)) : "";
  if (colon) name = skip_space(colon + 1);
  size_t size = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$@.");
  const char *after = skip_space(name + size);
  if (!size || (*after && *after != '('))
    return wrong(r, line, "'%s' is not a function: write name(path, flags) or library:name()",
                 source);
  f->name = policy_copy(r->policy, name, size);
  if (!f->name || !f->library) return no_memory(r);
  if (*after && !parse_arguments(r, line, after + 1, f)) return false;
  if (r->builtin || !r->today || colon || extends_apple(r->policy)) return true;
  if (dlsym(RTLD_DEFAULT, f->name)) return true;
  return wrong(r, line,
               "the C library has no function '%s': correct the name, or name its library, as in "
               "'libfoo.so*:%s()'",
               f->name, f->name);
}

static bool same_function(const policy_function_t *a, const policy_function_t *b) {
  return *a->name == *b->name && !strcmp(a->name, b->name) && !strcmp(a->library, b->library);
}

static void take_function(policy_category_t *c, uint32_t number) {
  size_t kept = 0;
  for (size_t i = 0; i < c->function_count; i++)
    if (c->functions[i] != number) c->functions[kept++] = c->functions[i];
  c->function_count = kept;
}

static bool is_whole(const policy_category_t *c) { return !c->match.count && !c->except.count; }

/* Of two built-in policies, the last decides: a call is not reported twice. */
static void take_from_earlier(const policy_parser_t *r, const policy_category_t *c) {
  for (size_t i = 0; r->builtin && is_whole(c) && i < r->policy->category_count; i++) {
    policy_category_t *earlier = &r->policy->categories[i];
    if (earlier->source == c->source || !is_whole(earlier)) continue;
    for (size_t k = 0; k < c->function_count; k++)
      take_function(earlier, c->functions[k]);
  }
}

/* Adds F, described at LINE, to C. Of two built-in policies, the last decides what is recorded. */
static bool add_to_category(policy_parser_t *r, size_t line, policy_category_t *c,
                            const policy_function_t *f) {
  policy_t *p = r->policy;
  size_t n = 0;
  while (n < p->function_count && !same_function(&p->functions[n], f))
    n++;
  if (n == p->function_count) {
    if (!ADD_ITEM(r, p->functions, p->function_count, *f)) return false;
  } else if (r->builtin) {
    p->functions[n] = *f;
  } else if (memcmp(p->functions[n].arguments, f->arguments, sizeof f->arguments)) {
    return wrong(r, line, "'%s' has other arguments at %s:%d: write the same here", f->name,
                 p->functions[n].source, p->functions[n].line);
  }
  return ADD_ITEM(r, c->functions, c->function_count, (uint32_t)n);
}

static bool add_function(policy_parser_t *r, const yaml_node_t *node, void *context) {
  policy_function_t f = {0};
  const char *source;
  return text(r, node, "functions", &source) && parse_function(r, line_of(node), source, &f) &&
         add_to_category(r, line_of(node), context, &f);
}

static bool add_method(policy_parser_t *r, const yaml_node_t *node, void *context) {
  policy_function_t f = {.library = "", .source = r->name, .line = (int)line_of(node)};
  if (!text(r, node, "methods", &f.name)) return false;
  if (!policy_is_method(f.name))
    return wrong(
        r, line_of(node),
        "'%s' is not a method: write \"-[Class selector:]\", or \"+[Class *]\" for all class "
        "methods of a class",
        f.name);
  if (strpbrk(f.name, "*?#")) f.arguments[0] = AUDIT_TEXT;
  return add_to_category(r, line_of(node), context, &f);
}

/* ---- the parts ------------------------------------------------------------------------------ */

static bool read_level(policy_parser_t *r, const yaml_node_t *entry, policy_level_t *out) {
  const yaml_node_t *node = value_of(r, entry, "level");
  const char *level = node ? scalar(node) : "warning";
  for (policy_level_t l = POLICY_NOTE; l <= POLICY_ERROR; l++)
    if (level && !strcmp(level, policy_level_word(l))) {
      *out = l;
      return true;
    }
  return wrong(r, line_of(node), "'level' is note, warning or error");
}

static bool read_enabled(policy_parser_t *r, const yaml_node_t *entry, bool *out) {
  const yaml_node_t *node = value_of(r, entry, "enabled");
  const char *value = node ? scalar(node) : "true";
  *out = value && !strcmp(value, "true");
  return *out || (value && !strcmp(value, "false")) ||
         wrong(r, line_of(node), "'enabled' is true or false");
}

/* Checks that the globs of KEY, match or except, have a text to match. */
static bool has_text(policy_parser_t *r, const yaml_node_t *entry, const policy_category_t *c,
                     const char *key) {
  const yaml_node_t *node = value_of(r, entry, key);
  return !node || !r->today || !c->function_count || policy_sees_text(r->policy, c) ||
         wrong(r, line_of(node), "no function of '%s' records a text or path that '%s' could match",
               c->id, key);
}

static bool add_category(policy_parser_t *r, const yaml_node_t *entry, void *context) {
  static const char *const keys[] = {"id",        "title",   "level", "enabled", "apple", "reasons",
                                     "functions", "methods", "match", "except",  NULL};
  (void)context;
  policy_t *p = r->policy;
  policy_category_t c = {0};
  if (!only_keys(r, entry, keys) || !text_at(r, entry, "id", true, &c.id) ||
      !read_enabled(r, entry, &c.enabled))
    return false;
  c.title = c.id;
  const yaml_node_t *functions = value_of(r, entry, "functions");
  if (!text_at(r, entry, "title", false, &c.title) || !read_level(r, entry, &c.level) ||
      !text_at(r, entry, "apple", false, &c.apple) || !list_at(r, entry, "reasons", &c.reasons) ||
      !list_at(r, entry, "match", &c.match) || !list_at(r, entry, "except", &c.except))
    return false;
  const yaml_node_t *methods = value_of(r, entry, "methods");
  if (functions && !each_scalar(r, functions, "functions", 0, add_function, &c)) return false;
  if (methods && !each_scalar(r, methods, "methods", 0, add_method, &c)) return false;
  if (c.enabled && !c.function_count)
    return wrong(r, line_of(entry), "the category '%s' has no functions", c.id);
  if (!has_text(r, entry, &c, "match") || !has_text(r, entry, &c, "except")) return false;
  c.source = r->number;
  take_from_earlier(r, &c);
  for (size_t i = 0; i < p->category_count; i++)
    if (!strcmp(p->categories[i].id, c.id)) {
      if (p->categories[i].source == c.source)
        return wrong(r, line_of(entry), "the category '%s' is given twice", c.id);
      p->categories[i] = c;
      return true;
    }
  return ADD_ITEM(r, p->categories, p->category_count, c);
}

/* Checks that GLOB matches the id of a category. */
static bool check_category(policy_parser_t *r, const yaml_node_t *node, const char *glob) {
  for (size_t i = 0; i < r->policy->category_count; i++)
    if (glob_matches(glob, r->policy->categories[i].id)) return true;
  return wrong(r, line_of(node), "there is no category '%s'; 'sonde audit check' lists them all",
               glob);
}

static bool read_expiry(policy_parser_t *r, const yaml_node_t *entry, time_t *out) {
  const yaml_node_t *node = value_of(r, entry, "expires");
  if (!node) return true;
  if (!policy_day(scalar(node), out))
    return wrong(r, line_of(node), "'expires' is a day, 2027-01-31");
  if (r->today && *out <= r->today)
    return wrong(
        r, line_of(node),
        "this allowance expired on %s: review the calls, then set a later day or remove it",
        scalar(node));
  return true;
}

/* Checks that the function of an allowance exists. Otherwise the allowance would silently never
 * apply. */
static bool check_function(policy_parser_t *r, const yaml_node_t *entry,
                           const policy_allowance_t *a) {
  const yaml_node_t *node = value_of(r, entry, "function");
  return !node || !r->today || policy_has_function(r->policy, a->category, a->function) ||
         wrong(r, line_of(node), "'%s' has no function '%s'; 'sonde audit check' lists them all",
               a->category, a->function);
}

static bool add_allowance(policy_parser_t *r, const yaml_node_t *entry, void *context) {
  static const char *const keys[] = {"category", "function", "owner", "match",
                                     "reason",   "expires",  NULL};
  (void)context;
  policy_t *p = r->policy;
  policy_allowance_t a = {.category = "*", .function = "*", .owner = "*"};
  if (!only_keys(r, entry, keys) || !text_at(r, entry, "category", true, &a.category) ||
      !check_category(r, value_of(r, entry, "category"), a.category) ||
      !text_at(r, entry, "function", false, &a.function) || !check_function(r, entry, &a) ||
      !text_at(r, entry, "owner", false, &a.owner) || !list_at(r, entry, "match", &a.match) ||
      !text_at(r, entry, "reason", true, &a.reason) || !read_expiry(r, entry, &a.expires))
    return false;
  return ADD_ITEM(r, p->allowances, p->allowance_count, a);
}

static bool add_limit(policy_parser_t *r, const yaml_node_t *entry, void *context) {
  static const char *const keys[] = {"category", "calls", "window", NULL};
  (void)context;
  policy_t *p = r->policy;
  policy_limit_t l = {0};
  if (!only_keys(r, entry, keys) || !text_at(r, entry, "category", true, &l.category) ||
      !check_category(r, value_of(r, entry, "category"), l.category) ||
      !number_at(r, entry, "calls", &l.calls))
    return false;
  const yaml_node_t *window = value_of(r, entry, "window");
  if (!window || !policy_window(scalar(window), &l.window_ns))
    return wrong(r, line_of(window ? window : entry), "'window' is a time: 200ms, 10s, 5m");
  return ADD_ITEM(r, p->limits, p->limit_count, l);
}

static bool add_phase(policy_parser_t *r, const yaml_node_t *entry, void *context) {
  static const char *const keys[] = {"before", "deny", NULL};
  (void)context;
  policy_t *p = r->policy;
  policy_phase_t phase = {0};
  if (!only_keys(r, entry, keys) || !text_at(r, entry, "before", true, &phase.phase)) return false;
  const yaml_node_t *deny = value_of(r, entry, "deny");
  if (!deny) return wrong(r, line_of(entry), "'deny' is missing here: a list of categories");
  if (!list(r, deny, "deny", &phase.categories)) return false;
  if (!phase.categories.count) return wrong(r, line_of(deny), "'deny' is empty");
  for (size_t i = 0; i < phase.categories.count; i++)
    if (!check_category(r, deny, phase.categories.items[i])) return false;
  return ADD_ITEM(r, p->phases, p->phase_count, phase);
}

static bool add_owner(policy_parser_t *r, const yaml_node_t *entry, void *context) {
  static const char *const keys[] = {"library", "name", NULL};
  (void)context;
  policy_t *p = r->policy;
  policy_owner_t owner = {0};
  if (!only_keys(r, entry, keys) || !text_at(r, entry, "library", true, &owner.library) ||
      !text_at(r, entry, "name", true, &owner.name))
    return false;
  return ADD_ITEM(r, p->owners, p->owner_count, owner);
}

/* ---- the document --------------------------------------------------------------------------- */

static bool read_source(policy_parser_t *r, const policy_source_t *source, bool builtin);

/* Notes that the policy extends NAME. */
static bool add_base(policy_parser_t *r, const yaml_node_t *node, const char *name) {
  policy_sources_t *bases = &r->policy->bases;
  const policy_source_t *source = name ? policy_builtin(name) : NULL;
  if (!source || bases->count == POLICY_BASES_MAX || (r->bases && bases->count == r->bases->count))
    return wrong(r, line_of(node),
                 "'extends' is none, or a built-in policy or a list of them: "
                 "linux, apple, descriptors, files, net, exec");
  bases->items[bases->count++] = *source;
  return true;
}

static bool add_listed_base(policy_parser_t *r, const yaml_node_t *node, void *context) {
  (void)context;
  return add_base(r, node, scalar(node));
}

/* Finds the policies that this one extends: "extends: linux", "extends: [files, net]" or none. The
 * default is linux. */
static bool find_bases(policy_parser_t *r, const yaml_node_t *root) {
  const yaml_node_t *node = value_of(r, root, "extends");
  if (node && node->type == YAML_SEQUENCE_NODE)
    return each_scalar(r, node, "extends", 0, add_listed_base, NULL);
  const char *name = node ? scalar(node) : "linux";
  return (name && !strcmp(name, "none")) || add_base(r, node, name);
}

static bool read_bases(policy_parser_t *r, const yaml_node_t *root) {
  const char *name = r->name;
  yaml_document_t *document = r->document;
  if (!find_bases(r, root)) return false;
  const policy_sources_t *bases = r->bases ? r->bases : &r->policy->bases;
  for (size_t i = 0; i < r->policy->bases.count; i++, r->number++)
    if (!read_source(r, &bases->items[i], true)) return false;
  r->name = name;
  r->document = document;
  r->builtin = false;
  return true;
}

static bool read_parts(policy_parser_t *r, const yaml_node_t *root) {
  static const struct {
    const char *key;
    node_visitor_t *item;
  } parts[] = {{"categories", add_category},
               {"allow", add_allowance},
               {"limits", add_limit},
               {"phases", add_phase},
               {"owners", add_owner}};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    const yaml_node_t *value = value_of(r, root, parts[i].key);
    if (value && !each_mapping(r, value, parts[i].key, parts[i].item)) return false;
  }
  return true;
}

static bool read_depth(policy_parser_t *r, const yaml_node_t *root) {
  const yaml_node_t *depth = value_of(r, root, "depth");
  if (!depth) return true;
  if (!number_at(r, root, "depth", &r->policy->depth)) return false;
  return (r->policy->depth >= 1 && r->policy->depth <= AUDIT_DEPTH_MAX) ||
         wrong(r, line_of(depth), "'depth' is a number of frames from 1 to %u", AUDIT_DEPTH_MAX);
}

static bool read_root(policy_parser_t *r, const yaml_node_t *root) {
  static const char *const keys[] = {"version", "extends", "functions", "categories", "allow",
                                     "limits",  "phases",  "owners",    "depth",      NULL};
  if (!root) return wrong(r, 1, "the policy is empty");
  if (root->type != YAML_MAPPING_NODE)
    return wrong(r, line_of(root), "a policy consists of 'key: value'");
  const yaml_node_t *version = value_of(r, root, "version");
  const char *number = version ? scalar(version) : NULL;
  if (!number || strcmp(number, "1"))
    return wrong(r, version ? line_of(version) : 1, "this sonde reads only 'version: 1'");
  return only_keys(r, root, keys) && (r->builtin || read_bases(r, root)) && read_depth(r, root) &&
         read_parts(r, root);
}

/* A second document, after '---', would be ignored. */
static bool only_document(policy_parser_t *r, yaml_parser_t *parser) {
  yaml_document_t more;
  if (!yaml_parser_load(parser, &more))
    return wrong(r, parser->problem_mark.line + 1, "this is not YAML: %s",
                 parser->problem ? parser->problem : "it cannot be read");
  const yaml_node_t *root = yaml_document_get_root_node(&more);
  bool only =
      !root || wrong(r, line_of(root), "a second document begins here: a policy has only one");
  yaml_document_delete(&more);
  return only;
}

static bool read_source(policy_parser_t *r, const policy_source_t *source, bool builtin) {
  yaml_parser_t parser;
  yaml_document_t document;
  r->name = source->name;
  r->builtin = builtin;
  if (!yaml_parser_initialize(&parser)) return no_memory(r);
  yaml_parser_set_input_string(&parser, (const unsigned char *)source->text, source->size);
  bool ok = yaml_parser_load(&parser, &document);
  if (!ok) {
    wrong(r, parser.problem_mark.line + 1, "this is not YAML: %s",
          parser.problem ? parser.problem : "it cannot be read");
  } else {
    r->document = &document;
    ok = read_root(r, yaml_document_get_root_node(&document));
    yaml_document_delete(&document);
    r->document = NULL;
    ok = ok && only_document(r, &parser);
  }
  yaml_parser_delete(&parser);
  return ok;
}

policy_t *policy_read(const policy_source_t *source, const policy_sources_t *bases, time_t today,
                      char *error, size_t error_size) {
  policy_t *p = calloc(1, sizeof *p);
  if (!p) {
    snprintf(error, error_size, "%s:1: out of memory", source->name);
    return NULL;
  }
  policy_parser_t r = {
      .policy = p, .bases = bases, .today = today, .error = error, .error_size = error_size};
  bool builtin = policy_builtin(source->name) == source;
  if (read_source(&r, source, builtin)) return p;
  policy_free(p);
  return NULL;
}
