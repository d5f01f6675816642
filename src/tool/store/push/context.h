/* SPDX-License-Identifier: MIT
 *
 * The process context of OpenTelemetry (OTEP 4719, in development): the attributes of its resource
 * that a running program publishes in its memory, in a mapping with the name OTEL_CTX. The mapping
 * has a header, which points to a protobuf message Resource.
 *
 * The program may change it at any time: a copy counts only if the header is the same after it.
 * What was read is untrusted. To read it needs the right to trace the program.
 */
#ifndef SONDE_STORE_PUSH_CONTEXT_H
#define SONDE_STORE_PUSH_CONTEXT_H

#include <sys/types.h>

#include "store/push/target.h"

/* Reads the context of process PID into the `context` labels of TARGET, instead of those before:
 * texts and whole numbers; other values are left out. False: it has none that can be read, and the
 * labels are as they were. */
bool push_context_read(push_target_t *target, pid_t pid);

/* Decodes a message Resource, as push_context_read. */
bool push_context_decode(push_target_t *target, const uint8_t *message, size_t size);

#endif
