/* SPDX-License-Identifier: MIT */
#include "report/findings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/glob.h"
#include "base/hash.h"
#include "report/stacks/alike.h"
#include "sonde/status.h"
#include "symbol/distribution.h"
#include "symbol/package.h"
#include "symbol/python.h"

enum { WORDS_MAX = 2048, CATEGORIES_MAX = 32 };

/* ---- owners --------------------------------------------------------------------------------- */

/* The installed packages, read once in the life of the command: the lists have some 10 MB. */
static const char *installed_by(const char *path) {
  static packages_t *packages;
  if (!packages) packages = packages_new("");
  return packages ? package_of(packages, path) : NULL;
}

static const char *distributed_by(const char *file) {
  static distributions_t *distributions;
  if (!distributions) distributions = distributions_new();
  return distributions ? distribution_of(distributions, file) : NULL;
}

static const char *keep_owner(findings_t *f, const char *text) {
  for (size_t i = 0; i < f->owner_count; i++)
    if (!strcmp(f->owners[i], text)) return f->owners[i];
  char **larger = realloc(f->owners, (f->owner_count + 1) * sizeof *larger);
  if (!larger) return NULL;
  f->owners = larger;
  char *copy = strdup(text);
  if (copy) f->owners[f->owner_count++] = copy;
  return copy;
}

/* Of a Python function: the Python distribution with its file, else the package of the system that
 * installed it, else the name under which its package is imported; or the program. */
static const char *owner_of_python(findings_t *f, const policy_t *p, const char *file) {
  char name[256];
  if (python_role(file) == SOURCE_APP) return "the program";
  python_package(file, name, sizeof name);
  for (size_t i = 0; i < p->owner_count; i++)
    if (glob_matches(p->owners[i].library, name)) return p->owners[i].name;
  const char *package = distributed_by(file);
  if (!package) package = installed_by(file);
  return keep_owner(f, package ? package : name);
}

static const char *owner_of(findings_t *f, const policy_t *p, const frame_name_t *site) {
  if (!site) return "the system";
  if (site->python) return owner_of_python(f, p, site->file);
  for (size_t i = 0; i < p->owner_count; i++)
    if (glob_matches(p->owners[i].library, site->library)) return p->owners[i].name;
  const char *package = installed_by(site->path);
  return keep_owner(f, package ? package : *site->library ? site->library : "unknown code");
}

/* ---- fingerprints --------------------------------------------------------------------------- */

/* The phase that CATEGORY must wait for and that had not begun at one of the calls. */
static const char *too_early(const policy_t *p, const audit_entry_t *s, const char *category) {
  for (size_t i = 0; i < p->phase_count && i < 64; i++)
    for (size_t k = 0; s->early >> i & 1 && k < p->phases[i].categories.count; k++)
      if (glob_matches(p->phases[i].categories.items[k], category)) return p->phases[i].phase;
  return NULL;
}

static uint64_t fingerprint_of(const finding_row_t *row, const char *function) {
  uint64_t hash = hash_text(HASH_START, row->category->id);
  hash = hash_text(hash, function);
  hash = hash_text(hash, row->class);
  if (row->too_early) hash = hash_text(hash, row->too_early);
  return hash_text(hash, row->owner);
}

/* ---- rows ----------------------------------------------------------------------------------- */

static void free_texts(finding_row_t *row) {
  free(row->arguments);
  free(row->alike);
  free(row->class);
}

static bool add_row(findings_t *f, const finding_row_t *row) {
  if (!ARRAY_GROW(f->rows, f->count, f->capacity)) return false;
  f->rows[f->count++] = *row;
  return true;
}

/* The start of the recording, which decides whether an allowance has expired. */
static time_t started(const audit_t *a) {
  return (time_t)(reader_header(a->reader)->start_realtime_ns / 1000000000);
}

/* What is known of one call site, hooked or traced. */
typedef struct site_facts {
  const char *function, *text; /* the first text argument */
  const uint32_t *categories;
  size_t category_count;
  const char *words, *alike, *class;
} site_facts_t;

static bool add_findings(findings_t *f, finding_row_t row, const site_facts_t *facts) {
  const audit_t *a = row.by->audit;
  for (size_t i = 0; i < facts->category_count; i++) {
    row.category = &a->policy->categories[facts->categories[i]];
    row.owner = owner_of(f, a->policy, row.site);
    row.arguments = strdup(facts->words);
    row.alike = strdup(facts->alike);
    row.class = strdup(facts->class);
    if (!row.owner || !row.arguments || !row.alike || !row.class || !add_row(f, &row)) {
      free_texts(&row);
      return false;
    }
    finding_row_t *added = &f->rows[f->count - 1];
    added->too_early = too_early(a->policy, row.sighting, row.category->id);
    added->fingerprint = fingerprint_of(added, facts->function);
    added->allowed = policy_allows(a->policy, row.category->id, facts->function, row.owner,
                                   facts->text, started(a));
  }
  return true;
}

