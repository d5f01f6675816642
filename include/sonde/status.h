/* SPDX-License-Identifier: MIT
 *
 * Status codes. Every sonde function that can fail returns 0 (or a count, where it says so) on
 * success and one of these negative values on failure. errno is never touched.
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

/* One table gives the constants, the texts and the documentation: X(name, value, text). */
#define SONDE_STATUS_TABLE(X)                                                                      \
  X(SONDE_OK, 0, "done")                                                                           \
  X(SONDE_EINVAL, -1, "an argument is out of its range")                                           \
  X(SONDE_ENOMEM, -2, "no memory could be mapped")                                                 \
  X(SONDE_ENOTHREAD, -3, "no such thread, or it has ended")                                        \
  X(SONDE_EPERM, -4, "the system does not permit it")                                              \
  X(SONDE_ETIMEDOUT, -5, "the thread did not answer before the deadline")                          \
  X(SONDE_ERUNNING, -6, "the thread is running and may be neither stopped nor signalled")          \
  X(SONDE_EBLOCKED, -7, "the thread blocks or waits for the signal that would ask it")             \
  X(SONDE_EFAULT, -8, "memory could not be read")                                                  \
  X(SONDE_ENOTFOUND, -9, "nothing is known by that address, name or id")                           \
  X(SONDE_ESTRIPPED, -10, "the image has no symbol that covers the address")                       \
  X(SONDE_EUNSUPPORTED, -11, "not supported on this platform or for this file")                    \
  X(SONDE_EFORMAT, -12, "the file is not of the expected format, or is damaged")                   \
  X(SONDE_EIO, -13, "a file could not be read or written")                                         \
  X(SONDE_EFULL, -14, "a fixed table is full")                                                     \
  X(SONDE_EBUSY, -15, "interrupted at a point where the answer cannot be given")                   \
  X(SONDE_EUNINTERRUPTIBLE, -16, "the thread is stopped, or in a wait that no signal ends")

typedef enum sonde_status {
#define SONDE_STATUS_ENUM(name, value, text) name = value,
  SONDE_STATUS_TABLE(SONDE_STATUS_ENUM)
#undef SONDE_STATUS_ENUM
} sonde_status_t;

/* The text of a STATUS, without a full stop; "unknown status" for a value that is none. The text
 * is static. May be called anywhere, also in a signal handler. */
SONDE_API const char *sonde_strerror(int status);

#ifdef __cplusplus
}
#endif
#endif
