/* SPDX-License-Identifier: MIT
 *
 * HTTP of a build without libcurl: it opens nothing.
 */
#include <stdio.h>

#include "store/http/http.h"

http_t *http_new(char *error, size_t error_size) {
  snprintf(error, error_size, "this sonde was built without libcurl");
  return NULL;
}

/* Nothing below is called, since there is no connection. */
void http_free(http_t *http) { (void)http; }

void http_post(http_t *http, const http_request_t *request, http_reply_t *reply) {
  (void)http;
  (void)request;
  (void)reply;
}

void http_reply_free(http_reply_t *reply) { (void)reply; }
