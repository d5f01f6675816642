/* SPDX-License-Identifier: MIT
 *
 * What a header line of a reply says: when to come back, and the status of gRPC. Pure.
 */
#ifndef SONDE_STORE_HTTP_HEADER_H
#define SONDE_STORE_HTTP_HEADER_H

#include <time.h>

#include "store/http/http.h"

/* Takes a line of SIZE bytes, which may be any, with or without its end. DATE reads a date, as
 * curl_getdate(3) does: -1: it is none. */
void header_take(const char *line, size_t size, time_t now,
                 time_t (*date)(const char *text, const time_t *unused), http_reply_t *reply);

#endif
