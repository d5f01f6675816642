/* SPDX-License-Identifier: MIT */
#include "cli/linux/start/load.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "recorder/start/launch.h"

/* A library beside the command. The last two members are written once. */
typedef struct library {
  const char *name, *entry, *content;
  const void *loaded;
  char problem[PATH_MAX + 256];
} library_t;

/* What ENTRY, the library's only function, returns. Its first member is the library's version. */
static const void *table_of(library_t *l, void *library, const char *path) {
  const char *const *(*entry)(void) = NULL;
  if (library) *(void **)&entry = dlsym(library, l->entry);
  if (!entry) {
    const char *why = dlerror();
    snprintf(l->problem, sizeof l->problem, "cannot load the %s: %s", l->content, why ? why : path);
    return NULL;
  }
  const char *const *table = entry();
  if (strcmp(*table, SONDE_VERSION) == 0) return table;
  snprintf(l->problem, sizeof l->problem,
           "the command has version " SONDE_VERSION ", but '%s' has %s", path, *table);
  return NULL;
}

/* RTLD_LAZY: a verb calls few of the libraries' functions. Where no file is beside the command, or
 * the loader was started with the command as an argument, the loader's folders are searched. */
static void load(library_t *l) {
  char path[PATH_MAX];
  bool beside = launch_find_library(l->name, path, sizeof path);
  if (!beside) snprintf(path, sizeof path, "%s", l->name);
  void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  if (library || beside)
    l->loaded = table_of(l, library, path);
  else
    snprintf(l->problem, sizeof l->problem, "%s is missing beside the command; build or install it",
             l->name);
}

static library_t verbs = {
    .name = VERBS_LIBRARY_NAME, .entry = VERBS_LIBRARY_ENTRY, .content = "verbs"};
static library_t policy = {
    .name = POLICY_LIBRARY_NAME, .entry = POLICY_LIBRARY_ENTRY, .content = "compiler of policies"};

static void begin_verbs(void) { load(&verbs); }

static void begin_policy(void) { load(&policy); }

const verbs_library_t *load_verbs(const char **error) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  (void)pthread_once(&once, begin_verbs);
  *error = verbs.problem;
  return verbs.loaded;
}

const policy_library_t *load_policy(const char **error) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  (void)pthread_once(&once, begin_policy);
  *error = policy.problem;
  return policy.loaded;
}
