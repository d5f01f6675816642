/* SPDX-License-Identifier: MIT
 *
 * Arbitrary header lines of a reply, one to a line of the input: a pause is negative only if none
 * is asked for, and a status line forgets what came before it.
 */
#include <stdlib.h>
#include <string.h>

#include "store/http/header.h"

enum { NOW = 1700000000 };

/* Stands for curl_getdate, which is not sonde's: dates before and after NOW, and none. */
static time_t date(const char *text, const time_t *unused) {
  (void)unused;
  return *text == 'S' ? NOW + (time_t)strlen(text) : *text == 'M' ? NOW / 2 : -1;
}

/* The line is copied, so that a read behind it is found. */
static void take(const uint8_t *line, size_t size, http_reply_t *reply) {
  char *copy = malloc(size ? size : 1);
  if (!copy) abort();
  memcpy(copy, line, size);
  header_take(copy, size, NOW, date, reply);
  if (!(reply->wait_s >= 0) && reply->wait_s != -1) abort();
  if (size > 5 && !memcmp(copy, "HTTP/", 5) && (reply->wait_s != -1 || reply->grpc_status != -1))
    abort();
  free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  http_reply_t reply = {.wait_s = -1, .grpc_status = -1};
  for (size_t at = 0; at < size;) {
    const uint8_t *end = memchr(data + at, '\n', size - at);
    size_t length = end ? (size_t)(end - data) - at + 1 : size - at;
    take(data + at, length, &reply);
    at += length;
  }
  return 0;
}
