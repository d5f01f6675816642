/* SPDX-License-Identifier: MIT */
#include "analysis/audit/results.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "reader/body.h"

/* ---- calls that have not returned ----------------------------------------------------------- */

static uint64_t hash_of_stream(const void *open, size_t i) {
  return hash_pair(((const audit_open_t *)open)->streams[i].stream, 0);
}

/* NULL when memory runs out. */
static audit_open_calls_t *calls_of(audit_open_t *o, uint32_t stream) {
  uint32_t *slot;
  if (!ARRAY_GROW(o->streams, o->count, o->capacity) ||
      !hash_reserve(&o->index, o->count, hash_of_stream, o))
    return NULL;
  HASH_FIND(&o->index, hash_pair(stream, 0), slot) {
    if (o->streams[*slot - 1].stream == stream) return &o->streams[*slot - 1];
  }
  o->streams[o->count] = (audit_open_calls_t){.stream = stream};
  *slot = (uint32_t)++o->count;
  return &o->streams[o->count - 1];
}

bool audit_open_call(audit_open_t *o, uint32_t stream, uint32_t function, uint32_t entry) {
  audit_open_calls_t *c = calls_of(o, stream);
  if (!c) return false;
  if (c->count == AUDIT_CALLS_OPEN) memmove(c->calls, c->calls + 1, --c->count * sizeof *c->calls);
  c->calls[c->count].function = function;
  c->calls[c->count++].entry = entry;
  return true;
}

static void add(call_results_t *r, int64_t value, uint32_t error) {
  if (error)
    call_results_add_failed(r, error, 1);
  else
    call_results_add_succeeded(r, value, false, 1);
}

void audit_add_result(audit_open_t *o, const record_event_t *e,
                      call_results_t *(*results_of)(void *context, uint32_t entry), void *context) {
  uint64_t n[3];
  audit_open_calls_t *c = calls_of(o, e->stream);
  if (!c || !body_numbers(e, n, 3)) return;
  for (uint32_t i = c->count; i-- > 0;) {
    if (c->calls[i].function != n[0]) continue;
    add(results_of(context, c->calls[i].entry), (int64_t)n[1] - 1, (uint32_t)n[2]);
    c->count = i; /* calls inside it have not returned and never will */
    return;
  }
}

void audit_open_free(audit_open_t *o) {
  free(o->streams);
  hash_free(&o->index);
}

/* ---- texts ---------------------------------------------------------------------------------- */

/* X(number, name, text): errno(3), of Linux on x86_64 and aarch64. */
#define ERRORS(X)                                                                                  \
  X(1, EPERM, "Operation not permitted")                                                           \
  X(2, ENOENT, "No such file or directory")                                                        \
  X(3, ESRCH, "No such process")                                                                   \
  X(4, EINTR, "Interrupted system call")                                                           \
  X(5, EIO, "Input/output error")                                                                  \
  X(6, ENXIO, "No such device or address")                                                         \
  X(9, EBADF, "Bad file descriptor")                                                               \
  X(10, ECHILD, "No child processes")                                                              \
  X(11, EAGAIN, "Resource temporarily unavailable")                                                \
  X(12, ENOMEM, "Cannot allocate memory")                                                          \
  X(13, EACCES, "Permission denied")                                                               \
  X(14, EFAULT, "Bad address")                                                                     \
  X(16, EBUSY, "Device or resource busy")                                                          \
  X(17, EEXIST, "File exists")                                                                     \
  X(18, EXDEV, "Invalid cross-device link")                                                        \
  X(19, ENODEV, "No such device")                                                                  \
  X(20, ENOTDIR, "Not a directory")                                                                \
  X(21, EISDIR, "Is a directory")                                                                  \
  X(22, EINVAL, "Invalid argument")                                                                \
  X(23, ENFILE, "Too many open files in system")                                                   \
  X(24, EMFILE, "Too many open files")                                                             \
  X(26, ETXTBSY, "Text file busy")                                                                 \
  X(27, EFBIG, "File too large")                                                                   \
  X(28, ENOSPC, "No space left on device")                                                         \
  X(30, EROFS, "Read-only file system")                                                            \
  X(31, EMLINK, "Too many links")                                                                  \
  X(32, EPIPE, "Broken pipe")                                                                      \
  X(36, ENAMETOOLONG, "File name too long")                                                        \
  X(38, ENOSYS, "Function not implemented")                                                        \
  X(39, ENOTEMPTY, "Directory not empty")                                                          \
  X(40, ELOOP, "Too many levels of symbolic links")                                                \
  X(88, ENOTSOCK, "Socket operation on non-socket")                                                \
  X(92, ENOPROTOOPT, "Protocol not available")                                                     \
  X(93, EPROTONOSUPPORT, "Protocol not supported")                                                 \
  X(95, EOPNOTSUPP, "Operation not supported")                                                     \
  X(97, EAFNOSUPPORT, "Address family not supported by protocol")                                  \
  X(98, EADDRINUSE, "Address already in use")                                                      \
  X(99, EADDRNOTAVAIL, "Cannot assign requested address")                                          \
  X(100, ENETDOWN, "Network is down")                                                              \
  X(101, ENETUNREACH, "Network is unreachable")                                                    \
  X(104, ECONNRESET, "Connection reset by peer")                                                   \
  X(106, EISCONN, "Transport endpoint is already connected")                                       \
  X(107, ENOTCONN, "Transport endpoint is not connected")                                          \
  X(110, ETIMEDOUT, "Connection timed out")                                                        \
  X(111, ECONNREFUSED, "Connection refused")                                                       \
  X(113, EHOSTUNREACH, "No route to host")                                                         \
  X(114, EALREADY, "Operation already in progress")                                                \
  X(115, EINPROGRESS, "Operation now in progress")                                                 \
  X(122, EDQUOT, "Disk quota exceeded")

const char *audit_error_name(uint32_t number, const char **text) {
  const char *ignored, **out = text ? text : &ignored;
  switch (number) {
#define ERROR_CASE(number, name, words)                                                            \
  case number: *out = words; return #name;
    ERRORS(ERROR_CASE)
#undef ERROR_CASE
  default: *out = ""; return NULL;
  }
}

static void put_error(uint32_t number, char *out, size_t size) {
  const char *text, *name = audit_error_name(number, &text);
  if (name)
    snprintf(out, size, "%s (%s)", name, text);
  else
    snprintf(out, size, "errno %" PRIu32, number);
}

char *audit_results_text(const call_results_t *r, audit_result_t kind, char *out, size_t size) {
  char error[96];
  bool is_int = kind == AUDIT_INT_RESULT;
  *out = 0;
  if (r->failed) put_error(r->errors[0].number, error, sizeof error);
  if (r->failed && r->succeeded)
    snprintf(out, size, "; %" PRIu64 " of %" PRIu64 " failed: %s%s", r->failed,
             r->failed + r->succeeded, error, r->errors[1].calls ? ", …" : "");
  else if (r->failed)
    snprintf(out, size, " = %s %s%s", is_int ? "-1" : "NULL", error,
             r->errors[1].calls ? ", …" : "");
  else if (r->succeeded && is_int)
    snprintf(out, size, " = %" PRId64 "%s", r->value, r->varies ? ", …" : "");
  return out;
}
