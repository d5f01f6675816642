/* SPDX-License-Identifier: MIT
 *
 * libcurl is loaded by the first request. It brings some thirty libraries with it, which would cost
 * every other command 5 ms.
 */
#include "store/http/http.h"

#define CURL_DISABLE_TYPECHECK /* its macros know only the functions themselves */
#include <curl/curl.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "store/http/header.h"

enum { CONNECT_SECONDS = 10 };

struct http {
  CURL *curl;
};

/* ---- the library -------------------------------------------------------------------------- */

/* X(field, function) */
#define CURL_FUNCTIONS(X)                                                                          \
  X(start, curl_global_init)                                                                       \
  X(end, curl_global_cleanup)                                                                      \
  X(open, curl_easy_init)                                                                          \
  X(close, curl_easy_cleanup)                                                                      \
  X(reset, curl_easy_reset)                                                                        \
  X(set, curl_easy_setopt)                                                                         \
  X(perform, curl_easy_perform)                                                                    \
  X(get, curl_easy_getinfo)                                                                        \
  X(explain, curl_easy_strerror)                                                                   \
  X(list_add, curl_slist_append)                                                                   \
  X(list_free, curl_slist_free_all)                                                                \
  X(date, curl_getdate)

static struct {
#define CURL_FIELD(field, function) __typeof__(&function) field;
  CURL_FUNCTIONS(CURL_FIELD)
#undef CURL_FIELD
} api;

/* Debian has a library for each of two TLS libraries; either does. */
static bool load(void) {
  static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
  static void *library;
  for (size_t i = 0; !library && i < sizeof names / sizeof *names; i++)
    library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  if (!library) return false;
#define CURL_LOAD(field, function)                                                                 \
  if (!(*(void **)&api.field = dlsym(library, #function))) return false;
  CURL_FUNCTIONS(CURL_LOAD)
#undef CURL_LOAD
  return true;
}

http_t *http_new(char *error, size_t error_size) {
  if (!load()) {
    snprintf(error, error_size, "libcurl is not installed (libcurl.so.4)");
    return NULL;
  }
  http_t *h = calloc(1, sizeof *h);
  if (h && api.start(CURL_GLOBAL_DEFAULT) == CURLE_OK) h->curl = api.open();
  if (h && h->curl) return h;
  free(h);
  snprintf(error, error_size, "libcurl cannot be started");
  return NULL;
}

void http_free(http_t *h) {
  if (!h) return;
  api.close(h->curl);
  api.end();
  free(h);
}

/* ---- the reply ---------------------------------------------------------------------------- */

typedef struct transfer {
  http_reply_t *reply;
  size_t max;
} transfer_t;

void http_reply_free(http_reply_t *r) {
  free(r->body);
  *r = (http_reply_t){0};
}

/* Keeps space for a terminating 0. */
static size_t take_body(char *data, size_t size, size_t count, void *context) {
  const transfer_t *t = context;
  http_reply_t *r = t->reply;
  size_t got = size * count, space = t->max - r->body_size, taken = got < space ? got : space;
  bool good = ARRAY_RESERVE(r->body, r->body_size + taken + 1, r->body_capacity);
  r->is_cut |= !good || taken < got;
  if (!good) return got;
  memcpy(r->body + r->body_size, data, taken);
  r->body_size += taken;
  return got;
}

static size_t take_header(char *data, size_t size, size_t count, void *context) {
  header_take(data, size * count, time(NULL), api.date, ((const transfer_t *)context)->reply);
  return size * count;
}

/* ---- the request -------------------------------------------------------------------------- */

/* The certificate or the URL is wrong, now and later. */
static bool is_permanent(CURLcode code) {
  return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
         code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL ||
         code == CURLE_OUT_OF_MEMORY || code == CURLE_SSL_CERTPROBLEM;
}

static bool only_http(CURL *curl) {
#if LIBCURL_VERSION_NUM >= 0x075500
  return api.set(curl, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK;
#else
  return api.set(curl, CURLOPT_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS) == CURLE_OK;
#endif
}

static bool set_options(CURL *curl, const http_request_t *q, struct curl_slist *headers,
                        transfer_t *transfer, char *error) {
  api.reset(curl);
#define SET(option, value)                                                                         \
  if (api.set(curl, (option), (value)) != CURLE_OK) return false
  SET(CURLOPT_ERRORBUFFER, error);
  SET(CURLOPT_URL, q->url);
  SET(CURLOPT_HTTPHEADER, headers);
  SET(CURLOPT_POST, 1L);
  SET(CURLOPT_POSTFIELDS, (const char *)q->body);
  SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)q->body_size);
  SET(CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
  SET(CURLOPT_TIMEOUT_MS, (long)(q->seconds * 1000));
  SET(CURLOPT_NOSIGNAL, 1L);
  SET(CURLOPT_USERAGENT, "sonde/" SONDE_VERSION);
  SET(CURLOPT_WRITEFUNCTION, take_body);
  SET(CURLOPT_WRITEDATA, transfer);
  SET(CURLOPT_HEADERFUNCTION, take_header);
  SET(CURLOPT_HEADERDATA, transfer);
  if (q->certificates) SET(CURLOPT_CAINFO, q->certificates);
#undef SET
  return only_http(curl);
}

/* NULL: out of memory. "Expect: 100-continue" would cost a second where a server ignores it. */
static struct curl_slist *list_of(const char *const *headers) {
  struct curl_slist *list = api.list_add(NULL, "Expect:");
  for (; list && *headers; headers++) {
    struct curl_slist *longer = api.list_add(list, *headers);
    if (!longer) api.list_free(list);
    list = longer;
  }
  return list;
}

void http_post(http_t *h, const http_request_t *request, http_reply_t *reply) {
  char error[CURL_ERROR_SIZE] = "";
  struct curl_slist *headers = list_of(request->headers);
  transfer_t transfer = {reply, request->reply_max};
  reply->status = 0;
  reply->is_cut = false;
  reply->body_size = 0;
  reply->wait_s = -1;
  reply->grpc_status = -1;
  CURLcode code = headers && set_options(h->curl, request, headers, &transfer, error)
                      ? api.perform(h->curl)
                      : CURLE_OUT_OF_MEMORY;
  if (code == CURLE_OK)
    (void)api.get(h->curl, CURLINFO_RESPONSE_CODE, &reply->status);
  else
    snprintf(reply->error, sizeof reply->error, "%s", *error ? error : api.explain(code));
  reply->is_permanent = code != CURLE_OK && is_permanent(code);
  if (ARRAY_RESERVE(reply->body, reply->body_size + 1, reply->body_capacity))
    reply->body[reply->body_size] = 0;
  else
    reply->status = 0;
  api.list_free(headers);
}
