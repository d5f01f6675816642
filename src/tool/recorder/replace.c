/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "recorder/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/message.h"
#include "record/format.h"
#include "recorder/liveness.h"

static bool refuse(const char *path, const char *why) {
  return message_fail("'%s' %s", path, why), false;
}

/* FD is open for reading PATH, the regular FILE. */
static bool may_replace_file(int fd, const char *path, const struct stat *file, bool force) {
  record_header_t h;
  bool is_recording =
      pread(fd, &h, sizeof h, 0) == sizeof h && !memcmp(h.magic, RECORD_MAGIC, sizeof h.magic);
  if (is_recording && h.state == RECORD_OPEN && liveness_is_written(file, &h))
    return refuse(path, "is a recording that is still being written; name another file with -o");
  return is_recording || force ||
         refuse(path, "exists and is not a recording; --force replaces it");
}

typedef struct request {
  /* as the user knows it */
  const char *path;
  bool force, follow;
} request_t;

static bool may_replace(void *context, const char *target, const struct stat *file) {
  const request_t *q = context;
  if (!S_ISREG(file->st_mode))
    return !q->follow ||
           refuse(q->path, "is not a regular file; --follow needs a file beside which those "
                           "of the children are created");
  if (file->st_size == 0) return true;
  int fd = output_open_same(target, file, O_RDONLY | O_NONBLOCK);
  if (fd < 0) return q->force || refuse(q->path, "cannot be read; --force replaces it");
  bool good = may_replace_file(fd, q->path, file, q->force);
  close(fd);
  return good;
}

void replace_default(char *out, size_t size, const char *command, pid_t pid) {
  const char *slash = strrchr(command, '/');
  snprintf(out, size, "%s.%d.sonde", slash ? slash + 1 : command, (int)pid);
  unsigned old = orphans_remove_old(out);
  if (old)
    message_note("removed %u recording%s of '%s' that had not been finished for a day", old,
                 old == 1 ? "" : "s", command);
}

bool replace_open(output_t *out, const char *path, bool is_default, bool force, bool follow) {
  request_t request = {path, force, follow};
  if (!output_open_checked(out, path, is_default, 0600, may_replace, &request)) return false;
  if (lseek(out->fd, 0, SEEK_CUR) >= 0 || errno != ESPIPE) return true;
  output_discard(out);
  close(out->fd);
  return refuse(path, "is a pipe or a terminal; a recording needs a file");
}
