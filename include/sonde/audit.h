/* SPDX-License-Identifier: MIT
 *
 * The audit, from inside the program: which sensitive functions are called, and by whom.
 *
 * Under `sonde record` it goes into that recording, whether libsonde was linked as a shared or a
 * static library; else into one of the program's own, as sonde/malloc.h has it. It is read with
 * `sonde report FILE audit`.
 *
 * These functions take locks and may not be called in a signal handler or inside malloc, nor two of
 * them at a time; sonde_audit_phase may be called anywhere. A forked child is not audited, but with
 * `sonde record --audit --follow`. Nothing here changes errno.
 */
#ifndef SONDE_AUDIT_H
#define SONDE_AUDIT_H

#include <stddef.h>

#include "sonde/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* From now on calls of the functions that POLICY names are recorded, in every image, those loaded
 * later too. POLICY: the SIZE bytes that `sonde audit compile` writes, at an address that is a
 * multiple of 4; they are copied. PATH: the recording, which must not exist; not used, and may be
 * NULL, when there is one already (under `sonde record`, or after sonde_malloc_log_start).
 * Returns 0; SONDE_EINVAL when it is no policy, or one of another version; SONDE_EBUSY when an
 * audit is in force (under `sonde record --audit` it is, from the start), or the recording holds
 * another policy; SONDE_EIO when the file exists or cannot be made, or the recorder does not
 * answer; SONDE_ENOMEM; SONDE_EUNSUPPORTED where functions cannot be hooked (a static program, a
 * hardware shadow stack). */
SONDE_API int sonde_audit_start(const void *policy, size_t size, const char *path);

/* Ends it: the hooks are taken away, and a recording that sonde_audit_start has begun is closed.
 * Returns 0; SONDE_ENOTFOUND without an audit; SONDE_EBUSY under `sonde record --audit`, which ends
 * with the program; SONDE_EIO; SONDE_ETIMEDOUT when a thread does not get on for five seconds. */
SONDE_API int sonde_audit_stop(void);

/* The phase NAME of the policy begins (at most 1000 bytes count): calls before it that the policy
 * denies until then were too early. Any thread, signal handlers too. Returns 0; SONDE_EINVAL;
 * SONDE_ENOTFOUND when nothing is recorded. */
SONDE_API int sonde_audit_phase(const char *name);

#ifdef __cplusplus
}
#endif
#endif
