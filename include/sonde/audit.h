/* SPDX-License-Identifier: MIT
 *
 * Records calls of sensitive functions, with the calling stack and arguments.
 *
 * Under `sonde record` the calls go into that recording, whether libsonde is linked as a shared or
 * a static library. Otherwise they go into a recording of this program (sonde/malloc.h). `sonde
 * report FILE audit` reads both kinds of recording.
 *
 * sonde_audit_start and sonde_audit_stop take locks: call them from one thread at a time, never in
 * a signal handler or inside malloc. A forked child is audited only under `sonde record --audit
 * --follow`. No function changes errno.
 */
#ifndef SONDE_AUDIT_H
#define SONDE_AUDIT_H

#include <stddef.h>

#include "sonde/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Starts recording calls of the functions that POLICY names, in every image, including images
 * loaded later. POLICY is the output of `sonde audit compile`: SIZE bytes at an address divisible
 * by 4, which are copied. PATH names a new file. If a recording exists (under `sonde record`, or
 * after sonde_malloc_log_start), PATH is ignored and may be NULL. Returns 0; SONDE_EINVAL if POLICY
 * is not a policy or has another version; SONDE_EBUSY if an audit is active (`sonde record --audit`
 * starts one before main) or the recording has another policy; SONDE_EIO if the file exists or
 * cannot be created, or the recorder does not reply; SONDE_ENOMEM; SONDE_EUNSUPPORTED if functions
 * cannot be hooked (a static program, a hardware shadow stack). */
SONDE_API int sonde_audit_start(const void *policy, size_t size, const char *path);

/* Stops the audit and removes its hooks. If sonde_audit_start created the recording, closes it.
 * Returns 0; SONDE_ENOTFOUND without an audit; SONDE_EBUSY under `sonde record --audit`, whose
 * audit ends with the program; SONDE_EIO; SONDE_ETIMEDOUT if a thread does not finish its event
 * within five seconds. */
SONDE_API int sonde_audit_stop(void);

/* Records that the phase NAME of the policy begins (at most 1000 bytes are kept). The report lists
 * earlier calls that the policy denies until this phase. Any thread, also in a signal handler and
 * inside malloc.
 * Returns 0; SONDE_ENOTFOUND without a recording; SONDE_EINVAL for NULL. */
SONDE_API int sonde_audit_phase(const char *name);

#ifdef __cplusplus
}
#endif
#endif
