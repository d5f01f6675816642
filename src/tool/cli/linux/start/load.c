/* SPDX-License-Identifier: MIT */
#include "cli/linux/start/load.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "recorder/start/launch.h"

/* Written once. */
static const verbs_library_t *loaded;
static char problem[PATH_MAX + 256];

/* RTLD_LAZY: a verb calls few of the libraries' functions. Where no file is beside the command, or
 * the loader was started with the command as an argument, the loader's folders are searched. */
static void load(void) {
  char path[PATH_MAX];
  bool beside = launch_find_verbs(path, sizeof path);
  if (!beside) snprintf(path, sizeof path, VERBS_LIBRARY_NAME);
  void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  if (!library && !beside) {
    snprintf(problem, sizeof problem,
             VERBS_LIBRARY_NAME " is missing beside the command; build or install it");
    return;
  }
  const verbs_library_t *(*entry)(void) = NULL;
  if (library) *(void **)&entry = dlsym(library, VERBS_LIBRARY_ENTRY);
  if (!entry) {
    const char *why = dlerror();
    snprintf(problem, sizeof problem, "cannot load the verbs: %s", why ? why : path);
    return;
  }
  const verbs_library_t *verbs = entry();
  if (strcmp(verbs->version, SONDE_VERSION) == 0)
    loaded = verbs;
  else
    snprintf(problem, sizeof problem, "the command has version " SONDE_VERSION ", but '%s' has %s",
             path, verbs->version);
}

const verbs_library_t *load_verbs(const char **error) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  (void)pthread_once(&once, load);
  *error = problem;
  return loaded;
}
