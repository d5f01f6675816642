/* SPDX-License-Identifier: MIT
 *
 * The memory of a policy's strings and arrays; policy_free releases all of it.
 */
#ifndef SONDE_ANALYSIS_AUDIT_POLICY_MEMORY_H
#define SONDE_ANALYSIS_AUDIT_POLICY_MEMORY_H

#include "analysis/audit/policy.h"

/* Copies SIZE bytes of TEXT and adds a 0. NULL when memory runs out. */
char *policy_copy(policy_t *policy, const char *text, size_t size);

/* Makes space for one more than the COUNT items of EACH bytes; the space doubles at powers of two.
 * The items move to the result; NULL when memory runs out. */
void *policy_grow(policy_t *policy, void *items, size_t count, size_t each);

#endif
