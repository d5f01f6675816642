/* SPDX-License-Identifier: MIT */
#include "store/clickhouse/address.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const struct {
  const char *prefix, *scheme, *port;
} schemes[] = {{"clickhouse://", "http", ":8123"}, {"clickhouse+https://", "https", ":8443"}};

enum { SCHEMES = sizeof schemes / sizeof *schemes };

static int scheme_of(const char *url) {
  for (int i = 0; i < SCHEMES; i++)
    if (!strncmp(url, schemes[i].prefix, strlen(schemes[i].prefix))) return i;
  return -1;
}

bool address_is_url(const char *url) { return url && scheme_of(url) >= 0; }

/* Copies the name of SIZE bytes at TEXT. False: it is none. */
static bool read_name(char out[ADDRESS_NAME_MAX], const char *text, size_t size) {
  if (!size || size >= ADDRESS_NAME_MAX) return false;
  for (size_t i = 0; i < size; i++)
    if (!isalnum((unsigned char)text[i]) && text[i] != '_') return false;
  memcpy(out, text, size);
  out[size] = 0;
  return true;
}

/* Adds the server HOST[:PORT] of LENGTH bytes. */
static const char *add_server(address_t *a, int scheme, const char *host, size_t length) {
  const char *after = memchr(host, ']', length);
  bool has_port = memchr(after ? after : host, ':', length - (size_t)(after ? after - host : 0));
  if (!length) return "a host is missing";
  for (size_t i = 0; i < length; i++)
    if (host[i] <= ' ' || host[i] >= 127 || strchr("?#%\\", host[i]))
      return "the host is malformed";
  if (a->servers == ADDRESS_SERVERS_MAX) return "there are more than 64 servers";
  int n = snprintf(a->bases[a->servers++], ADDRESS_BASE_MAX, "%s://%.*s%s/", schemes[scheme].scheme,
                   (int)length, host, has_port ? "" : schemes[scheme].port);
  return n < ADDRESS_BASE_MAX ? NULL : "the URL is too long";
}

/* A number of SIZE bytes at TEXT. 0: it is none from 1 to ADDRESS_SECONDS_MAX. */
static long read_seconds(const char *text, size_t size) {
  long seconds = 0;
  for (size_t i = 0; i < size; i++) {
    if (!isdigit((unsigned char)text[i])) return 0;
    seconds = seconds * 10 + text[i] - '0';
    if (seconds > ADDRESS_SECONDS_MAX) return 0;
  }
  return seconds;
}

/* The parameter of SIZE bytes at TEXT. */
static const char *read_parameter(address_t *a, const char *text, size_t size) {
  static const char cluster[] = "cluster=", timeout[] = "timeout=";
  const size_t name = sizeof cluster - 1; /* of both */
  if (size >= name && !memcmp(text, cluster, name))
    return read_name(a->cluster, text + name, size - name)
               ? NULL
               : "the name of a cluster has letters, digits and _";
  if (size < name || memcmp(text, timeout, name) != 0)
    return "the parameters of the URL are cluster=NAME and timeout=SECONDS";
  a->seconds = read_seconds(text + name, size - name);
  return a->seconds ? NULL : "timeout= takes 1 to 86400 seconds";
}

/* QUERY is "" or begins with '?'. */
static const char *read_parameters(address_t *a, const char *query) {
  while (*query) {
    size_t size = strcspn(++query, "&");
    const char *wrong = read_parameter(a, query, size);
    if (wrong) return wrong;
    query += size;
  }
  return a->servers > 1 && !*a->cluster ? "several servers need ?cluster=NAME" : NULL;
}

const char *address_read(address_t *out, const char *url) {
  static const char form[] = "a store of ClickHouse is clickhouse://HOST[:PORT]/DATABASE";
  int scheme = scheme_of(url);
  *out = (address_t){.seconds = ADDRESS_SECONDS};
  const char *host = url + strlen(schemes[scheme].prefix);
  size_t length = strcspn(host, "/");
  if (memchr(host, '@', length))
    return "a URL must not contain credentials; set CLICKHOUSE_USER and CLICKHOUSE_PASSWORD";
  const char *name = host + length + 1;
  if (!length || !host[length] || !read_name(out->database, name, strcspn(name, "?"))) return form;
  for (const char *end = host + length; host <= end;) {
    size_t size = strcspn(host, ",/");
    const char *wrong = add_server(out, scheme, host, size);
    if (wrong) return wrong;
    host += size + 1;
  }
  return read_parameters(out, name + strcspn(name, "?"));
}
