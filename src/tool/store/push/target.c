/* SPDX-License-Identifier: MIT */
#include "store/push/target.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_FILE_MAX = 64 * 1024 };

static const struct {
  const char *prefix, *path;
} protocols[] = {
    [PUSH_OTLP] = {"", "/v1development/profiles"},
    [PUSH_PYROSCOPE] = {"pyroscope+", "/push.v1.PusherService/Push"},
    [PUSH_PARCA] = {"parca+", "/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw"},
};

enum { PROTOCOLS = sizeof protocols / sizeof *protocols };

/* ---- the URL ------------------------------------------------------------------------------ */

static bool has_prefix(const char *text, const char *prefix) {
  return !strncmp(text, prefix, strlen(prefix));
}

static bool is_visible(const char *text) {
  while (*text > ' ' && *text < 127)
    text++;
  return !*text;
}

/* The length of "https://HOST:PORT"; 0: it is no such URL. */
static size_t host_length(const char *url) {
  size_t scheme = has_prefix(url, "http://") ? 7 : has_prefix(url, "https://") ? 8 : 0;
  size_t host = scheme ? strcspn(url + scheme, "/?#") : 0;
  return host ? scheme + host : 0;
}

static char *join(pool_t *pool, const char *a, size_t a_size, const char *b) {
  char *text = pool_array(pool, a_size + strlen(b) + 1, 1);
  if (!text) return NULL;
  memcpy(text, a, a_size);
  strcpy(text + a_size, b);
  return text;
}

/* Returns what is wrong, or NULL. */
static const char *read_url(push_target_t *t, const char *url) {
  t->protocol = PUSH_OTLP;
  for (int i = PROTOCOLS - 1; i > 0; i--)
    if (has_prefix(url, protocols[i].prefix)) {
      t->protocol = (push_protocol_t)i;
      url += strlen(protocols[i].prefix);
      break;
    }
  size_t host = host_length(url);
  if (!host || !is_visible(url))
    return "a URL to push to is [pyroscope+|parca+]http[s]://HOST[:PORT][/PATH]";
  const char *path = url + host;
  if (memchr(url, '@', host))
    return "a URL must not contain credentials, which other users can see; put them into a file "
           "and name it with --header-file";
  bool is_bare = !*path || !strcmp(path, "/");
  t->host = join(&t->pool, url, host, "");
  t->url = join(&t->pool, url, host, is_bare ? protocols[t->protocol].path : path);
  return t->host && t->url ? NULL : "out of memory";
}

/* ---- lists of the environment ------------------------------------------------------------- */

