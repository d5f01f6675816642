/* SPDX-License-Identifier: MIT */
#include "store/clickhouse/client.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sonde/status.h"
#include "store/http/http.h"

enum {
  URL_MAX = 4096,
  HEADER_MAX = 512,
  ERROR_MAX = 400,
};

/* An answer to a query is in memory as a whole. */
#define ANSWER_MAX ((size_t)2 << 30)

struct clickhouse {
  http_t *http;
  address_t address;
  size_t server; /* which gets the requests */
  char user[HEADER_MAX], password[HEADER_MAX];
  const char *headers[3];
  http_reply_t reply;
  char error[ERROR_MAX];
};

static bool set_header(char *out, const char *name, const char *variable) {
  const char *value = getenv(variable);
  if (!value || !*value) return true;
  for (const char *at = value; *at; at++)
    if (iscntrl((unsigned char)*at)) return false;
  return snprintf(out, HEADER_MAX, "%s: %s", name, value) < HEADER_MAX;
}

clickhouse_t *clickhouse_new(const char *url, char *error, size_t error_size) {
  clickhouse_t *c = calloc(1, sizeof *c);
  const char *wrong = c ? address_read(&c->address, url) : "out of memory";
  size_t count = 0;
  if (!wrong && (!set_header(c->user, "X-ClickHouse-User", "CLICKHOUSE_USER") ||
                 !set_header(c->password, "X-ClickHouse-Key", "CLICKHOUSE_PASSWORD")))
    wrong = "CLICKHOUSE_USER or CLICKHOUSE_PASSWORD is malformed";
  if (wrong) snprintf(error, error_size, "%s", wrong);
  if (!wrong) c->http = http_new(error, error_size);
  if (!c || !c->http) {
    free(c);
    return NULL;
  }
  if (*c->user) c->headers[count++] = c->user;
  if (*c->password) c->headers[count++] = c->password;
  return c;
}

void clickhouse_free(clickhouse_t *c) {
  if (!c) return;
  http_free(c->http);
  http_reply_free(&c->reply);
  free(c);
}

const char *clickhouse_error(const clickhouse_t *c) { return c->error; }

bool clickhouse_refuse(clickhouse_t *c) {
  snprintf(c->error, sizeof c->error, "the answer is not one of a ClickHouse server");
  return false;
}

const address_t *clickhouse_address(const clickhouse_t *c) { return &c->address; }
void clickhouse_use(clickhouse_t *c, size_t server) { c->server = server; }

/* ---- requests ----------------------------------------------------------------------------- */

static void put_escaped(char *out, size_t size, const char *text) {
  size_t at = strlen(out);
  for (; *text && at + 4 < size; text++)
    at += (size_t)snprintf(out + at, size - at, isalnum((unsigned char)*text) ? "%c" : "%%%02X",
                           (unsigned char)*text);
}

/* The first line of what the server says, if it is text and does not repeat the password. */
static void describe(clickhouse_t *c) {
  const http_reply_t *r = &c->reply;
  const char *secret = *c->password ? strchr(c->password, ' ') + 1 : NULL;
  const char *said = r->status ? (const char *)r->body : r->error;
  bool is_text = said && *said && !(secret && strstr(said, secret));
  size_t size = is_text ? strcspn(said, "\r\n") : 0;
  for (size_t i = 0; i < size; i++)
    if ((unsigned char)said[i] < ' ') size = 0;
  int at = 0;
  if (c->address.servers > 1)
    at = snprintf(c->error, sizeof c->error, "%.100s: ", c->address.bases[c->server]);
  if (r->status)
    at += snprintf(c->error + at, sizeof c->error - (size_t)at, "HTTP status %ld%s", r->status,
                   size ? ": " : "");
  snprintf(c->error + at, sizeof c->error - (size_t)at, "%.*s", (int)(size < 250 ? size : 250),
           size ? said : "");
}

/* With wait_end_of_query, the status says whether the whole statement succeeded; with
 * insert_distributed_sync, that of an insertion says whether all shards have their rows. */
static bool post(clickhouse_t *c, const char *sql_of_url, bool is_global, const void *body,
                 size_t size, size_t reply_max) {
  char url[URL_MAX];
  *c->error = 0;
  snprintf(url, sizeof url, "%s?wait_end_of_query=1%s%s%s", c->address.bases[c->server],
           *c->address.cluster ? "&insert_distributed_sync=1" : "",
           is_global ? "" : "&database=", is_global ? "" : c->address.database);
  if (sql_of_url) {
    strcat(url, "&query=");
    put_escaped(url, sizeof url, sql_of_url);
  }
  const http_request_t request = {.url = url,
                                  .headers = c->headers,
                                  .certificates = getenv("SSL_CERT_FILE"),
                                  .body = body,
                                  .body_size = size,
                                  .reply_max = reply_max,
                                  .seconds = (double)c->address.seconds};
  http_post(c->http, &request, &c->reply);
  if (c->reply.status == 200 && !c->reply.is_cut) return true;
  describe(c);
  if (c->reply.status == 200) snprintf(c->error, sizeof c->error, "the answer is too large");
  return false;
}

bool clickhouse_run(clickhouse_t *c, const char *sql, bool is_global) {
  return post(c, NULL, is_global, sql, strlen(sql), 65536);
}

bool clickhouse_insert(clickhouse_t *c, const char *sql, const row_bytes_t *rows) {
  return post(c, sql, false, rows->data, rows->size, 65536);
}

bool clickhouse_select(clickhouse_t *c, const char *sql, const store_kind_t *kinds, size_t count,
                       row_take_t take, void *context) {
  if (!post(c, NULL, false, sql, strlen(sql), ANSWER_MAX)) return false;
  int wrong = row_bytes_read(c->reply.body, c->reply.body_size, kinds, count, take, context);
  if (wrong == SONDE_EINVAL) return clickhouse_refuse(c);
  if (wrong) snprintf(c->error, sizeof c->error, "the answer cannot be kept in memory");
  return !wrong;
}

/* ---- numbers ------------------------------------------------------------------------------ */

typedef struct one_number {
  int64_t number;
  unsigned rows;
} one_number_t;

static bool take_number(void *context, const store_value_t *values) {
  one_number_t *one = context;
  one->number = values[0].integer;
  one->rows++;
  return true;
}

bool clickhouse_number(clickhouse_t *c, const char *sql, int64_t *out) {
  static const store_kind_t kind = STORE_INTEGER;
  one_number_t one = {0};
  if (!clickhouse_select(c, sql, &kind, 1, take_number, &one)) return false;
  *out = one.number;
  return one.rows == 1 || clickhouse_refuse(c);
}

bool clickhouse_check(clickhouse_t *c) {
  const int64_t asked = INT64_C(0x6b636f6c6b63696c);
  char sql[64];
  int64_t answer = 0;
  snprintf(sql, sizeof sql, "SELECT toInt64(%" PRId64 ") FORMAT RowBinary", asked);
  return clickhouse_number(c, sql, &answer) && (answer == asked || clickhouse_refuse(c));
}
