/* SPDX-License-Identifier: MIT
 *
 * libsonde-verbs.so: all verbs, and the libraries that they need. The command itself needs libc
 * alone, so that `sonde record` starts, forks and ends in less time; it loads this library for
 * other verbs, and for the parts of `record` that few recordings use (start/).
 *
 * The library contains what the command contains, once more. Neither uses names of the other.
 */
#ifndef SONDE_CLI_LINUX_VERBS_LIBRARY_H
#define SONDE_CLI_LINUX_VERBS_LIBRARY_H

#include "attach/object.h"
#include "cli/linux/record_push.h"
#include "image/image.h"
#include "recorder/recorder.h"

#define VERBS_LIBRARY_NAME  "libsonde-verbs.so"
#define VERBS_LIBRARY_ENTRY "sonde_verbs"

typedef struct verbs_library {
  const char *version; /* the first member in every version */
  int (*run)(int argc, char **argv);
  /* the verb that the library's messages name */
  void (*set_verb)(const char *verb);
  /* for `record --push` and `--leaks` */
  const char *(*check_push)(const record_push_t *push);
  void (*search_at_exit)(recording_t *recording, const char *path, leaks_exchange_t *exchange,
                         uint64_t size, int32_t error);
  /* for files that libelf reads */
  section_t (*unpack_debug_frame)(const char *path);
  bool (*open_object)(object_t *object, const char *path, problem_t *problem);
} verbs_library_t;

/* The one name that the library exports. */
__attribute__((visibility("default"))) const verbs_library_t *sonde_verbs(void);

#endif
