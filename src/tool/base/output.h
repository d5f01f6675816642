/* SPDX-License-Identifier: MIT
 *
 * The rule by which every verb creates its output file.
 *
 *   - A default name must not exist yet. No symbolic link is followed.
 *   - A name that the user gave (-o) may exist. Symbolic links are followed, except those of other
 *     users in a sticky folder that all may write to (proc(5), protected_symlinks).
 *   - A regular file is replaced: the output goes to a new file beside it, NAME.PID.part, which is
 *     renamed when it is complete. A reader sees the old file or the new one.
 *   - Devices and pipes are written to. They are never replaced. If another file takes the place of
 *     one while it is opened, the verb fails.
 *
 * One thread uses an output. Errors are printed with message_fail.
 */
#ifndef SONDE_BASE_OUTPUT_H
#define SONDE_BASE_OUTPUT_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>

typedef struct output {
  /* as the user knows it; must stay valid until the end */
  const char *path;
  /* for reading and writing; -1: none. A device or a pipe may be open for writing only. */
  int fd;
  /* the new file; "" if the file is written in place */
  char part[PATH_MAX];
  /* the file that PART replaces, or the one that was created */
  char target[PATH_MAX];
  bool created;
} output_t;

/* Opens PATH for output. IS_DEFAULT: the user did not give this name. A new file has MODE, less the
 * umask. A file that replaces one of the same user has that one's permissions and group. A file
 * that replaces another user's has the permissions that both that one and a new file would have.
 * Prints an error and returns false on failure. */
bool output_open(output_t *out, const char *path, bool is_default, mode_t mode);

/* Whether TARGET, which is FILE, may be replaced or written to. Otherwise prints why. TARGET is no
 * symbolic link, or one below /proc. */
typedef bool (*output_check_t)(void *context, const char *target, const struct stat *file);

/* As output_open. If a file that the user named exists, it is left alone unless CHECK returns true
 * for it. */
bool output_open_checked(output_t *out, const char *path, bool is_default, mode_t mode,
                         output_check_t check, void *context);

/* Makes the output visible under its name: renames the new file. The descriptor stays open. Prints
 * an error and returns false on failure. The second call does nothing. */
bool output_commit(output_t *out);

/* Opens PATH, which was FILE when it was looked at: it follows no symbolic link, unless PATH is
 * below /proc. Returns -1 with errno; ESTALE: it is another file now. */
int output_open_same(const char *path, const struct stat *file, int flags);

/* As output_open, for a stream, which output_close_stream closes. NULL on failure. */
FILE *output_open_stream(output_t *out, const char *path, bool is_default, mode_t mode);

/* Closes STREAM. STATUS is that of the verb so far. If it is 0 and everything was written, makes
 * the output visible. Otherwise removes it. Returns STATUS, or MESSAGE_FAILED after an error. */
int output_close_stream(output_t *out, FILE *stream, int status);

/* Removes what output_open created and output_commit did not make visible. The descriptor stays
 * open. */
void output_discard(output_t *out);

#endif
