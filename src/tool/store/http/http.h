/* SPDX-License-Identifier: MIT
 *
 * HTTP requests to servers that users name. http.c is on libcurl; http_absent.c takes its place in
 * a build without it.
 *
 * Only http and https are spoken. Certificates and host names are verified. Redirects are not
 * followed, so that credentials reach only the host that the user named. One thread uses a
 * connection.
 */
#ifndef SONDE_STORE_HTTP_H
#define SONDE_STORE_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HTTP_ERROR_MAX = 256 };

typedef struct http http_t;

/* NULL: ERROR has one line. */
http_t *http_new(char *error, size_t error_size);
void http_free(http_t *http);

typedef struct http_request {
  const char *url;
  const char *const *headers; /* "Name: value", up to NULL */
  const char *certificates;   /* a file with those of authorities; NULL: those of the system */
  const uint8_t *body;
  size_t body_size;
  size_t reply_max; /* bytes of a reply that are kept; the rest is skipped */
  double seconds;   /* that the request may take */
} http_request_t;

/* It begins as zeros, can be used again, and is freed by http_reply_free. */
typedef struct http_reply {
  long status;       /* 0: there was no reply */
  bool is_permanent; /* without a reply: another try would fail too */
  bool is_cut;       /* the body is longer than reply_max, or memory ran out */
  double wait_s;     /* what Retry-After asks for; negative: nothing */
  int grpc_status;   /* of the headers; -1: there is none */
  uint8_t *body;     /* with a terminating 0 */
  size_t body_size, body_capacity;
  char error[HTTP_ERROR_MAX]; /* without a reply: why */
} http_reply_t;

void http_reply_free(http_reply_t *reply);

/* Sends the request as a POST. */
void http_post(http_t *http, const http_request_t *request, http_reply_t *reply);

#endif
