/* SPDX-License-Identifier: MIT
 *
 * Where profiles are pushed to: a URL that names the protocol, the labels of the profiles, and the
 * headers of the requests, with credentials.
 *
 *   http[s]://HOST[:PORT][/PATH]               OTLP profiles over HTTP
 *   pyroscope+http[s]://HOST[:PORT][/PATH]     pprof, by Pyroscope's push API (Connect)
 *   parca+http[s]://HOST[:PORT][/PATH]         pprof, by Parca's profile store (gRPC-Web)
 *
 * A URL without a path gets that of its protocol. Credentials in URLs are refused: other users can
 * see the arguments of a process.
 */
#ifndef SONDE_STORE_PUSH_TARGET_H
#define SONDE_STORE_PUSH_TARGET_H

#include "base/array.h"
#include "base/pool.h"

typedef enum push_protocol { PUSH_OTLP, PUSH_PYROSCOPE, PUSH_PARCA } push_protocol_t;

typedef struct push_label {
  const char *name, *value;
} push_label_t;

typedef struct push_target {
  push_protocol_t protocol;
  const char *url;             /* with the path */
  const char *host;            /* scheme, host and port, for messages */
  const char *certificates;    /* NULL: those of the system */
  ARRAY(push_label_t) labels;  /* those of the user; the last of equal names counts */
  ARRAY(push_label_t) context; /* those that the program publishes (context.h); labels precede */
  ARRAY(const char *) headers; /* "Name: value" */
  ARRAY(const char *) secrets; /* values of these, which no message may contain */
  pool_t pool, context_pool;
} push_target_t;

/* Reads URL, the environment, and HEADER_FILE unless it is NULL: lines "Name: value". The
 * environment is that of OpenTelemetry: OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES,
 * OTEL_EXPORTER_OTLP_HEADERS and OTEL_EXPORTER_OTLP_CERTIFICATE; SSL_CERT_FILE; and
 * SONDE_PUSH_HEADERS, in the form of OTEL_EXPORTER_OTLP_HEADERS, for every protocol. False: ERROR
 * has one line. */
bool push_target_read(push_target_t *out, const char *url, const char *header_file, char *error,
                      size_t error_size);
void push_target_free(push_target_t *target);

/* Adds the label of "NAME=VALUE". False: it is none, or out of memory. */
bool push_target_label(push_target_t *target, const char *text);

/* The value of label NAME, of the user or else of the program; NULL: it has none. */
const char *push_target_value(const push_target_t *target, const char *name);

#endif
