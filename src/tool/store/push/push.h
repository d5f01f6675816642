/* SPDX-License-Identifier: MIT
 *
 * Pushes the profiles of recordings to a server: CPU time, waits, and allocated and live memory by
 * stack. docs/privacy.md lists what is sent.
 *
 * A profile of many stacks is divided into requests of at most PUSH_STACKS_MAX, one after the
 * other, so memory is bounded. A request that a server cannot take now is sent again, with growing
 * pauses, for a limited time.
 */
#ifndef SONDE_STORE_PUSH_PUSH_H
#define SONDE_STORE_PUSH_PUSH_H

#include "report/exports/profile/source.h"
#include "report/frame_names.h"
#include "store/push/target.h"

enum { PUSH_STACKS_MAX = 4096, PUSH_ERROR_MAX = 1024 };

typedef struct push push_t;

typedef struct push_limits {
  double retry_s;   /* a request is sent again for so long */
  double request_s; /* a request without a complete reply fails; at least 0.001 */
  /* Waits SECONDS before a request is sent again. While it returns true, tries have no end; RETRY_S
   * then counts from its first false, and it must return at once. NULL: they have an end. */
  bool (*wait)(void *context, double seconds);
  void *wait_context;
} push_limits_t;

/* TARGET must outlive it. NULL: ERROR has one line. */
push_t *push_new(const push_target_t *target, const push_limits_t *limits, char *error,
                 size_t error_size);
void push_free(push_t *push);

typedef struct push_counts {
  uint64_t profiles, stacks, requests, retries, bytes;
} push_counts_t;

typedef enum push_result {
  PUSH_DONE,
  PUSH_EMPTY,  /* the recording has nothing to push */
  PUSH_FAILED, /* the server, or memory ran out */
} push_result_t;

/* Sends what READER's program recorded, and adds what the server took to COUNTS. Unless the result
 * is PUSH_DONE, ERROR has one line. */
push_result_t push_recording(push_t *push, reader_t *reader, frame_names_t *names,
                             push_counts_t *counts, char *error, size_t error_size);

/* What a part of a recording has, of its nanoseconds FROM_NS to TO_NS. */
typedef struct push_part {
  reader_t *reader;
  frame_names_t *names;
  const profile_source_t *source;
  uint64_t from_ns, to_ns;
} push_part_t;

/* The same of a part of a recording. */
push_result_t push_part(push_t *push, const push_part_t *part, push_counts_t *counts, char *error,
                        size_t error_size);

/* The name of the service of READER's program: the label service.name, or "unknown_service:" and
 * the name of the program, as OpenTelemetry's conventions say. */
void push_service(const push_target_t *target, const reader_t *reader, char *out, size_t out_size);

/* The pause before try number ATTEMPT (2, 3, …) of a request. It doubles from a second to half a
 * minute; CHANCE, from 0 to 1, takes up to a half of it. A server may ask for a longer one,
 * ASKED_S; negative: it does not. */
double push_pause_s(unsigned attempt, double asked_s, double chance);

#endif
