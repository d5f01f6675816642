/* SPDX-License-Identifier: MIT
 *
 * What the files of os/linux share among themselves, and what tests turn to reach a second way.
 */
#ifndef SONDE_OS_LINUX_INTERNAL_H
#define SONDE_OS_LINUX_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Set once process_vm_readv has been refused; tests set it to force the second way. */
extern bool linux_read_by_probe;

/* The CPU clocks of threads: 0 not looked at yet, 1 fine, 2 too coarse or absent, as tests say. */
extern uint32_t linux_cpu_clock;

/* /proc/…/schedstat: 0 not looked at yet, 1 counts, 2 does not, as tests say. */
extern uint32_t linux_schedstat;

/* Whether a call that a question interrupts is restarted: the program's own handler of the signal
 * may have been installed to end calls, and ours, in front of it, does as it did. */
bool linux_signal_restarts(void);

/* Set by tests: images are found by the loader's list even where it has _dl_find_object. */
extern bool linux_by_list;

/* A line of /proc/PID/maps without its end; the name stays in LINE. */
struct os_region;
bool linux_parse_region(const char *line, struct os_region *out);

/* The kernel's own timespec: 64-bit on both machines. */
struct kernel_timespec {
  int64_t seconds;
  int64_t nanoseconds;
};

/* Takes the clock of the vDSO into use, which costs a fifth of a system call. */
struct dynamic;
void linux_clock_init(const struct dynamic *vdso_symbols);

#endif
