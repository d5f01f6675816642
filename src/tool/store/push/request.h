/* SPDX-License-Identifier: MIT
 *
 * The request that carries a part of a profile, and what a reply to it means. No network.
 */
#ifndef SONDE_STORE_PUSH_REQUEST_H
#define SONDE_STORE_PUSH_REQUEST_H

#include "report/exports/profile/rows.h"
#include "report/frame_names.h"
#include "store/http/http.h"
#include "store/push/target.h"

typedef struct request_source {
  const push_target_t *target;
  const reader_t *reader;
  frame_names_t *names;
} request_source_t;

/* The body of the request with the rows FROM to TO, exclusive, of *SIZE bytes, which the caller
 * frees. NULL: out of memory. */
uint8_t *request_body(const request_source_t *source, const profile_rows_t *rows, size_t from,
                      size_t to, size_t *size);

/* The headers of the protocol, up to NULL. */
const char *const *request_headers(push_protocol_t protocol);

typedef enum reply_verdict {
  REPLY_TAKEN,
  REPLY_LATER,   /* the server cannot take it now */
  REPLY_REFUSED, /* it never will */
} reply_verdict_t;

/* Judges REPLY. Unless it is REPLY_TAKEN, ERROR says why. */
reply_verdict_t reply_judge(const push_target_t *target, const http_reply_t *reply, char *error,
                            size_t error_size);

#endif
