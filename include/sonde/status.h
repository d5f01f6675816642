/* SPDX-License-Identifier: MIT
 *
 * Status codes. A sonde function that can fail returns 0, or a count where its description says so,
 * and one of these negative values on failure. sonde never changes errno.
 */
#ifndef SONDE_STATUS_H
#define SONDE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SONDE_API __attribute__((visibility("default")))
#else
#define SONDE_API
#endif

/* The constants and their texts: X(name, value, text). */
#define SONDE_STATUS_TABLE(X)                                                                      \
  X(SONDE_OK, 0, "success")                                                                        \
  X(SONDE_EINVAL, -1, "an argument is out of range")                                               \
  X(SONDE_ENOMEM, -2, "out of memory")                                                             \
  X(SONDE_ENOTHREAD, -3, "no such thread, or it has ended")                                        \
  X(SONDE_EPERM, -4, "the system does not permit it")                                              \
  X(SONDE_ETIMEDOUT, -5, "the thread did not answer before the deadline")                          \
  X(SONDE_ERUNNING, -6, "the thread is running and may not be stopped or signaled")                \
  X(SONDE_EBLOCKED, -7, "the thread blocks or waits for the signal that requests its stack")       \
  X(SONDE_EFAULT, -8, "memory could not be read")                                                  \
  X(SONDE_ENOTFOUND, -9, "the address, name or id is unknown")                                     \
  X(SONDE_ESTRIPPED, -10, "the image has no symbol that covers the address")                       \
  X(SONDE_EUNSUPPORTED, -11, "not supported on this platform or for this file")                    \
  X(SONDE_EFORMAT, -12, "the file is not of the expected format, or is damaged")                   \
  X(SONDE_EIO, -13, "a file could not be read or written")                                         \
  X(SONDE_EFULL, -14, "a fixed table is full")                                                     \
  X(SONDE_EBUSY, -15, "called at a point where the result is not available")                       \
  X(SONDE_EUNINTERRUPTIBLE, -16, "the thread is stopped, or in a wait that no signal ends")

typedef enum sonde_status {
#define SONDE_STATUS_ENUM(name, value, text) name = value,
  SONDE_STATUS_TABLE(SONDE_STATUS_ENUM)
#undef SONDE_STATUS_ENUM
} sonde_status_t;

/* Returns the text of STATUS without a full stop; "unknown status" for any other value. The text is
 * static. May be called anywhere, also in a signal handler. */
SONDE_API const char *sonde_strerror(int status);

#ifdef __cplusplus
}
#endif
#endif
