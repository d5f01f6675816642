/* SPDX-License-Identifier: MIT
 *
 * Serves one file on loopback to a page of another origin: viewers that run in a browser load it by
 * its URL. The URL has a random word of 128 bits, so other users of the machine cannot guess it.
 *
 * Limits: 8 connections at a time, request heads of 4 KB, 10 s for a head, 60 s without progress
 * while the file is sent, and SERVE_IDLE_MS without a request. One thread uses these functions.
 */
#ifndef SONDE_CLI_LINUX_SERVE_H
#define SONDE_CLI_LINUX_SERVE_H

#include <stdbool.h>
#include <stdint.h>

enum { SERVE_IDLE_MS = 3600 * 1000 };

typedef struct serve {
  const char *origin; /* of the page that may read the file: "https://profiler.firefox.com" */
  const char *name;   /* the last part of the URL */
  bool is_gzip;       /* the file is compressed JSON; otherwise it is JSON */
  int file;           /* for reading; the caller closes it */
  int listener;       /* out */
  char path[128];     /* out: of the URL */
  char host[32];      /* out: "127.0.0.1:43210" */
  char url[192];      /* out */
} serve_t;

/* Listens on a free port and fills the URL. The caller set the first four members. False: errno
 * says why. */
bool serve_start(serve_t *serve);

/* Serves until *STOP or until nobody asked for SERVE_IDLE_MS. *STOP is read once a second, and
 * after each signal. Then it closes all connections. */
void serve_run(serve_t *serve, const volatile int *stop);

#endif
