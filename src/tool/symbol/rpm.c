/* SPDX-License-Identifier: MIT
 *
 * Uses librpm's query interface (rpmts.h, rpmdb.h, header.h), loaded at run time: the database has
 * had four formats, and only librpm reads all of them. See rpm.h.
 */
#include "symbol/rpm.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TAG_NAME          1000 /* RPMTAG_NAME */
#define TAG_INSTFILENAMES 5040 /* RPMTAG_INSTFILENAMES, as a key: paths of installed files */

struct rpm {
  void *library, *transaction;
  int (*read_config)(const char *, const char *);
  int (*define_macro)(void *, const char *, int);
  void *(*create)(void);
  int (*set_root)(void *, const char *);
  void *(*iterate)(const void *, int, const void *, size_t);
  void *(*next)(void *);
  void *(*end_iteration)(void *);
  const char *(*get_string)(void *, int);
  void *(*release)(void *);
};

/* The folder of the database below ROOT, or NULL. */
static const char *database_folder(const char *root) {
  static const char *const folders[] = {"/usr/lib/sysimage/rpm", "/var/lib/rpm"};
  static const char *const files[] = {"rpmdb.sqlite", "Packages.db", "Packages"};
  char path[4096];
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
    for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
      size_t size = (size_t)snprintf(path, sizeof path, "%s%s/%s", root, folders[i], files[k]);
      if (size < sizeof path && access(path, R_OK) == 0) return folders[i];
    }
  return NULL;
}

static bool load(rpm_t *rpm) {
  static const char *const names[] = {"librpm.so.10", "librpm.so.9", "librpm.so.8"};
  for (size_t i = 0; !rpm->library && i < sizeof names / sizeof *names; i++)
    rpm->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  if (!rpm->library) return false;
#define LOAD(field, name) *(void **)&rpm->field = dlsym(rpm->library, name)
  LOAD(read_config, "rpmReadConfigFiles");
  LOAD(define_macro, "rpmDefineMacro");
  LOAD(create, "rpmtsCreate");
  LOAD(set_root, "rpmtsSetRootDir");
  LOAD(iterate, "rpmtsInitIterator");
  LOAD(next, "rpmdbNextIterator");
  LOAD(end_iteration, "rpmdbFreeIterator");
  LOAD(get_string, "headerGetString");
  LOAD(release, "rpmtsFree");
#undef LOAD
  return rpm->read_config && rpm->define_macro && rpm->create && rpm->set_root && rpm->iterate &&
         rpm->next && rpm->end_iteration && rpm->get_string && rpm->release;
}

/* Sets the folder explicitly: this librpm may come from another distribution than ROOT, with
 * another default. */
static bool open_database(rpm_t *rpm, const char *root, const char *folder) {
  char macro[64];
  snprintf(macro, sizeof macro, "_dbpath %s", folder);
  if (rpm->read_config(NULL, NULL) != 0 || rpm->define_macro(NULL, macro, 0) != 0) return false;
  rpm->transaction = rpm->create();
  return rpm->transaction && rpm->set_root(rpm->transaction, *root ? root : "/") == 0;
}

rpm_t *rpm_open(const char *root) {
  const char *folder = database_folder(root);
  rpm_t *rpm = folder ? calloc(1, sizeof *rpm) : NULL;
  if (!rpm) return NULL;
  if (load(rpm) && open_database(rpm, root, folder)) return rpm;
  rpm_close(rpm);
  return NULL;
}

/* librpm has threads and exit handlers, so it stays loaded. */
void rpm_close(rpm_t *rpm) {
  if (!rpm) return;
  if (rpm->transaction) rpm->release(rpm->transaction);
  free(rpm);
}

bool rpm_owner(rpm_t *rpm, const char *path, char *out, size_t size) {
  void *iterator = rpm->iterate(rpm->transaction, TAG_INSTFILENAMES, path, 0);
  void *header = iterator ? rpm->next(iterator) : NULL;
  const char *name = header ? rpm->get_string(header, TAG_NAME) : NULL;
  bool found = name && strlen(name) < size;
  if (found) strcpy(out, name);
  if (iterator) rpm->end_iteration(iterator);
  return found;
}
