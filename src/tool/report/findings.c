/* SPDX-License-Identifier: MIT */
#include "report/findings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/glob.h"
#include "base/hash.h"
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

static bool add_row(findings_t *f, const finding_row_t *row) {
  if (!ARRAY_GROW(f->rows, f->count, f->capacity)) return false;
  f->rows[f->count++] = *row;
  return true;
}

/* The start of the recording, which decides whether an allowance has expired. */
static time_t started(const audit_t *a) {
  return (time_t)(reader_header(a->reader)->start_realtime_ns / 1000000000);
}

static bool add_findings(findings_t *f, const audited_program_t *by, const audit_entry_t *s,
                         const frame_name_t *site) {
  const audit_t *a = by->audit;
  uint32_t categories[CATEGORIES_MAX];
  char text[AUDIT_TEXT_SIZE], words[WORDS_MAX];
  const char *function = audit_function_name(a, s->function);
  audit_text(a, s, text);
  size_t n = policy_categories(a->flat, s->function, text, categories, CATEGORIES_MAX);
  for (size_t i = 0; i < n; i++) {
    finding_row_t row = {
        .by = by, .sighting = s, .category = &a->policy->categories[categories[i]]};
    row.site = site;
    row.owner = owner_of(f, a->policy, site);
    row.arguments = strdup(audit_words(a, s, words, sizeof words));
    row.class = strdup(audit_class(a, s, words, sizeof words));
    if (!row.owner || !row.arguments || !row.class || !add_row(f, &row)) {
      free(row.arguments);
      free(row.class);
      return false;
    }
    f->rows[f->count - 1].too_early = too_early(a->policy, s, row.category->id);
    finding_row_t *added = &f->rows[f->count - 1];
    added->fingerprint = fingerprint_of(added, function);
    added->allowed =
        policy_allows(a->policy, row.category->id, function, row.owner, text, started(a));
  }
  return true;
}

const char *finding_function(const finding_row_t *row) {
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
  for (size_t i = 0; i < a->count; i++) {
    const frame_name_t *site = frame_names_owner(by->report.names, a->entries[i].stack);
    if (!add_findings(f, by, &a->entries[i], site && site->system ? NULL : site))
      return SONDE_ENOMEM;
  }
  return 0;
}

int findings_make(findings_t *out, const audited_t *audited) {
  int status = 0;
  *out = (findings_t){.audited = audited};
  for (size_t i = 0; i < audited->count && status == 0; i++)
    status = add_program(out, &audited->programs[i]);
  if (out->count) qsort(out->rows, out->count, sizeof *out->rows, by_severity);
  return status;
}

void findings_free(findings_t *f) {
  for (size_t i = 0; i < f->count; i++) {
    free(f->rows[i].arguments);
    free(f->rows[i].class);
  }
  for (size_t i = 0; i < f->owner_count; i++)
    free(f->owners[i]);
  free(f->rows);
  free(f->owners);
  *f = (findings_t){0};
}
