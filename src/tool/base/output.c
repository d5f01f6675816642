/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/message.h"

#define LINKS_MAX 40 /* as in path_resolution(7) */

static bool fail(const char *path) {
  const char *why = errno == ESTALE ? "another file took its place meanwhile" : strerror(errno);
  return message_fail("cannot create '%s': %s", path, why), false;
}

static bool is_below_proc(const char *path) { return !strncmp(path, "/proc/", 6); }

/* Writes the folder of PATH, with its slash, to FOLDER of PATH_MAX bytes; "./" for a bare name. */
static void folder_of(const char *path, char *folder) {
  const char *slash = strrchr(path, '/');
  if (slash)
    snprintf(folder, PATH_MAX, "%.*s", (int)(slash - path + 1), path);
  else
    strcpy(folder, "./");
}

/* Whether LINK belongs to a user who could have left it in PATH's folder as a trap. */
static bool is_trap(const char *path, const struct stat *link) {
  char name[PATH_MAX];
  struct stat folder;
  folder_of(path, name);
  return link->st_uid != geteuid() && stat(name, &folder) == 0 &&
         (folder.st_mode & (S_ISVTX | S_IWOTH)) == (S_ISVTX | S_IWOTH) &&
         folder.st_uid != link->st_uid;
}

/* Replaces the symbolic link PATH, of PATH_MAX bytes, by what it names. False with errno. */
static bool follow_once(char *path) {
  char text[PATH_MAX], joined[2 * PATH_MAX];
  ssize_t n = readlink(path, text, sizeof text - 1);
  if (n < 0) return false;
  text[n] = 0;
  folder_of(path, joined);
  if (text[0] == '/') joined[0] = 0;
  strcat(joined, text);
  if (strlen(joined) >= PATH_MAX) return errno = ENAMETOOLONG, false;
  strcpy(path, joined);
  return true;
}

/* Whether the symbolic link PATH, of PATH_MAX bytes, stands for an open file, as /dev/fd/1. PATH is
 * then the link below /proc. */
static bool is_open_file(char *path) {
  char folder[PATH_MAX], whole[PATH_MAX];
  if (is_below_proc(path)) return true;
  folder_of(path, folder);
  const char *name = strrchr(path, '/');
  if (!realpath(folder, whole) || strncmp(whole, "/proc/", 6) != 0 || !name ||
      strlen(whole) + strlen(name) >= PATH_MAX)
    return false;
  strcat(whole, name);
  strcpy(path, whole);
  return true;
}

/* Follows the symbolic links at the end of TARGET, of PATH_MAX bytes. A link below /proc stands for
 * an open file and is kept. *EXISTS tells whether a file is there, whose attributes are in FILE. */
static bool resolve(const char *path, char *target, struct stat *file, bool *exists) {
  for (int links = 0; links < LINKS_MAX; links++) {
    *exists = lstat(target, file) == 0;
    if (!*exists) return errno == ENOENT || fail(path);
    if (!S_ISLNK(file->st_mode)) return true;
    if (is_open_file(target)) return stat(target, file) == 0 || fail(path);
    if (is_trap(target, file)) {
      (void)message_fail("cannot create '%s': '%s' is a symbolic link of another user in a folder "
                         "that all may write to; name another file",
                         path, target);
      return false;
    }
    if (!follow_once(target)) return fail(path);
  }
  errno = ELOOP;
  return fail(path);
}

static bool create(output_t *out, const char *name, mode_t mode) {
  out->fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW, mode);
  return out->fd >= 0;
}

/* Gives FD the permissions of OLD. If OLD is of another user or group, those whom FD's own
 * permissions exclude stay excluded. */
static bool keep_permissions(int fd, const struct stat *old) {
  struct stat now;
  if (fstat(fd, &now) < 0) return false;
  mode_t kept = now.st_mode & old->st_mode & 0777;
  if (now.st_uid == old->st_uid) {
    bool has_group = now.st_gid == old->st_gid || fchown(fd, (uid_t)-1, old->st_gid) == 0;
    kept = (old->st_mode & (has_group ? 0777 : 0707)) | (kept & 0070);
  }
  return fchmod(fd, kept) == 0;
}

/* A new file that will replace OLD. It is created with no more permissions than it will have. */
static bool create_part(output_t *out, const struct stat *old, mode_t mode) {
  int n = snprintf(out->part, sizeof out->part, "%s.%d.part", out->target, (int)getpid());
  if (n >= (int)sizeof out->part) return errno = ENAMETOOLONG, false;
  out->created = create(out, out->part, mode & old->st_mode);
  return out->created && keep_permissions(out->fd, old);
}

