/* SPDX-License-Identifier: MIT
 *
 * Decodes and formats the recorded arguments of audited calls.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <ctype.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "analysis/audit/audit.h"
#include "analysis/audit/flag_words.h"
#include "base/varint.h"

static bool get_value(const uint8_t **p, const uint8_t *end, audit_value_t *v) {
  uint64_t n;
  if (!varint_get(p, end, &n)) return false;
  if (v->kind == AUDIT_NUMBER || v->kind == AUDIT_PROCESS) {
    v->number = (int64_t)unzigzag(n);
    return true;
  }
  if (v->kind == AUDIT_FLAGS || audit_is_hashed(v->kind)) {
    v->number = (int64_t)n;
    return true;
  }
  if (n > (uint64_t)(end - *p)) return false;
  v->text = *p;
  v->size = (uint32_t)n;
  *p += n;
  return true;
}

int audit_values_of(const uint8_t kinds[AUDIT_ARGUMENTS], const uint8_t *p, uint32_t size,
                    audit_value_t *out) {
  const uint8_t *end = p + size;
  int count = 0;
  for (int i = 0; i < AUDIT_ARGUMENTS; i++) {
    if (kinds[i] == AUDIT_SKIP) continue;
    out[count] = (audit_value_t){.kind = kinds[i], .argument = (uint8_t)i};
    if (!get_value(&p, end, &out[count++])) return -1;
  }
  return count;
}

/* The argument kinds of a function; NULL when the policy does not have it. */
static const uint8_t *kinds_of(const audit_t *a, const audit_entry_t *s) {
  if (!a->flat || s->function >= a->flat->function_count) return NULL;
  return audit_functions(a->flat)[s->function].arguments;
}

void audit_text_of(const uint8_t kinds[AUDIT_ARGUMENTS], const uint8_t *arguments, uint32_t size,
                   char *out) {
  audit_value_t values[AUDIT_ARGUMENTS];
  int count = audit_values_of(kinds, arguments, size, values);
  *out = 0;
  for (int i = 0; i < count; i++) {
    if (!audit_is_text(values[i].kind)) continue;
    uint32_t n = values[i].size < AUDIT_TEXT_MAX ? values[i].size : AUDIT_TEXT_MAX;
    memcpy(out, values[i].text, n);
    out[n] = 0;
    return;
  }
}

void audit_text(const audit_t *a, const audit_entry_t *s, char *out) {
  const uint8_t *kinds = kinds_of(a, s);
  *out = 0;
  if (kinds) audit_text_of(kinds, s->arguments, s->arguments_size, out);
  audit_own_path(out, reader_header(a->reader)->pid);
}

/* ---- text ----------------------------------------------------------------------------------- */

typedef struct text_writer {
  char *out;
  size_t size, used;
  bool class; /* only parts that stay the same from run to run */
  bool alike; /* descriptors are left out */
  const char *function;
  uint32_t machine;
  bool is_other_family; /* a socket's, which is not one of the internet: its protocols differ */
} text_writer_t;

