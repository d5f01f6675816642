/* SPDX-License-Identifier: MIT
 *
 * The viewers that `sonde view --with` starts. A program that is installed gets the file. A viewer
 * that is a page on the network gets the file from a server on loopback (linux/serve.h); the
 * recording does not leave this machine. One thread uses these functions.
 */
#ifndef SONDE_CLI_COMMON_VIEWER_H
#define SONDE_CLI_COMMON_VIEWER_H

#include <stdbool.h>

#define VIEWER_WORDS "firefox|speedscope|heaptrack|kcachegrind"

typedef struct viewer {
  const char *name, *format, *suffix;  /* as `sonde export --as` takes it; of the file */
  const char *programs[2];             /* the first that is installed shows the file */
  const char *package;                 /* of the programs */
  const char *origin, *before_escaped; /* of the page: before the URL of the file; NULL: no page */
  bool is_gzip;
} viewer_t;

/* NULL: no viewer has this name. */
const viewer_t *viewer_named(const char *name);

/* Writes a file to PATH. Returns the status of the verb. */
typedef int viewer_write_fn(void *context, const char *path);

/* Calls WRITE and shows the file until the viewer ends, or until SIGINT, SIGTERM or SIGHUP. The
 * file is OUTPUT, which is kept; NULL: a file in a private folder, which is removed. For a viewer
 * that is a page, prints its address and opens it in the browser. Returns the status of the verb.
 */
int viewer_show(const viewer_t *viewer, const char *output, viewer_write_fn *write, void *context);

#endif