int output_open_same(const char *path, const struct stat *file, int flags) {
  struct stat now;
  if (!is_below_proc(path)) flags |= O_NOFOLLOW;
  int fd = open(path, flags | O_CLOEXEC | O_NOCTTY);
  if (fd < 0 && errno == ELOOP) errno = ESTALE;
  if (fd < 0 || (fstat(fd, &now) == 0 && now.st_dev == file->st_dev && now.st_ino == file->st_ino))
    return fd;
  close(fd);
  return errno = ESTALE, -1;
}

/* A pipe that has a reader is opened for writing alone. A writer that could also read it would wait
 * for itself when the reader ends. A named pipe without a reader keeps what fits into it: whoever
 * puts one there does not make sonde wait. */
static int open_pipe(const output_t *out, const struct stat *old) {
  int fd = output_open_same(out->target, old, O_WRONLY | O_NONBLOCK);
  if (fd < 0)
    return errno == ENXIO && !is_below_proc(out->target)
               ? output_open_same(out->target, old, O_RDWR)
               : -1;
  if (fcntl(fd, F_SETFL, 0) == 0) return fd;
  close(fd);
  return -1;
}

static bool open_in_place(output_t *out, const struct stat *old) {
  if (S_ISFIFO(old->st_mode)) return (out->fd = open_pipe(out, old)) >= 0;
  out->fd = output_open_same(out->target, old, O_RDWR);
  if (out->fd < 0 && errno != EISDIR) out->fd = output_open_same(out->target, old, O_WRONLY);
  return out->fd >= 0 && (!S_ISREG(old->st_mode) || ftruncate(out->fd, 0) == 0);
}

static bool open_default(output_t *out, mode_t mode) {
  out->created = create(out, out->path, mode);
  if (out->created || errno != EEXIST) return out->created || fail(out->path);
  return message_fail("'%s' exists; remove it, or name a file with -o", out->path), false;
}

static bool open_target(output_t *out, const struct stat *old, mode_t mode) {
  if (!old) return out->created = create(out, out->target, mode);
  if (S_ISREG(old->st_mode) && !is_below_proc(out->target)) return create_part(out, old, mode);
  return open_in_place(out, old);
}

bool output_open_checked(output_t *out, const char *path, bool is_default, mode_t mode,
                         output_check_t check, void *context) {
  struct stat old;
  bool exists;
  *out = (output_t){.path = path, .fd = -1};
  if ((size_t)snprintf(out->target, sizeof out->target, "%s", path) >= sizeof out->target)
    return errno = ENAMETOOLONG, fail(path);
  if (is_default) return open_default(out, mode);
  if (!resolve(path, out->target, &old, &exists)) return false;
  if (exists && check && !check(context, out->target, &old)) return false;
  if (open_target(out, exists ? &old : NULL, mode)) return true;
  (void)fail(path);
  output_discard(out);
  if (out->fd >= 0) close(out->fd);
  out->fd = -1;
  return false;
}

bool output_open(output_t *out, const char *path, bool is_default, mode_t mode) {
  return output_open_checked(out, path, is_default, mode, NULL, NULL);
}

bool output_commit(output_t *out) {
  if (out->part[0] && rename(out->part, out->target) < 0) return fail(out->path);
  out->part[0] = 0;
  out->created = false;
  return true;
}

void output_discard(output_t *out) {
  if (out->created) unlink(out->part[0] ? out->part : out->target);
  out->part[0] = 0;
  out->created = false;
}

FILE *output_open_stream(output_t *out, const char *path, bool is_default, mode_t mode) {
  if (!output_open(out, path, is_default, mode)) return NULL;
  FILE *stream = fdopen(out->fd, "w");
  if (stream) return stream;
  (void)fail(path);
  output_discard(out);
  close(out->fd);
  return NULL;
}

int output_close_stream(output_t *out, FILE *stream, int status) {
  bool failed = ferror(stream);
  if (fclose(stream) != 0) failed = true;
  if (status == 0 && failed)
    status = message_fail("cannot write '%s': %s", out->path, strerror(errno ? errno : EIO));
  if (status == 0 && !output_commit(out)) status = MESSAGE_FAILED;
  output_discard(out);
  return status;
}
