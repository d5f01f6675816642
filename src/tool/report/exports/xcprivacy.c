/* SPDX-License-Identifier: MIT
 *
 * Writes a draft of PrivacyInfo.xcprivacy (developer.apple.com, "Privacy manifest files"): the
 * required-reason categories that were called, and by which code. The developer selects the
 * reasons.
 */
#include <inttypes.h>
#include <string.h>

#include "report/exports/audit_exports.h"

/* Escapes text for XML. A comment must not contain two adjacent hyphens. */
static void put_text(FILE *out, const char *text) {
  for (; *text; text++)
    if (*text == '&')
      fputs("&amp;", out);
    else if (*text == '<')
      fputs("&lt;", out);
    else if (*text == '>')
      fputs("&gt;", out);
    else if (*text == '-' && text[1] == '-')
      fputs("- ", out);
    else if ((unsigned char)*text >= ' ')
      fputc(*text, out);
}

/* By id: each program has its own categories. */
static bool is_of(const finding_row_t *row, const policy_category_t *category) {
  return !strcmp(row->category->id, category->id);
}

/* One line for each owner, with the sum of its calls. */
static void put_owners(FILE *out, const findings_t *f, const policy_category_t *category) {
  for (size_t i = 0; i < f->count; i++) {
    uint64_t calls = 0;
    bool first = true;
    if (!is_of(&f->rows[i], category)) continue;
    for (size_t k = 0; k < f->count; k++) {
      if (!is_of(&f->rows[k], category) || strcmp(f->rows[k].owner, f->rows[i].owner)) continue;
      if (k < i) first = false;
      calls += f->rows[k].sighting->count;
    }
    if (!first) continue;
    fprintf(out, "\t\t\t<!-- %" PRIu64 " calls by ", calls);
    put_text(out, f->rows[i].owner);
    fputs(" -->\n", out);
  }
}

static void put_category(FILE *out, const findings_t *f, const policy_category_t *c) {
  fputs("\t\t<dict>\n", out);
  put_owners(out, f, c);
  fprintf(out, "\t\t\t<key>NSPrivacyAccessedAPIType</key>\n\t\t\t<string>%s</string>\n", c->apple);
  fputs("\t\t\t<key>NSPrivacyAccessedAPITypeReasons</key>\n\t\t\t<array>\n"
        "\t\t\t\t<!-- keep the reasons that are true -->\n",
        out);
  for (size_t i = 0; i < c->reasons.count; i++) {
    fputs("\t\t\t\t<string>", out);
    put_text(out, c->reasons.items[i]);
    fputs("</string>\n", out);
  }
  fputs("\t\t\t</array>\n\t\t</dict>\n", out);
}

static bool called(const findings_t *f, const policy_category_t *c) {
  for (size_t i = 0; i < f->count; i++)
    if (is_of(&f->rows[i], c)) return true;
  return false;
}

void findings_xcprivacy(const findings_t *f, FILE *out) {
  const policy_t *policy = audited_policy(f->audited);
  fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" "
        "\"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n"
        "<plist version=\"1.0\">\n<dict>\n\t<key>NSPrivacyAccessedAPITypes</key>\n\t<array>\n",
        out);
  for (size_t i = 0; policy && i < policy->category_count; i++)
    if (policy->categories[i].apple && called(f, &policy->categories[i]))
      put_category(out, f, &policy->categories[i]);
  fputs("\t</array>\n</dict>\n</plist>\n", out);
}
