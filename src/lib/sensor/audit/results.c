/* SPDX-License-Identifier: MIT */
#include "sensor/audit/results.h"

#include <stdbool.h>

#include "base/bits.h"
#include "base/text.h"

/* Functions with a 64 at the end are those without. */
static const char *const ints[] = {
    "accept",       "accept4",       "access",     "bind",
    "chdir",        "chmod",         "chown",      "connect",
    "creat",        "dup",           "dup2",       "dup3",
    "epoll_create", "epoll_create1", "eventfd",    "faccessat",
    "fchdir",       "fchmod",        "fchmodat",   "fchown",
    "fchownat",     "fstatat",       "ftruncate",  "inotify_add_watch",
    "inotify_init", "inotify_init1", "kill",       "lchown",
    "link",         "linkat",        "listen",     "lstat",
    "memfd_create", "mkdir",         "mkdirat",    "mkfifo",
    "mkfifoat",     "mknod",         "mknodat",    "mkostemp",
    "mkostemps",    "mkstemp",       "mkstemps",   "mount",
    "open",         "__open_2",      "__open64_2", "openat",
    "__openat_2",   "__openat64_2",  "pidfd_open", "pipe",
    "pipe2",        "remove",        "rename",     "renameat",
    "renameat2",    "rmdir",         "setgid",     "setuid",
    "signalfd",     "socket",        "socketpair", "stat",
    "statx",        "symlink",       "symlinkat",  "timerfd_create",
    "truncate",     "unlink",        "unlinkat",   "utime",
    "utimes",       "__xstat",       "__lxstat",   "__fxstatat",
};

static const char *const pointers[] = {
    "fopen", "freopen", "fdopen", "tmpfile", "opendir", "fdopendir", "popen", "mkdtemp",
};

/* True if NAME is one of NAMES, or one of them with a 64 behind. */
static bool is_among(const char *const *names, uint32_t count, const char *name) {
  for (uint32_t i = 0; i < count; i++) {
    const char *rest = text_after(name, names[i]);
    if (rest && (!*rest || text_equal(rest, "64"))) return true;
  }
  return false;
}

audit_result_t audit_result_of(const char *name) {
  if (is_among(ints, ARRAY_COUNT(ints), name)) return AUDIT_INT_RESULT;
  return is_among(pointers, ARRAY_COUNT(pointers), name) ? AUDIT_POINTER_RESULT : AUDIT_NO_RESULT;
}
