/* SPDX-License-Identifier: MIT
 *
 * How the test program says what it found: a line a check, "ok" or "FAILED", and a count.
 */
#ifndef CHECK_H
#define CHECK_H

#include <stdbool.h>
#include <stdint.h>

/* For captures of all threads: a machine that is busy elsewhere gets through them late. */
#define PATIENCE_NS UINT64_C(300000000000)

void check(bool good, const char *what);
int checks_failed(void);
int checks_made(void);
void say(const char *text);

/* Does the symbol at PC have that name? */
bool is_named(uintptr_t pc, const char *name);

/* Are NAMES, up to a NULL, among the frames in this order, one right behind the other? */
bool has_chain(const uintptr_t *pcs, int count, const char *const *names);

void check_stacks(void);
void run_stops(int count, uint64_t seed);
void run_signals(int count, uint64_t seed);
void check_threads(void);
void check_hooks(const char *late);     /* the path of a library to load */
void check_messages(const char *trace); /* where it goes */
void run_regions(void);                 /* regions.c */
void check_loop(void);
void check_cpu(void);
void check_async(void);
void check_locks(void);
void check_ns_thread(void);
void check_suspended(const char *log); /* where the log goes; NULL: none */
void misbehave(const char *what);
void check_log(const char *folder, bool is_private); /* where the logs go; what the library uses */
void check_apple_log(const char *folder, bool is_private); /* the same of Apple's log */

/* What `sonde audit compile` wrote; where the recordings go; the path of a library to load. */
void check_audit(const char *policy, const char *folder, const char *late);

#endif
