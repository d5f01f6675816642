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

static const char *read_cluster(address_t *a, const char *query) {
  static const char parameter[] = "?cluster=";
  if (*query && strncmp(query, parameter, sizeof parameter - 1) != 0)
    return "the only parameter of the URL is cluster=NAME";
  const char *name = *query ? query + sizeof parameter - 1 : query;
  if (*query && !read_name(a->cluster, name, strlen(name)))
    return "the name of a cluster has letters, digits and _";
  return a->servers > 1 && !*a->cluster ? "several servers need ?cluster=NAME" : NULL;
}

const char *address_read(address_t *out, const char *url) {
  static const char form[] = "a store of ClickHouse is clickhouse://HOST[:PORT]/DATABASE";
  int scheme = scheme_of(url);
  *out = (address_t){0};
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
  return read_cluster(out, name + strcspn(name, "?"));
}
