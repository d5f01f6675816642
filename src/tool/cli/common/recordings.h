/* SPDX-License-Identifier: MIT
 *
 * The recordings that arguments name: files, and in folders all files NAME.sonde, at any depth.
 */
#ifndef SONDE_CLI_COMMON_RECORDINGS_H
#define SONDE_CLI_COMMON_RECORDINGS_H

#include "base/array.h"

typedef struct recordings {
  ARRAY(char *) paths;
} recordings_t;

/* Adds what PATH names; of a folder, in the order of names. Symbolic links in folders are not
 * followed. On failure prints an error and returns false. */
bool recordings_add(recordings_t *recordings, const char *path);
void recordings_free(recordings_t *recordings);

#endif