static const frame_name_t *site_of(const audited_program_t *by, uint32_t stack) {
  const frame_name_t *site = frame_names_owner(by->report.names, stack);
  return site && site->system ? NULL : site;
}

static bool add_hooked(findings_t *f, const audited_program_t *by, const audit_entry_t *s) {
  const audit_t *a = by->audit;
  uint32_t categories[CATEGORIES_MAX];
  char text[AUDIT_TEXT_SIZE], words[WORDS_MAX], alike[WORDS_MAX], class[WORDS_MAX];
  audit_text(a, s, text);
  const site_facts_t facts = {
      .function = audit_function_name(a, s->function),
      .text = text,
      .categories = categories,
      .category_count = policy_categories(a->flat, s->function, text, categories, CATEGORIES_MAX),
      .words = audit_words(a, s, words, sizeof words),
      .alike = audit_words_alike(a, s, alike, sizeof alike),
      .class = audit_class(a, s, class, sizeof class)};
  const finding_row_t row = {.by = by, .sighting = s, .site = site_of(by, s->stack)};
  return add_findings(f, row, &facts);
}

/* ---- traced calls --------------------------------------------------------------------------- */

bool finding_is_traced(const report_t *r, const coverage_call_t *call) {
  const record_frame_t *innermost;
  const frame_name_t *names;
  if (call->class != COVERAGE_BELOW && call->class != COVERAGE_UNEXPLAINED) return false;
  if (reader_header(r->reader)->mode & RECORD_FROM_OUTSIDE) return true;
  if (reader_program_stack(r->reader, call->stack, &innermost, 1) <= 0)
    return call->class == COVERAGE_UNEXPLAINED;
  return frame_names_of_frame(r->names, innermost, &names) > 0 && !names[0].system;
}

const policy_category_t *finding_category(const audit_t *a, const coverage_call_t *call) {
  uint32_t categories[CATEGORIES_MAX];
  const policy_category_t *severest = NULL;
  size_t n = a->policy ? coverage_categories(a->flat, call, categories, CATEGORIES_MAX) : 0;
  for (size_t i = 0; i < n; i++) {
    const policy_category_t *category = &a->policy->categories[categories[i]];
    if (!severest || category->level > severest->level) severest = category;
  }
  return severest;
}

/* SIGHTING is set from CALL, and is that of the rows. */
static bool add_traced(findings_t *f, const audited_program_t *by, const coverage_call_t *call,
                       audit_entry_t *sighting) {
  const audit_t *a = by->audit;
  const policy_category_t *category = finding_category(a, call);
  char text[AUDIT_TEXT_SIZE], words[WORDS_MAX], alike[WORDS_MAX], class[WORDS_MAX];
  if (!category) return true;
  *sighting = (audit_entry_t){.function = UINT32_MAX,
                              .stack = call->stack,
                              .stream = UINT32_MAX,
                              .arguments_size = call->arguments_size,
                              .arguments = call->arguments,
                              .count = call->count,
                              .first = call->first,
                              .last = call->last,
                              .results = call->results};
  audit_text_of(call->kinds, call->arguments, call->arguments_size, text);
  audit_own_path(text, reader_header(a->reader)->pid);
  const uint32_t number = (uint32_t)(category - a->policy->categories);
  const site_facts_t facts = {
      .function = call->call->name,
      .text = text,
      .categories = &number,
      .category_count = 1,
      .words = audit_words_of(call->call->name, a->machine, call->kinds, call->arguments,
                              call->arguments_size, words, sizeof words),
      .alike = audit_words_alike_of(call->call->name, a->machine, call->kinds, call->arguments,
                                    call->arguments_size, alike, sizeof alike),
      .class =
          audit_class_of(call->kinds, call->arguments, call->arguments_size, class, sizeof class)};
  const finding_row_t row = {
      .by = by, .sighting = sighting, .traced = call, .site = site_of(by, call->stack)};
  return add_findings(f, row, &facts);
}

static size_t coverage_rows(const audited_t *audited) {
  size_t count = 0;
  for (size_t i = 0; i < audited->count; i++)
    count += audited->programs[i].audit->coverage.count;
  return count;
}

static int add_all_traced(findings_t *f, const audited_t *audited) {
  f->sightings = calloc(coverage_rows(audited) + 1, sizeof *f->sightings);
  if (!f->sightings) return SONDE_ENOMEM;
  audit_entry_t *next = f->sightings;
  for (size_t i = 0; i < audited->count; i++) {
    const audited_program_t *by = &audited->programs[i];
    const coverage_t *c = &by->audit->coverage;
    for (size_t k = 0; by->audit->policy && k < c->count; k++)
      if (finding_is_traced(&by->report, &c->calls[k]) && !add_traced(f, by, &c->calls[k], next++))
        return SONDE_ENOMEM;
  }
  return 0;
}

/* ---- all of them ---------------------------------------------------------------------------- */

const char *finding_function(const finding_row_t *row) {
  if (row->traced) return row->traced->call->name;
  return audit_function_name(row->by->audit, row->sighting->function);
}

