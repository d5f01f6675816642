/* SPDX-License-Identifier: MIT
 *
 * When the recorder and the report say that the children of a command were not recorded.
 */
#ifndef SONDE_BASE_CHILDREN_H
#define SONDE_BASE_CHILDREN_H

#include <stdbool.h>
#include <stdint.h>

/* A wrapper script that starts one program uses less CPU time. */
#define CHILDREN_WRAPPER_NS UINT64_C(20000000)

/* True if the command used little CPU time itself, or not much more than its children. Most
 * programs run a small helper or two, which nobody misses. An audit misses them: one call may be
 * what it searches, whatever its time. */
static inline bool children_matter(bool is_audit, uint64_t own_cpu_ns, uint64_t children_cpu_ns) {
  return is_audit || own_cpu_ns < CHILDREN_WRAPPER_NS || children_cpu_ns >= own_cpu_ns / 2;
}

#endif
