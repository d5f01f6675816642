/* SPDX-License-Identifier: MIT
 *
 * Declarations shared by the files of os/linux. Tests set some of these variables to force the
 * fallback of a system call.
 */
#ifndef SONDE_OS_LINUX_INTERNAL_H
#define SONDE_OS_LINUX_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* True after process_vm_readv has failed with EPERM or ENOSYS: memory is then probed before it is
 * read. */
extern bool linux_read_by_probe;

/* True while no system call may test memory: the addresses of the loader's list are then read
 * directly. See calls/forbidden.h. */
extern bool linux_memory_is_trusted;

/* The CPU clocks of threads: 0 not tested yet, 1 fine enough, 2 too coarse or absent. */
extern uint32_t linux_cpu_clock;

/* /proc/…/schedstat: 0 not tested yet, 1 counts, 2 does not count. */
extern uint32_t linux_schedstat;

/* Returns true if the kernel restarts a call that a request interrupts. The program may have
 * installed its handler without SA_RESTART, and sonde's handler then uses the same flag. */
bool linux_signal_restarts(void);

/* The kernel's struct sigaction, the same on both machines (asm-generic/signal.h). */
typedef struct linux_action {
  uint64_t handler; /* 0: default, 1: ignore */
  uint64_t flags;
  uint64_t restorer;
  uint64_t mask;
} linux_action_t;

/* If HANDLER is one that sonde has installed for requests, writes the action that it replaced, the
 * program's own. Returns false if it is none. Any thread, also in a signal handler. */
bool linux_signal_replaced(uint64_t handler, linux_action_t *theirs);

/* The program has set the action of SIGURG, and not to ignore it. If requests were prepared,
 * installs sonde's handler in front of it; not if that could end a system call of the program with
 * EINTR. */
void linux_signal_was_set(void);

/* Set by tests: images are found by the loader's list although _dl_find_object exists. */
extern bool linux_by_list;

/* Copies memory after a probe of each page: for memory that no other thread unmaps. Returns as
 * os_read_memory, and takes a tenth of its time. */
ssize_t linux_read_probed(uint64_t address, void *out, size_t size);

/* From BEGINS to the next call, this thread neither creates a thread nor loads or unloads an image.
 * If the process has no other thread, the loader's list is then read by probes. */
void linux_loader_still(bool begins);

/* Adds a mapping of sonde's to the list of os_own_mappings. START 0: does nothing. */
void linux_list_own(uint64_t start, size_t size);

/* Parses a line of /proc/PID/maps without its newline. The name in OUT points into LINE. */
struct os_region;
bool linux_parse_region(const char *line, struct os_region *out);

/* The kernel's timespec: 64-bit on both CPUs. */
struct kernel_timespec {
  int64_t seconds;
  int64_t nanoseconds;
};

/* Makes os_monotonic_ns use the clock of the vDSO, which costs a fifth of a system call. */
struct dynamic;
void linux_clock_init(const struct dynamic *vdso_symbols);

/* The clock of the vDSO makes a system call on some machines. From now on it is not called. */
void linux_clock_forget(void);

#endif
