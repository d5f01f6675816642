/* SPDX-License-Identifier: MIT
 *
 * What `sonde leaks` prints: what was lost, by the stack that allocated it; or what points to one
 * block.
 */
#ifndef SONDE_REPORT_LEAKS_LEAKS_H
#define SONDE_REPORT_LEAKS_LEAKS_H

#include "analysis/malloc/leaks.h"
#include "report/report.h"

/* The word that holds a block, said so that a person finds it. */
typedef struct leaks_place {
  leaks_holder_t holder; /* words of thread-local storage told from the rest of a stack */
  uint32_t tid;          /* of a stack, a register or thread-local storage; else 0 */
  const char *thread;    /* its name; "" where it is not known */
  char where[320];       /* "rbx", "libfoo.so+0x4010", "160 bytes above the stack pointer" */
} leaks_place_t;

/* PID is of the program, which still runs: its mappings name the places. */
void leaks_place(const report_t *report, const leaks_t *leaks, pid_t pid,
                 const leaks_referrer_t *referrer, leaks_place_t *out);

/* What holds a block of kind HOLDER: "data", "stack", … */
const char *leaks_holder_word(leaks_holder_t holder);

void leaks_text(const report_t *report, const leaks_t *leaks, FILE *out);
json_object *leaks_json(const report_t *report, const leaks_t *leaks, pid_t pid);

/* BLOCK and what points to it. */
void leaks_block_text(const report_t *report, const leaks_t *leaks, pid_t pid,
                      const leaks_block_t *block, FILE *out);
json_object *leaks_block_json(const report_t *report, const leaks_t *leaks, pid_t pid,
                              const leaks_block_t *block);

#endif
