/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "cli/common/policy_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

enum { FILE_MAX_BYTES = 1 << 20 };

static char *read_whole(const char *path, size_t *size) {
  FILE *file = fopen(path, "rbe");
  char *text = malloc(FILE_MAX_BYTES + 1);
  if (!file || !text) {
    (void)message_fail("cannot read the policy '%s': %s; built-in policies are linux, apple, "
                       "descriptors, files, net and exec, or a list of them: files,net",
                       path, strerror(errno));
    if (file) fclose(file);
    free(text);
    return NULL;
  }
  *size = fread(text, 1, FILE_MAX_BYTES + 1, file);
  const char *why = ferror(file) ? strerror(errno) : NULL;
  if (!why && *size > FILE_MAX_BYTES) why = "larger than 1 MB";
  fclose(file);
  if (!why) return text;
  (void)message_fail("cannot read the policy '%s': %s", path, why);
  free(text);
  return NULL;
}

/* Whether TEXT is a list of built-in policies: "files,net". */
static bool is_list(const char *text) {
  char name[32];
  size_t count = 0;
  for (const char *p = text;; p++) {
    size_t size = strcspn(p, ",");
    int n = size < sizeof name ? snprintf(name, sizeof name, "%.*s", (int)size, p) : 0;
    if (n <= 0 || !policy_builtin(name)) return false;
    count++;
    p += size;
    if (!*p) return count > 1;
  }
}

/* The text of a policy that extends those that LIST names; the last one with a category decides. */
static char *text_of_list(const char *list) {
  char *text;
  return asprintf(&text, "version: 1\nextends: [%s]\n", list) < 0 ? NULL : text;
}

policy_t *policy_file_read(const char *name, time_t today, policy_source_t *out) {
  char error[512];
  policy_source_t source = {.name = name};
  const policy_source_t *builtin = policy_builtin(name);
  bool lists = is_list(name);
  char *text = builtin ? strndup(builtin->text, builtin->size)
               : lists ? text_of_list(name)
                       : read_whole(name, &source.size);
  if (!text) {
    if (builtin || lists) (void)message_fail("out of memory");
    return NULL;
  }
  source.text = text;
  if (lists) source.size = strlen(text);
  policy_t *policy = policy_read(builtin ? builtin : &source, NULL, today, error, sizeof error);
  if (builtin) source.size = builtin->size;
  if (!policy) (void)message_fail("%s", error);
  if (policy && out)
    *out = source;
  else
    free(text);
  return policy;
}

static audit_policy_t *compile(const policy_t *policy, const policy_source_t *source,
                               size_t *size) {
  const char *home = getenv("HOME");
  audit_policy_t *flat = policy_flatten(policy, home ? home : "");
  if (!flat) {
    (void)message_fail("the policy is too large: its functions and patterns exceed 1 MB");
    return NULL;
  }
  size_t own = strnlen(source->text, source->size), more = 0;
  for (size_t i = 0; i < policy->bases.count; i++)
    more += 1 + policy->bases.items[i].size;
  char *all = realloc(flat, flat->size + own + more);
  if (!all) {
    free(flat);
    (void)message_fail("out of memory");
    return NULL;
  }
  char *p = all + ((const audit_policy_t *)(const void *)all)->size;
  memcpy(p, source->text, own);
  p += own;
  for (size_t i = 0; i < policy->bases.count; i++) {
    const policy_source_t *base = &policy->bases.items[i];
    *p++ = 0;
    memcpy(p, base->text, base->size);
    p += base->size;
  }
  *size = (size_t)(p - all);
  return (audit_policy_t *)(void *)all;
}

audit_policy_t *policy_file_compile(const char *name, size_t *size) {
  policy_source_t source;
  policy_t *policy = policy_file_read(name, time(NULL), &source);
  if (!policy) return NULL;
  audit_policy_t *flat = compile(policy, &source, size);
  free((char *)(uintptr_t)source.text);
  policy_free(policy);
  return flat;
}