static void append(text_writer_t *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void append(text_writer_t *w, const char *format, ...) {
  va_list arguments;
  if (w->used + 1 >= w->size) return;
  va_start(arguments, format);
  int n = vsnprintf(w->out + w->used, w->size - w->used, format, arguments);
  va_end(arguments);
  if (n > 0) w->used += (size_t)n;
  if (w->used >= w->size) w->used = w->size - 1;
}

/* The program's texts may contain any byte; control characters are shown as numbers. */
static void put_quoted(text_writer_t *w, const uint8_t *text, uint32_t size) {
  append(w, "\"");
  for (uint32_t i = 0; i < size; i++)
    if (w->class && isdigit(text[i])) {
      if (!i || !isdigit(text[i - 1])) append(w, "#");
    } else if (text[i] < ' ' || text[i] == 0x7f || text[i] == '"' || text[i] == '\\')
      append(w, "\\x%02x", text[i]);
    else
      append(w, "%c", text[i]);
  append(w, "\"");
}

static void put_strings(text_writer_t *w, const uint8_t *text, uint32_t size) {
  append(w, "[");
  for (uint32_t at = 0; at < size;) {
    uint32_t n = (uint32_t)strnlen((const char *)text + at, size - at);
    if (at) append(w, ", ");
    put_quoted(w, text + at, n);
    at += n + 1;
  }
  append(w, "]");
}

static void put_unix(text_writer_t *w, const uint8_t *bytes, uint32_t size) {
  uint32_t at = (uint32_t)offsetof(struct sockaddr_un, sun_path);
  bool abstract = size > at && !bytes[at];
  append(w, "unix:%s", abstract ? "@" : "");
  at += abstract;
  if (at < size) put_quoted(w, bytes + at, (uint32_t)strnlen((const char *)bytes + at, size - at));
}

static bool is_private(uint32_t address) {
  return address >> 24 == 10 || address >> 20 == 0xac1 || address >> 16 == 0xc0a8 ||
         address >> 16 == 0xa9fe;
}

/* The kind of an IPv4 address in host byte order. */
static const char *network_of(uint32_t address) {
  if (address >> 24 == 127) return "this machine";
  return is_private(address) ? "a private network" : "the internet";
}

static const char *network_of6(const struct in6_addr *a) {
  if (IN6_IS_ADDR_LOOPBACK(a)) return "this machine";
  if (IN6_IS_ADDR_LINKLOCAL(a) || (a->s6_addr[0] & 0xfe) == 0xfc) return "a private network";
  return "the internet";
}

static void put_address(text_writer_t *w, const uint8_t *bytes, uint32_t size) {
  union {
    struct sockaddr any;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
  } a = {0};
  char text[INET6_ADDRSTRLEN] = "";
  memcpy(&a, bytes, size < sizeof a ? size : sizeof a);
  if (size < sizeof a.any.sa_family)
    append(w, "no address");
  else if (w->class && a.any.sa_family == AF_INET)
    append(w, "%s:%u", network_of(ntohl(a.in.sin_addr.s_addr)), ntohs(a.in.sin_port));
  else if (w->class && a.any.sa_family == AF_INET6)
    append(w, "%s:%u", network_of6(&a.in6.sin6_addr), ntohs(a.in6.sin6_port));
  else if (a.any.sa_family == AF_INET && inet_ntop(AF_INET, &a.in.sin_addr, text, sizeof text))
    append(w, "%s:%u", text, ntohs(a.in.sin_port));
  else if (a.any.sa_family == AF_INET6 && inet_ntop(AF_INET6, &a.in6.sin6_addr, text, sizeof text))
    append(w, "[%s]:%u", text, ntohs(a.in6.sin6_port));
  else if (a.any.sa_family == AF_UNIX)
    put_unix(w, bytes, size);
  else
    append(w, "address family %u", a.any.sa_family);
}

/* Whether the first argument of FUNCTION is a descriptor. */
static bool takes_descriptor(const char *function) {
  static const char *const names[] = {"accept",  "accept4",   "bind",     "connect",    "dup",
                                      "fchmod",  "fchown",    "fexecve",  "fstat",      "fstat64",
                                      "fstatfs", "fstatfs64", "fstatvfs", "fstatvfs64", "ftruncate",
                                      "listen",  "sendto",    "sendmsg",  "sendmmsg",   "signalfd",
                                      "ttyname", "ttyname_r", NULL};
  for (const char *const *name = names; *name; name++)
    if (!strcmp(*name, function)) return true;
  return false;
}

/* Baselines contain the class, so it has flags as numbers, whatever names this version knows. */
static void put_number(text_writer_t *w, const audit_value_t *v) {
  char words[512];
  bool is_flags = v->kind == AUDIT_FLAGS;
  if (w->alike && !v->argument && w->function && takes_descriptor(w->function)) {
    append(w, "…");
    return;
  }
  if (w->class && !is_flags) return;
  bool is_socket = w->function && !strcmp(w->function, "socket");
  if (is_socket && v->argument == 0)
    w->is_other_family = v->number != AF_INET && v->number != 10; /* AF_INET6 of Linux */
  bool is_unknown = is_socket && v->argument == 2 && w->is_other_family;
  if (!w->class && v->number >= 0 && !is_unknown &&
      flag_words(w->function, v->argument, (uint64_t)v->number, w->machine, words, sizeof words))
    append(w, "%s", words);
  else if (is_flags)
    append(w, "0x%" PRIx64, (uint64_t)v->number);
  else
    append(w, "%" PRId64, v->number);
}

/* A hash is another in every run. */
static void put_hash(text_writer_t *w, uint64_t hash) {
  append(w, "#");
  if (!w->class && hash) append(w, "%016" PRIx64, hash);
}

static void put_value(text_writer_t *w, const audit_value_t *v) {
  if (audit_is_hashed(v->kind)) {
    put_hash(w, (uint64_t)v->number);
    return;
  }
  switch (v->kind) {
  case AUDIT_NUMBER:
  case AUDIT_PROCESS:
  case AUDIT_FLAGS: put_number(w, v); break;
  case AUDIT_ADDRESS: put_address(w, v->text, v->size); break;
  case AUDIT_STRINGS: put_strings(w, v->text, v->size); break;
  default: put_quoted(w, v->text, v->size); break;
  }
}

static char *write_values(const uint8_t *kinds, const uint8_t *arguments, uint32_t size,
                          text_writer_t w) {
  audit_value_t values[AUDIT_ARGUMENTS];
  int count = kinds ? audit_values_of(kinds, arguments, size, values) : -1;
  *w.out = 0;
  if (count < 0) append(&w, "?");
  for (int i = 0; i < count; i++) {
    if (i) append(&w, ", ");
    put_value(&w, &values[i]);
  }
  return w.out;
}

uint32_t audit_machine(const reader_t *reader) {
  static const char ending[] = ".dylib";
  size_t count;
  const record_image_t *images = reader_images(reader, &count);
  for (size_t i = 0; i < count; i++) {
    size_t n = strlen(images[i].path);
    if (n >= sizeof ending && !strcmp(images[i].path + n - (sizeof ending - 1), ending)) return 0;
  }
  return reader_header(reader)->machine;
}

char *audit_words_of(const char *function, uint32_t machine, const uint8_t kinds[AUDIT_ARGUMENTS],
                     const uint8_t *arguments, uint32_t arguments_size, char *out, size_t size) {
  return write_values(
      kinds, arguments, arguments_size,
      (text_writer_t){.out = out, .size = size, .function = function, .machine = machine});
}

char *audit_words(const audit_t *a, const audit_entry_t *s, char *out, size_t size) {
  return audit_words_of(audit_function_name(a, s->function), a->machine, kinds_of(a, s),
                        s->arguments, s->arguments_size, out, size);
}

char *audit_words_alike_of(const char *function, uint32_t machine,
                           const uint8_t kinds[AUDIT_ARGUMENTS], const uint8_t *arguments,
                           uint32_t arguments_size, char *out, size_t size) {
  return write_values(
      kinds, arguments, arguments_size,
      (text_writer_t){
          .out = out, .size = size, .alike = true, .function = function, .machine = machine});
}

char *audit_words_alike(const audit_t *a, const audit_entry_t *s, char *out, size_t size) {
  return audit_words_alike_of(audit_function_name(a, s->function), a->machine, kinds_of(a, s),
                              s->arguments, s->arguments_size, out, size);
}

char *audit_class(const audit_t *a, const audit_entry_t *s, char *out, size_t size) {
  return audit_class_of(kinds_of(a, s), s->arguments, s->arguments_size, out, size);
}

char *audit_class_of(const uint8_t kinds[AUDIT_ARGUMENTS], const uint8_t *arguments,
                     uint32_t arguments_size, char *out, size_t size) {
  return write_values(kinds, arguments, arguments_size,
                      (text_writer_t){.out = out, .size = size, .class = true});
}

const char *audit_function_name(const audit_t *a, uint32_t function) {
  if (!a->flat || function >= a->flat->function_count) return "?";
  return audit_string(a->flat, audit_functions(a->flat)[function].name);
}
