/* SPDX-License-Identifier: MIT
 *
 * The errors that both systems have, whose numbers differ: facts.c tells Apple's, posix.c this
 * system's.
 */
#define ERRORS(X)                                                                                  \
  X(EPERM)                                                                                         \
  X(ENOENT)                                                                                        \
  X(ESRCH)                                                                                         \
  X(EINTR)                                                                                         \
  X(EIO)                                                                                           \
  X(EBADF)                                                                                         \
  X(ENOMEM)                                                                                        \
  X(EACCES)                                                                                        \
  X(EFAULT)                                                                                        \
  X(EBUSY)                                                                                         \
  X(EEXIST)                                                                                        \
  X(EINVAL)                                                                                        \
  X(EMFILE)                                                                                        \
  X(ENOTTY)                                                                                        \
  X(ENOSPC) X(EPIPE) X(EAGAIN) X(EDEADLK) X(ENOSYS) X(ETIMEDOUT) X(ENOTSUP) X(ENAMETOOLONG)
