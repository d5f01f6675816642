/* SPDX-License-Identifier: MIT
 *
 * Whether a process may be attached to. Reads /proc only.
 */
#ifndef SONDE_ATTACH_PERMIT_H
#define SONDE_ATTACH_PERMIT_H

#include "target/target.h"

/* False with PROBLEM, the reason and the remedy, if PID cannot be attached to. READER as of
 * access_check. */
bool permit_check(pid_t pid, pid_t *reader, problem_t *problem);

/* False with PROBLEM if a thread of PID has a seccomp filter. */
bool permit_check_filters(pid_t pid, problem_t *problem);

#endif
