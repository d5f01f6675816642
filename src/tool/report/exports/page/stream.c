/* SPDX-License-Identifier: MIT
 *
 * Three bytes become four characters, so the compressed bytes are encoded in multiples of three
 * until the end.
 */
#include "report/exports/page/stream.h"

#include <inttypes.h>
#include <string.h>

#include "report/json.h"

/* 15: the window of deflate; + 16: with the header of gzip (zlib.h, deflateInit2). Level 4 makes
 * large pages 3 % smaller, and takes twice as long; level 6 8 % and 8 times. */
enum { GZIP_WINDOW = 15 + 16, MEMORY_LEVEL = 8, ZIP_LEVEL = 2 };

/* Groups of four characters that are written at once. */
enum { GROUPS = 1024 };

static void encode(page_stream_t *s, size_t count) {
  if (!s->is_base64) {
    (void)fwrite(s->bytes, 1, count, s->out);
    return;
  }
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  char text[4 * GROUPS];
  size_t used = 0;
  for (size_t i = 0; i < count; i += 3) {
    size_t left = count - i;
    uint32_t three = (uint32_t)s->bytes[i] << 16;
    if (left > 1) three |= (uint32_t)s->bytes[i + 1] << 8;
    if (left > 2) three |= s->bytes[i + 2];
    const char four[4] = {digits[three >> 18], digits[three >> 12 & 63],
                          left > 1 ? digits[three >> 6 & 63] : '=',
                          left > 2 ? digits[three & 63] : '='};
    memcpy(text + used, four, sizeof four);
    used += sizeof four;
    if (used == sizeof text || i + 3 >= count) {
      (void)fwrite(text, 1, used, s->out);
      used = 0;
    }
  }
}

/* Writes whole groups of three bytes, or all with LAST. */
static void write_packed(page_stream_t *s, bool last) {
  size_t whole = last ? s->packed : s->packed - s->packed % 3;
  encode(s, whole);
  s->packed -= whole;
  memmove(s->bytes, s->bytes + whole, s->packed);
}

static void compress_text(page_stream_t *s, int flush) {
  s->zip.next_in = (Bytef *)s->text;
  s->zip.avail_in = (uInt)s->used;
  int status = Z_OK;
  do {
    s->zip.next_out = s->bytes + s->packed;
    s->zip.avail_out = (uInt)(PAGE_STREAM_PACKED - s->packed);
    status = deflate(&s->zip, flush);
    s->packed = PAGE_STREAM_PACKED - s->zip.avail_out;
    if (s->packed > PAGE_STREAM_PACKED / 2 || status == Z_STREAM_END) write_packed(s, false);
  } while (status == Z_OK && (s->zip.avail_in || flush == Z_FINISH || !s->zip.avail_out));
  if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) s->failed = true;
  s->used = 0;
}

bool page_stream_start(page_stream_t *s, FILE *out, bool is_base64) {
  memset(s, 0, sizeof *s);
  s->out = out;
  s->is_base64 = is_base64;
  return deflateInit2(&s->zip, ZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW, MEMORY_LEVEL,
                      Z_DEFAULT_STRATEGY) == Z_OK;
}

static void put_bytes(page_stream_t *s, const char *text, size_t size) {
  for (size_t left = size; left;) {
    size_t room = PAGE_STREAM_TEXT - s->used, part = left < room ? left : room;
    memcpy(s->text + s->used, text, part);
    s->used += part;
    text += part;
    left -= part;
    if (s->used == PAGE_STREAM_TEXT) compress_text(s, Z_NO_FLUSH);
  }
}

void page_put(page_stream_t *s, const char *text) { put_bytes(s, text, strlen(text)); }

/* A page has millions of numbers, for which printf is too slow. */
void page_put_number(page_stream_t *s, int64_t number) {
  char text[24], *end = text + sizeof text, *p = end;
  uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
  do {
    *--p = (char)('0' + left % 10);
  } while (left /= 10);
  if (number < 0) *--p = '-';
  put_bytes(s, p, (size_t)(end - p));
}

void page_put_json(page_stream_t *s, const char *text) {
  json_object *string = json_new_text(text);
  if (!string) s->failed = true;
  page_put(s, string ? json_print(string, JSON_STYLE) : "\"\"");
  json_object_put(string);
}

void page_put_ms(page_stream_t *s, uint64_t ns) {
  char text[40];
  snprintf(text, sizeof text, "%" PRIu64 ".%06" PRIu64, ns / 1000000, ns % 1000000);
  page_put(s, text);
}

bool page_stream_end(page_stream_t *s) {
  compress_text(s, Z_FINISH);
  write_packed(s, true);
  deflateEnd(&s->zip);
  return !s->failed;
}
