/* SPDX-License-Identifier: MIT
 *
 * libsonde-policy.so: the compiler of audit policies and the YAML library that it needs. `record
 * --audit` would otherwise load all verbs (verbs_library.h) with all of their libraries, which
 * takes twenty times as long.
 */
#ifndef SONDE_CLI_LINUX_POLICY_LIBRARY_H
#define SONDE_CLI_LINUX_POLICY_LIBRARY_H

#include "cli/common/policy_file.h"

#define POLICY_LIBRARY_NAME  "libsonde-policy.so"
#define POLICY_LIBRARY_ENTRY "sonde_policy"

typedef struct policy_library {
  const char *version; /* the first member in every version */
  /* the verb that the library's messages name */
  void (*set_verb)(const char *verb);
  audit_policy_t *(*compile)(const char *name, size_t *size);
} policy_library_t;

/* The one name that the library exports. */
__attribute__((visibility("default"))) const policy_library_t *sonde_policy(void);

#endif
