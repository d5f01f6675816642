/* SPDX-License-Identifier: MIT */
#include "store/http/header.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The value of the line if it is named NAME, with a terminating 0; else NULL. */
static const char *value_of(const char *line, size_t size, const char *name, char *out,
                            size_t out_size) {
  size_t length = strlen(name);
  if (size <= length || strncasecmp(line, name, length) != 0 || line[length] != ':') return NULL;
  snprintf(out, out_size, "%.*s", (int)(size - length - 1), line + length + 1);
  return out + strspn(out, " \t");
}

/* RFC 9110, 10.2.3: seconds or a date. */
static double seconds_of(const char *value, time_t now,
                         time_t (*read_date)(const char *, const time_t *)) {
  char *end;
  long seconds = strtol(value, &end, 10);
  if (end != value) return seconds >= 0 ? (double)seconds : -1;
  time_t date = read_date(value, NULL);
  return date == -1 ? -1 : date > now ? (double)(date - now) : 0;
}

/* A reply may follow another one, such as "100 Continue", whose headers do not count. */
void header_take(const char *line, size_t size, time_t now,
                 time_t (*date)(const char *text, const time_t *unused), http_reply_t *reply) {
  char text[128];
  const char *value;
  if (size > 5 && !memcmp(line, "HTTP/", 5)) {
    reply->wait_s = -1;
    reply->grpc_status = -1;
  } else if ((value = value_of(line, size, "Retry-After", text, sizeof text))) {
    reply->wait_s = seconds_of(value, now, date);
  } else if ((value = value_of(line, size, "grpc-status", text, sizeof text))) {
    reply->grpc_status = (int)strtol(value, NULL, 10);
  }
}
