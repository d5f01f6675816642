/* SPDX-License-Identifier: MIT
 *
 * Prints the result of `sonde leaks`: leaked blocks by the stack that allocated them, or the
 * references to one block.
 */
#ifndef SONDE_REPORT_LEAKS_LEAKS_H
#define SONDE_REPORT_LEAKS_LEAKS_H

#include "analysis/malloc/leaks.h"
#include "report/report.h"

/* The place of a word that references a block. */
typedef struct leaks_place {
  leaks_holder_t holder; /* with thread-local storage distinguished from stacks and mappings */
  uint32_t tid;          /* of a stack, register or thread-local storage; else 0 */
  const char *thread;    /* its name; "" if unknown */
  char where[320];       /* "rbx", "libfoo.so+0x4010", "160 bytes above the stack pointer" */
} leaks_place_t;

/* Describes REFERRER. PID is the program, which still runs; its mappings name the places. */
void leaks_place(const report_t *report, const leaks_t *leaks, pid_t pid,
                 const leaks_referrer_t *referrer, leaks_place_t *out);

/* "register", "stack", "thread-local", "data", "mapping" or "block". */
const char *leaks_holder_name(leaks_holder_t holder);

/* What a total of leaked blocks consists of: ": 640 B in 40 blocks that nothing points to, the rest
 * reachable only from them". "" if nothing is INDIRECT. IN_CYCLES of the LOST blocks reference each
 * other. Returns TEXT. */
enum { LEAKS_PARTS_MAX = 160 };
const char *leaks_parts(counts_t lost, counts_t indirect, uint64_t in_cycles,
                        char text[LEAKS_PARTS_MAX]);

/* The result of the search at exit. Returns 0 or SONDE_ENOMEM. */
int leaks_at_end_text(const report_t *report, const leaks_at_end_t *end, FILE *out);
json_object *leaks_at_end_json(const report_t *report, const leaks_at_end_t *end);

/* Stacks that are printed alike are one row. Returns 0 or SONDE_ENOMEM. */
int leaks_text(const report_t *report, const leaks_t *leaks, FILE *out);
json_object *leaks_json(const report_t *report, const leaks_t *leaks, pid_t pid);

/* BLOCK and the references to it. */
void leaks_block_text(const report_t *report, const leaks_t *leaks, pid_t pid,
                      const leaks_block_t *block, FILE *out);
json_object *leaks_block_json(const report_t *report, const leaks_t *leaks, pid_t pid,
                              const leaks_block_t *block);

#endif
