/* SPDX-License-Identifier: MIT
 *
 * What `sonde why` says: findings, each a sentence with its evidence, most important first.
 *
 * A finding with `is_note` states a fact that helps to start, such as where the CPU time goes. It
 * is no fault: a program with notes alone is healthy.
 */
#ifndef SONDE_ANALYSIS_WHY_FINDING_H
#define SONDE_ANALYSIS_WHY_FINDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(name, key). The key is the member `kind` in JSON. */
#define WHY_KIND_TABLE(X)                                                                          \
  X(WHY_CRASH, "crash")                                                                            \
  X(WHY_DEADLOCK, "deadlock")                                                                      \
  X(WHY_KILLED, "killed")                                                                          \
  X(WHY_BUSY_LOOP, "busy-loop")                                                                    \
  X(WHY_CONVOY, "lock-convoy")                                                                     \
  X(WHY_STALL, "stall")                                                                            \
  X(WHY_LEAK, "leak")                                                                              \
  X(WHY_GROWTH, "growth")                                                                          \
  X(WHY_DESCRIPTORS, "descriptor-leak")                                                            \
  X(WHY_WAKEUPS, "wake-ups")                                                                       \
  X(WHY_DISK, "disk-waits")                                                                        \
  X(WHY_STARVED, "starvation")                                                                     \
  X(WHY_THREADS, "thread-growth")                                                                  \
  X(WHY_EXCEPTIONS, "exceptions")                                                                  \
  X(WHY_COPIES, "copies")                                                                          \
  X(WHY_HANG, "hang")                                                                              \
  X(WHY_ZOMBIES, "zombies")                                                                        \
  X(WHY_BLOCKED, "blocked")                                                                        \
  X(WHY_TEMPORARY, "temporary-allocations")                                                        \
  X(WHY_RESIDENT, "resident-memory")                                                               \
  X(WHY_AUDIT, "sensitive-call")                                                                   \
  X(WHY_LIMIT, "resource-limit")                                                                   \
  X(WHY_LOST, "missing-data")                                                                      \
  X(WHY_QUEUED, "waits-for-cpu")                                                                   \
  X(WHY_CPU, "cpu")

typedef enum why_kind {
#define WHY_KIND_ENUM(name, key) name,
  WHY_KIND_TABLE(WHY_KIND_ENUM)
#undef WHY_KIND_ENUM
} why_kind_t;

const char *why_kind_key(why_kind_t kind);

/* A function, as far as it is known. The strings live as long as the source of the names. */
typedef struct why_function {
  const char *name;    /* never NULL */
  const char *file;    /* NULL: unknown */
  uint32_t line;       /* 0: unknown */
  const char *library; /* file name of its image; "": none */
  const char *path;    /* of its image; "": none */
  bool own;            /* the authors of the program wrote it (report/own_code.h) */
  bool known;          /* NAME is a name, not an address */
} why_function_t;

bool why_same_function(const why_function_t *a, const why_function_t *b);

/* Writes the short name, and "(file:line)" if known, to OUT. Returns OUT. */
#define WHY_NAME_MAX 160
char *why_function_text(const why_function_t *function, char out[WHY_NAME_MAX]);

typedef struct finding {
  why_kind_t kind;
  bool is_note;
  /* Ranks findings: 100 ends the program or its work, 50 halves its speed, 0 has no effect. */
  double score;
  char what[900];      /* a sentence without its period */
  char advice[200];    /* an imperative clause */
  char evidence[200];  /* figures */
  const char *section; /* of the report that shows them; NULL: see `command` */
  const char *command; /* another command that shows them, with %s for the file or PID; or NULL */
  const why_function_t *culprit; /* NULL: unknown */
  uint32_t tid;                  /* 0: the whole process */
  uint64_t since_ns;             /* from the start of the recording */
  double amount;
  const char *unit; /* of AMOUNT: "s", "bytes", "descriptors"; NULL: none */
} finding_t;

enum { WHY_FINDINGS_MAX = 64, WHY_SHOWN_MAX = 5 };

typedef struct findings_list {
  finding_t items[WHY_FINDINGS_MAX];
  size_t count;
} findings_list_t;

/* Adds FINDING unless the list is full. */
void findings_list_add(findings_list_t *list, const finding_t *finding);

/* Sorts by score, faults before notes, and removes a finding that a higher one explains: the same
 * culprit and thread with an effect of that finding. */
void findings_list_rank(findings_list_t *list);

#endif