static int hex_digit(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

/* Decodes %XX in place. False: it is malformed, or contains a control character. */
static bool decode(char *text) {
  char *out = text;
  for (; *text; text++) {
    char c = *text;
    if (c == '%') {
      int high = hex_digit(text[1]), low = high < 0 ? -1 : hex_digit(text[2]);
      if (low < 0) return false;
      c = (char)(high << 4 | low);
      text += 2;
    }
    if (!c || iscntrl((unsigned char)c)) return false;
    *out++ = c;
  }
  *out = 0;
  return true;
}

static char *trimmed(char *text) {
  while (isspace((unsigned char)*text))
    text++;
  char *end = text + strlen(text);
  while (end > text && isspace((unsigned char)end[-1]))
    *--end = 0;
  return text;
}

static bool add_label(push_target_t *t, const char *name, const char *value) {
  push_label_t *added = ARRAY_ADD(t->labels);
  if (added) *added = (push_label_t){name, value};
  return added != NULL;
}

/* The characters of a token, RFC 9110 5.6.2. */
static bool is_header_name(const char *name) {
  static const char others[] = "!#$%&'*+-.^_`|~";
  const char *at = name;
  while (isalnum((unsigned char)*at) || (*at && strchr(others, *at)))
    at++;
  return at > name && !*at;
}

static bool add_header(push_target_t *t, const char *name, const char *value) {
  char *line = is_header_name(name) ? join(&t->pool, name, strlen(name), ": ") : NULL;
  if (line) line = join(&t->pool, line, strlen(line), value);
  const char **added = line ? ARRAY_ADD(t->headers) : NULL;
  if (added) *added = line;
  const char **secret = added && *value ? ARRAY_ADD(t->secrets) : NULL;
  if (secret) *secret = value;
  return added && (secret || !*value);
}

/* Reads "name=value,name=value" of the environment variable VARIABLE, if it is set: the form of
 * W3C Baggage, with %XX. */
static bool read_list(push_target_t *t, const char *variable,
                      bool (*add)(push_target_t *, const char *, const char *)) {
  const char *set = getenv(variable);
  char *text = pool_text(&t->pool, set ? set : ""), *rest = text, *part;
  if (!text) return false;
  while ((part = strsep(&rest, ","))) {
    part = trimmed(part);
    char *value = strchr(part, '=');
    if (!*part) continue;
    if (!value) return false;
    *value++ = 0;
    part = trimmed(part);
    value = trimmed(value);
    if (!*part || !decode(part) || !decode(value) || !add(t, part, value)) return false;
  }
  return true;
}

/* ---- a file of headers -------------------------------------------------------------------- */

/* Returns what is wrong, or NULL. */
static const char *read_header_lines(push_target_t *t, char *text) {
  char *line;
  while ((line = strsep(&text, "\n"))) {
    line = trimmed(line);
    char *value = strchr(line, ':');
    if (!*line || *line == '#') continue;
    if (!value) return "a line is not 'Name: value'";
    *value++ = 0;
    value = trimmed(value);
    for (const char *c = value; *c; c++)
      if (iscntrl((unsigned char)*c)) return "a value has a control character";
    if (!add_header(t, trimmed(line), value)) return "a line is not 'Name: value'";
  }
  return NULL;
}

static const char *read_header_file(push_target_t *t, const char *path) {
  char *text = pool_array(&t->pool, HEADER_FILE_MAX + 1, 1);
  FILE *file = text ? fopen(path, "re") : NULL;
  if (!file) return text ? strerror(errno) : "out of memory";
  size_t size = fread(text, 1, HEADER_FILE_MAX, file);
  bool is_whole = !ferror(file) && fgetc(file) == EOF && !memchr(text, 0, size);
  fclose(file);
  return is_whole ? read_header_lines(t, text) : "it is no file of headers";
}

/* ---- all ---------------------------------------------------------------------------------- */

/* Returns the variable that is malformed, or NULL. The service's own variable counts most. */
static const char *read_environment(push_target_t *t) {
  const char *service = getenv("OTEL_SERVICE_NAME");
  if (!read_list(t, "OTEL_RESOURCE_ATTRIBUTES", add_label)) return "OTEL_RESOURCE_ATTRIBUTES";
  if (service && *service && !add_label(t, "service.name", service)) return "OTEL_SERVICE_NAME";
  if (t->protocol == PUSH_OTLP && !read_list(t, "OTEL_EXPORTER_OTLP_HEADERS", add_header))
    return "OTEL_EXPORTER_OTLP_HEADERS";
  return read_list(t, "SONDE_PUSH_HEADERS", add_header) ? NULL : "SONDE_PUSH_HEADERS";
}

static void read_certificates(push_target_t *t) {
  const char *own = getenv("OTEL_EXPORTER_OTLP_CERTIFICATE"), *all = getenv("SSL_CERT_FILE");
  if (t->protocol == PUSH_OTLP && own && *own)
    t->certificates = own;
  else if (all && *all)
    t->certificates = all;
}

bool push_target_read(push_target_t *out, const char *url, const char *header_file, char *error,
                      size_t error_size) {
  *out = (push_target_t){0};
  const char *wrong = read_url(out, url);
  if (wrong) {
    snprintf(error, error_size, "%s", wrong);
  } else if ((wrong = read_environment(out))) {
    snprintf(error, error_size, "%s is not a list of NAME=VALUE, separated by commas", wrong);
  } else if (header_file && (wrong = read_header_file(out, header_file))) {
    snprintf(error, error_size, "'%s': %s", header_file, wrong);
  } else {
    read_certificates(out);
    return true;
  }
  push_target_free(out);
  return false;
}

void push_target_free(push_target_t *t) {
  free(t->labels.items);
  free(t->headers.items);
  free(t->secrets.items);
  free(t->context.items);
  pool_free(&t->pool);
  pool_free(&t->context_pool);
  *t = (push_target_t){0};
}

bool push_target_label(push_target_t *t, const char *text) {
  char *copy = pool_text(&t->pool, text), *value = copy ? strchr(copy, '=') : NULL;
  if (!value || value == copy) return false;
  *value++ = 0;
  return add_label(t, copy, value);
}

const char *push_target_value(const push_target_t *t, const char *name) {
  for (size_t i = t->labels.count; i-- > 0;)
    if (!strcmp(t->labels.items[i].name, name)) return t->labels.items[i].value;
  for (size_t i = t->context.count; i-- > 0;)
    if (!strcmp(t->context.items[i].name, name)) return t->context.items[i].value;
  return NULL;
}
