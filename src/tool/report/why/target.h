/* SPDX-License-Identifier: MIT
 *
 * The facts for `sonde why` about a running process or a core file.
 *
 * A process is observed from outside: its stacks are read again and again, as `sonde stacks` does,
 * and the kernel's counters of each thread at the start and the end.
 */
#ifndef SONDE_REPORT_WHY_TARGET_H
#define SONDE_REPORT_WHY_TARGET_H

#include "report/why/why.h"

enum { WHY_ERROR_MAX = 512 };

/* Explains process PID, or the core file PATH if PID is 0. EXE: the program that dumped core; NULL:
 * unknown. NAMING says where files are searched. WHY begins as zeros. False: failed, ERROR says
 * why. */
bool why_target(why_report_t *why, long pid, const char *path, const char *exe,
                const frame_names_options_t *naming, char error[WHY_ERROR_MAX]);

/* Whether the file PATH is an ELF core file. */
bool why_is_core(const char *path);

#endif
