/* SPDX-License-Identifier: MIT
 *
 * Text that is compressed (gzip) and written to a file, as it is or as base64, so that an HTML page
 * can contain it. One thread uses a stream; its memory does not depend on the size of the text.
 */
#ifndef SONDE_REPORT_EXPORTS_PAGE_STREAM_H
#define SONDE_REPORT_EXPORTS_PAGE_STREAM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <zlib.h>

enum { PAGE_STREAM_TEXT = 32768, PAGE_STREAM_PACKED = 49152 };

typedef struct page_stream {
  FILE *out;
  bool is_base64;
  z_stream zip;
  size_t used, packed;
  bool failed; /* out of memory; errors of OUT are its own */
  char text[PAGE_STREAM_TEXT];
  uint8_t bytes[PAGE_STREAM_PACKED]; /* compressed and not yet written */
} page_stream_t;

/* False: out of memory. Then the stream needs no end. */
bool page_stream_start(page_stream_t *stream, FILE *out, bool is_base64);

void page_put(page_stream_t *stream, const char *text);
void page_put_number(page_stream_t *stream, int64_t number);

/* TEXT as a string of JSON, with bytes that are not UTF-8 as U+FFFD. */
void page_put_json(page_stream_t *stream, const char *text);

/* NS as milliseconds with six digits behind the point. */
void page_put_ms(page_stream_t *stream, uint64_t ns);

/* Writes what is left. False: out of memory. */
bool page_stream_end(page_stream_t *stream);

#endif
