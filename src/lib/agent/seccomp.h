/* SPDX-License-Identifier: MIT
 *
 * Seccomp filters of the program (seccomp(2)): see seccomp.c.
 */
#ifndef SONDE_AGENT_SECCOMP_H
#define SONDE_AGENT_SECCOMP_H

#include <stdbool.h>
#include <stdint.h>

/* A filter that the program is about to install. */
typedef struct seccomp_change {
  struct call_set *forbids; /* NULL: the kernel will refuse the filter */
  uint32_t effects;         /* SECCOMP_STOPS_…, of all filters so far */
  uint32_t mode;            /* what was recorded before */
  bool traced;              /* calls were traced */
} seccomp_change_t;

/* Called before the system call that installs a filter, and after it. PROGRAM is a struct
 * sock_fprog of the program; NULL: strict mode. */
void seccomp_before(seccomp_change_t *change, const void *program);
void seccomp_after(seccomp_change_t *change, bool installed);

/* Called first of all, before any other system call of sonde (os/linux/init.c, agent_start). If the
 * program started under a filter that is unknown, only system calls that its loader has made are
 * allowed from now on. */
__attribute__((visibility("hidden"))) void os_before_start(void);
/* For an attached agent, before anything else at each start: the command has read COUNT filters,
 * which forbid the rows of the table where FORBIDDEN is 1. */
void seccomp_take(uint32_t count, const uint8_t *forbidden);

/* True if nothing can be recorded for that reason. */
bool seccomp_is_unknown(void);
/* Called when the recording of this process has begun, before sensors start. */
void seccomp_attached(void);

/* The environment variable that describes the filters to a program that this process executes; its
 * value, or "" if there are none. */
#define AGENT_SECCOMP "SONDE_SECCOMP"
const char *seccomp_hint(void);

#endif