void finding_add_json(const finding_row_t *row, json_object *o) {
  json_add_text(o, "category", row->category->id);
  json_add_text(o, "level", policy_level_word(row->category->level));
  json_add_text(o, "function", finding_function(row));
  json_add_text(o, "arguments", row->arguments);
  json_add_text(o, "owner", row->owner);
}

static size_t category_number(const finding_row_t *row) {
  return (size_t)(row->category - row->by->audit->policy->categories);
}

static int compare_categories(const finding_row_t *a, const finding_row_t *b) {
  size_t x = category_number(a), y = category_number(b);
  if (x != y) return x < y ? -1 : 1;
  return a->by == b->by ? 0 : strcmp(a->category->id, b->category->id);
}

bool finding_same_category(const finding_row_t *a, const finding_row_t *b) {
  return compare_categories(a, b) == 0;
}

static int by_severity(const void *left, const void *right) {
  const finding_row_t *a = left, *b = right;
  if (!a->allowed != !b->allowed) return a->allowed ? 1 : -1;
  if (a->category->level != b->category->level)
    return a->category->level > b->category->level ? -1 : 1;
  int order = compare_categories(a, b);
  if (order) return order;
  if (a->sighting->count != b->sighting->count)
    return a->sighting->count > b->sighting->count ? -1 : 1;
  if (a->by != b->by) return a->by < b->by ? -1 : 1;
  return a->sighting < b->sighting ? -1 : a->sighting > b->sighting;
}

static int add_program(findings_t *f, const audited_program_t *by) {
  const audit_t *a = by->audit;
  if (!a->policy) return 0;
  for (size_t i = 0; i < a->count; i++)
    if (!add_hooked(f, by, &a->entries[i])) return SONDE_ENOMEM;
  return 0;
}

int findings_make(findings_t *out, const audited_t *audited, bool hooked_only) {
  int status = 0;
  *out = (findings_t){.audited = audited};
  for (size_t i = 0; i < audited->count && status == 0; i++)
    status = add_program(out, &audited->programs[i]);
  if (status == 0 && !hooked_only) status = add_all_traced(out, audited);
  if (out->count) qsort(out->rows, out->count, sizeof *out->rows, by_severity);
  return status;
}

/* ---- merged for people ---------------------------------------------------------------------- */

/* What the rows of one group have in common, apart from the stack. */
static char *key_of(const finding_row_t *row) {
  char key[2 * WORDS_MAX];
  snprintf(key, sizeof key, "%p %p %zu %s %s(%s)", (const void *)row->by,
           (const void *)row->allowed, category_number(row), row->too_early ? row->too_early : "",
           finding_function(row), row->alike);
  return strdup(key);
}

static void add_sighting(audit_entry_t *to, const audit_entry_t *s) {
  to->count += s->count;
  if (s->first < to->first) to->first = s->first;
  if (s->last > to->last) to->last = s->last;
  to->early |= s->early;
  call_results_add(&to->results, &s->results);
}

/* The row TO stands for ROW as well. */
static void merge_row(finding_row_t *to, audit_entry_t *sighting, finding_row_t *row) {
  add_sighting(sighting, row->sighting);
  if (strcmp(to->arguments, row->arguments) != 0 && strcmp(to->arguments, to->alike) != 0) {
    char *swapped = to->arguments;
    to->arguments = to->alike;
    to->alike = swapped;
  }
  free_texts(row);
}

int findings_merge(findings_t *f) {
  alike_t groups = {0};
  size_t kept = 0, keys = 0, next = 0, group;
  char **key = calloc(f->count + 1, sizeof *key);
  f->merged = calloc(f->count + 1, sizeof *f->merged);
  bool good = key && f->merged;
  for (; good && next < f->count; next++) {
    finding_row_t row = f->rows[next];
    good = (key[keys] = key_of(&row)) != NULL &&
           alike_add(&groups, &row.by->report, row.sighting->stack, key[keys++], &group);
    if (!good) break;
    if (group < kept) {
      merge_row(&f->rows[group], &f->merged[group], &row);
      continue;
    }
    f->merged[kept] = *row.sighting;
    row.sighting = &f->merged[kept];
    f->rows[kept++] = row;
  }
  if (good && kept) qsort(f->rows, kept, sizeof *f->rows, by_severity);
  if (next < f->count) /* memory ran out */
    memmove(f->rows + kept, f->rows + next, (f->count - next) * sizeof *f->rows);
  f->count = kept + (f->count - next);
  for (size_t i = 0; i < keys; i++)
    free(key[i]);
  free(key);
  alike_free(&groups);
  return good ? 0 : SONDE_ENOMEM;
}

void findings_free(findings_t *f) {
  for (size_t i = 0; i < f->count; i++)
    free_texts(&f->rows[i]);
  free(f->merged);
  for (size_t i = 0; i < f->owner_count; i++)
    free(f->owners[i]);
  free(f->rows);
  free(f->sightings);
  free(f->owners);
  *f = (findings_t){0};
}
