/* SPDX-License-Identifier: MIT
 *
 * The file in which a process names its generated code: where it is, whether it can be trusted, and
 * what was added to it.
 *
 * Any user can create files in /tmp. A file is read only if it is a regular file of the process's
 * user or of root, was written since the process started, and is not reached through a symbolic
 * link. Paths are those of the process: its root folder may be a container's. The folder stays
 * open, so that the file can be read after the process has ended. One thread uses a jit_files_t.
 */
#ifndef SONDE_TARGET_JIT_FILE_H
#define SONDE_TARGET_JIT_FILE_H

#include <limits.h>
#include <sys/types.h>

#include "target/jit/parse.h"

typedef struct jit_files {
  pid_t pid;
  /* as the process sees itself */
  pid_t inner;
  /* the folders of the process; -1: unknown */
  int root_fd, cwd_fd;
  uid_t user, effective_user;
  /* of CLOCK_REALTIME, when the process started; 0: unknown */
  uint64_t start_ns;
  /* the jitdump file that the process has mapped; "": none seen */
  char mapped[PATH_MAX];
  /* the file that was read last, as the process sees its path; "": none. Why a file that is there
   * was not read; NULL: it was */
  char path[PATH_MAX];
  const char *problem;
  /* of that file: which one, how far it was read, and when */
  dev_t device;
  ino_t inode;
  uint64_t offset, read_ns;
  bool is_dump;
  jit_parse_t parse;
} jit_files_t;

/* INNER is the pid as the process sees itself; 0 or less: unknown, taken as PID. */
void jit_files_open(jit_files_t *files, pid_t pid, pid_t inner);
void jit_files_close(jit_files_t *files);

/* Looks for the folders and for a mapped jitdump file again, as long as the process runs. */
void jit_files_refresh(jit_files_t *files);

/* Adds to JIT what the file has got since the last call. NOW_NS is of CLOCK_MONOTONIC. Returns
 * whether there is a file. */
bool jit_files_read(jit_files_t *files, jit_t *jit, uint64_t now_ns);

#endif
