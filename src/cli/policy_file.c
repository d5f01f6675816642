/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "cli/policy_file.h"

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
    (void)cli_fail("cannot read the policy '%s': %s; its own policies are linux and apple", path,
                   strerror(errno));
    if (file) fclose(file);
    free(text);
    return NULL;
  }
  *size = fread(text, 1, FILE_MAX_BYTES + 1, file);
  const char *why = ferror(file) ? strerror(errno) : NULL;
  if (!why && *size > FILE_MAX_BYTES) why = "it is larger than 1 MB";
  fclose(file);
  if (!why) return text;
  (void)cli_fail("cannot read the policy '%s': %s", path, why);
  free(text);
  return NULL;
}

policy_t *policy_file_read(const char *name, time_t today, policy_source_t *out) {
  char error[512];
  policy_source_t source = {.name = name};
  const policy_source_t *builtin = policy_builtin(name);
  char *text = builtin ? strndup(builtin->text, builtin->size) : read_whole(name, &source.size);
  if (!text) return NULL;
  source.text = text;
  policy_t *policy = policy_read(builtin ? builtin : &source, NULL, today, error, sizeof error);
  if (builtin) source.size = builtin->size;
  if (!policy) (void)cli_fail("%s", error);
  if (policy && out)
    *out = source;
  else
    free(text);
  return policy;
}
