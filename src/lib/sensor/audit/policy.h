/* SPDX-License-Identifier: MIT
 *
 * A policy in flat form: which functions are audited, which of their arguments are recorded, and
 * which calls match. The command compiles it from YAML (analysis/audit/policy.h), so the program
 * contains no parser. The program checks all bounds once and then follows the offsets.
 *
 * One block of memory, little endian: header, functions, rules, globs (offsets of strings),
 * strings. A rule is the interest of one category in one function. It matches a call if the
 * function's first text argument matches one of its globs and none of its exceptions. A call is
 * recorded if a rule of its function matches.
 */
#ifndef SONDE_SENSOR_AUDIT_POLICY_H
#define SONDE_SENSOR_AUDIT_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bits.h"

#define AUDIT_POLICY_MAGIC 0x31647561u /* "aud1" */
#define AUDIT_POLICY_MAX   (1u << 20)  /* bytes of the whole block */
/* The calling convention passes these in registers. */
#define AUDIT_ARGUMENTS 6
/* Bytes of a text argument that are recorded. */
#define AUDIT_TEXT_MAX 255u

/* The kinds of arguments. X(name, value, word in a policy) */
#define AUDIT_ARGUMENT_TABLE(X)                                                                    \
  X(AUDIT_SKIP, 0, "-")                                                                            \
  X(AUDIT_TEXT, 1, "text")       /* a string that the function itself reads */                     \
  X(AUDIT_PATH, 2, "path")       /* a string that the function may pass to the kernel */           \
  X(AUDIT_NUMBER, 3, "number")   /* an int */                                                      \
  X(AUDIT_FLAGS, 4, "flags")     /* shown in hexadecimal */                                        \
  X(AUDIT_ADDRESS, 5, "address") /* a struct sockaddr, its size in the next argument */            \
  X(AUDIT_STRINGS, 6, "strings") /* an array of strings that ends with NULL */                     \
  X(AUDIT_PROCESS, 7, "process") /* an int, another process: no call with the own one is recorded  \
                                  */                                                               \
  X(AUDIT_HASHED_TEXT, 8, "hashed-text")                                                           \
  X(AUDIT_HASHED_PATH, 9, "hashed-path")                                                           \
  X(AUDIT_HASHED_ADDRESS, 10, "hashed-address")                                                    \
  X(AUDIT_HASHED_STRINGS, 11, "hashed-strings")

typedef enum audit_argument {
#define AUDIT_ARGUMENT_ENUM(name, value, word) name = value,
  AUDIT_ARGUMENT_TABLE(AUDIT_ARGUMENT_ENUM)
#undef AUDIT_ARGUMENT_ENUM
      AUDIT_ARGUMENT_KINDS
} audit_argument_t;

static inline bool audit_is_text(uint8_t kind) { return kind == AUDIT_TEXT || kind == AUDIT_PATH; }

/* Of these a hash is recorded, and what is hashed is as of the plain kind. */
static inline bool audit_is_hashed(uint8_t kind) { return kind >= AUDIT_HASHED_TEXT; }

static inline uint8_t audit_plain(uint8_t kind) {
  static const uint8_t plain[] = {AUDIT_TEXT, AUDIT_PATH, AUDIT_ADDRESS, AUDIT_STRINGS};
  return audit_is_hashed(kind) ? plain[kind - AUDIT_HASHED_TEXT] : kind;
}

/* A function's name may be an Objective-C method, "-[Class selector:]", or a glob of such names;
 * the argument, if any, is then the name of the called method. */
static inline bool audit_is_method(const char *name) { return *name == '-' || *name == '+'; }

typedef struct audit_function {
  uint32_t name, library; /* strings; a library is a glob of its file's name, "" for any */
  uint32_t first_rule, rules;
  uint8_t arguments[AUDIT_ARGUMENTS]; /* audit_argument_t */
  uint8_t text;                       /* the first text argument, or AUDIT_ARGUMENTS */
  uint8_t always;                     /* a rule without globs: every call is recorded */
} audit_function_t;

typedef struct audit_rule {
  uint32_t category; /* its number in the policy */
  uint32_t first_glob, globs;
  uint32_t first_exception, exceptions;
} audit_rule_t;

typedef struct audit_policy {
  uint32_t magic, size; /* of the whole block */
  uint32_t functions, function_count;
  uint32_t rules, rule_count;
  uint32_t globs, glob_count;
  uint32_t strings, strings_size; /* the last byte is 0 */
} audit_policy_t;

/* True if SIZE bytes at POLICY, 4-byte aligned, are a policy with every offset in bounds. */
bool audit_policy_valid(const void *policy, uint64_t size);

/* How many innermost frames of a stack are recorded, at most AUDIT_DEPTH_MAX; 0: all. Behind the
 * header of policies that have functions further away than that; older ones begin there. */
#define AUDIT_DEPTH_MAX 64u
static inline uint32_t audit_depth(const audit_policy_t *p) {
  const uint32_t *behind = (const uint32_t *)(p + 1);
  return p->functions >= sizeof *p + sizeof *behind ? *behind : 0;
}

static inline const audit_function_t *audit_functions(const audit_policy_t *p) {
  return (const audit_function_t *)((const char *)p + p->functions);
}

static inline const audit_rule_t *audit_rules(const audit_policy_t *p) {
  return (const audit_rule_t *)((const char *)p + p->rules);
}

static inline const char *audit_string(const audit_policy_t *p, uint32_t offset) {
  return (const char *)p + p->strings + offset;
}

/* Makes "/proc/self…" of "/proc/PID…", which is no other process. TEXT is in AUDIT_TEXT_SIZE bytes.
 * Globs match the result. */
#define AUDIT_TEXT_SIZE (AUDIT_TEXT_MAX + 1 + 3)
void audit_own_path(char *text, uint64_t pid);

/* True if RULE matches a call whose first text argument is TEXT ("": none). */
bool audit_rule_holds(const audit_policy_t *policy, const audit_rule_t *rule, const char *text);

/* True if a rule of FUNCTION matches. */
bool audit_wants(const audit_policy_t *policy, const audit_function_t *function, const char *text);

#endif
