/* SPDX-License-Identifier: MIT
 *
 * Arbitrary replies to pushed profiles: the first byte chooses the protocol, the second the status,
 * the rest is the body. What is printed is one line of text without the secrets.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "store/push/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *secrets[] = {"Bearer t0p-s3kret", "s3cr3t"};
  static const long statuses[] = {200, 202, 400, 401, 429, 503};
  char error[512] = "";
  if (size < 2) return 0;
  push_target_t target = {.protocol = (push_protocol_t)(data[0] % 3)};
  target.secrets.items = secrets;
  target.secrets.count = sizeof secrets / sizeof *secrets;
  http_reply_t reply = {.status = statuses[data[1] % (sizeof statuses / sizeof *statuses)],
                        .grpc_status = -1,
                        .body_size = size - 2,
                        .body = malloc(size - 1)};
  if (!reply.body) abort();
  memcpy(reply.body, data + 2, size - 2);
  reply.body[size - 2] = 0;
  if (reply_judge(&target, &reply, error, sizeof error) != REPLY_TAKEN && !*error) abort();
  for (const char *c = error; *c; c++)
    if (!isprint((unsigned char)*c)) abort();
  if (strstr(error, "s3cr3t") || strstr(error, "t0p-s3kr")) abort();
  free(reply.body);
  return 0;
}
