/* SPDX-License-Identifier: MIT
 *
 * What happened in a crash, in words and as a kind: the signal, the message of the C library, an
 * exception, the stack, and what the pointers point to (analysis/crash_blocks.h).
 */
#ifndef SONDE_REPORT_CRASH_H
#define SONDE_REPORT_CRASH_H

#include "analysis/crash_blocks.h"
#include "report/report.h"

/* X(name, key in JSON). The data prove every kind; what they do not prove is CRASH_OTHER. */
#define CRASH_KINDS(X)                                                                             \
  X(CRASH_OTHER, "other")                                                                          \
  X(CRASH_NULL_POINTER, "null_pointer")                                                            \
  X(CRASH_STACK_OVERFLOW, "stack_overflow")                                                        \
  X(CRASH_USE_AFTER_FREE, "use_after_free")                                                        \
  X(CRASH_OVERFLOW, "overflow")                                                                    \
  X(CRASH_DOUBLE_FREE, "double_free")                                                              \
  X(CRASH_INVALID_FREE, "invalid_free")                                                            \
  X(CRASH_CORRUPTION, "heap_corruption")                                                           \
  X(CRASH_ASSERTION, "assertion")                                                                  \
  X(CRASH_EXCEPTION, "uncaught_exception")                                                         \
  X(CRASH_PANIC, "panic")                                                                          \
  X(CRASH_SMASHED_STACK, "stack_smashing")                                                         \
  X(CRASH_UNLOADED_LIBRARY, "unloaded_library")                                                    \
  X(CRASH_UNMAPPED_MEMORY, "unmapped_memory")                                                      \
  X(CRASH_ABORT, "abort")                                                                          \
  X(CRASH_SENT, "sent_signal")

typedef enum crash_kind {
#define CRASH_ENUM(name, key) name,
  CRASH_KINDS(CRASH_ENUM)
#undef CRASH_ENUM
} crash_kind_t;

const char *crash_kind_key(crash_kind_t kind);

/* The kind of CRASH. POINTERS come from crash_pointers_find. */
crash_kind_t report_crash_kind(const report_t *report, const crash_t *crash,
                               const crash_pointers_t *pointers);

enum { CRASH_TEXT_BYTES = 1024 };

/* Writes the cause to OUT, of CRASH_TEXT_BYTES, without a full stop: "SIGSEGV: write to unmapped
 * memory at 0x10, a null pointer plus 16". Returns OUT. */
char *report_crash_cause(const report_t *report, const crash_t *crash,
                         const crash_pointers_t *pointers, char *out);

/* Writes what POINTER points to: "rdi = 0x55… is in a 48-byte block that conn_new allocated and
 * conn_close freed 3.0 ms earlier on thread 7". "" if the place is unknown. Returns OUT. */
char *report_crash_pointer(const report_t *report, const crash_t *crash,
                           const crash_pointer_t *pointer, char *out);

#endif
