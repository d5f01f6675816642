/* SPDX-License-Identifier: MIT
 *
 * The verdict of a seccomp filter on a system call that has not been made yet (seccomp(2)). Pure
 * functions: no memory is allocated, and the time is bounded for any program.
 */
#ifndef SONDE_OS_LINUX_CALLS_FILTER_H
#define SONDE_OS_LINUX_CALLS_FILTER_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>

/* A system call as a filter sees it. */
typedef struct filter_call {
  uint32_t number, machine; /* machine: AUDIT_ARCH_… of linux/audit.h */
  uint64_t pc;
  uint64_t arguments[6];
  uint8_t known;   /* bit I: argument I is known */
  bool pc_unknown; /* PC is not known */
} filter_call_t;

/* The machine of this process. */
#if defined(__x86_64__)
#define FILTER_MACHINE 0xc000003eu
#else
#define FILTER_MACHINE 0xc00000b7u
#endif

/* True if the kernel accepts the program as a seccomp filter. */
bool filter_is_valid(const struct sock_filter *program, uint32_t count);

/* The value that a valid program returns for CALL: SECCOMP_RET_… . If it depends on unknown
 * arguments, the most severe of the possible values, in the kernel's order. A program with too many
 * paths counts as one that kills. */
uint32_t filter_verdict(const struct sock_filter *program, uint32_t count,
                        const filter_call_t *call);

/* True if the kernel then performs the call, and nothing else sees it. */
bool filter_verdict_allows(uint32_t verdict);

#endif
