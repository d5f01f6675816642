/* SPDX-License-Identifier: MIT */
#include "cli/common/out_buffer.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "report/json.h"

#define ONES     UINT64_C(0x0101010101010101)
#define TOPS     (ONES << 7)
#define STRIDE   32  /* most names fit, so the loop is well predicted */
#define LINE_MAX 128 /* at least the length of a frame without its texts */

static char bytes[1 << 16];
static size_t used;

void out_buffer_flush(void) {
  fwrite_unlocked(bytes, 1, used, stdout);
  used = 0;
}

/* Space for SIZE bytes, at most half of the buffer. */
static inline char *space_for(size_t size) {
  if (size > sizeof bytes - used) out_buffer_flush();
  return bytes + used;
}

static inline void filled_to(const char *end) { used = (size_t)(end - bytes); }

/* The eight hexadecimal digits of VALUE; the lowest byte is the first digit. */
static inline uint64_t hex_digits(uint32_t value) {
  uint64_t n = __builtin_bswap32(value); /* then spread one nibble a byte, in order */
  n = (n << 16 | n) & UINT64_C(0x0000ffff0000ffff);
  n = (n << 8 | n) & UINT64_C(0x00ff00ff00ff00ff);
  n = ((n << 8) & UINT64_C(0x0f000f000f000f00)) | ((n >> 4) & UINT64_C(0x000f000f000f000f));
  uint64_t letters = ((n + 6 * ONES) >> 4) & ONES;
  return n + ONES * '0' + letters * ('a' - '0' - 10);
}

/* Writes up to 8 bytes past the returned end. */
static inline char *put_hex(char *out, uint64_t value) {
  *out++ = '0';
  *out++ = 'x';
  unsigned digits = (67 - (unsigned)__builtin_clzll(value | 1)) / 4;
  if (digits > 8) {
    uint64_t high = hex_digits((uint32_t)(value >> 32)) >> 8 * (16 - digits);
    memcpy(out, &high, 8);
    out += digits - 8;
    digits = 8;
  }
  uint64_t low = hex_digits((uint32_t)value) >> 8 * (8 - digits);
  memcpy(out, &low, 8);
  return out + digits;
}

/* The top bit of each byte that is below 0x20 (subtracting 0x20 borrows into it) or equal to 0x7f
 * (0 after exclusive or). */
static inline uint64_t controls_of(uint64_t word) {
  uint64_t deleted = word ^ ONES * 0x7f;
  return (((word - ONES * ' ') & ~word) | ((deleted - ONES) & ~deleted)) & TOPS;
}

static void put_piece(const char *text, size_t size) {
  char *out = space_for(size + STRIDE);
  uint64_t found = 0, words[STRIDE / 8];
  memcpy(out, text, size);
  memset(out + size, ' ', STRIDE); /* the loop reads whole strides */
  for (size_t i = 0; i < size; i += STRIDE) {
    memcpy(words, out + i, STRIDE);
    for (size_t k = 0; k < STRIDE / 8; k++)
      found |= controls_of(words[k]);
  }
  for (size_t i = 0; found && i < size; i++)
    if ((unsigned char)out[i] < ' ' || out[i] == 127) out[i] = '?';
  filled_to(out + size);
}

void out_buffer_text(const char *text) {
  const size_t most = sizeof bytes / 2;
  size_t size = strlen(text);
  for (; size > most; text += most, size -= most)
    put_piece(text, most);
  put_piece(text, size);
}

static inline char *put_more(char *out, char before, uint32_t number) {
  if (!number) return out;
  *out++ = before;
  return decimal_append(out, number);
}

void out_buffer_frame(const symbol_frame_t *frame, const char *note) {
  out_buffer_text(frame->function ? frame->function : "??");
  char *out = space_for(LINE_MAX);
  if (frame->has_offset) {
    *out++ = '+';
    out = put_hex(out, frame->function_offset);
  }
  if (frame->file) {
    filled_to(text_append(out, " at "));
    out_buffer_text(frame->file);
    out = space_for(LINE_MAX);
  }
  out = put_more(put_more(out, ':', frame->line), ':', frame->column);
  if (frame->inlined) out = text_append(out, " (inlined)");
  if (note) out = text_append(out, note);
  *out++ = '\n';
  filled_to(out);
}

static const char *file_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

void out_buffer_address(const symbolized_address_t *a) {
  char *out = put_hex(space_for(LINE_MAX), a->address);
  *out++ = ' ';
  filled_to(out);
  if (a->module) {
    out_buffer_text(file_of(a->module));
    filled_to(text_append(space_for(LINE_MAX), ": "));
  }
  if (!a->count) {
    filled_to(text_append(space_for(LINE_MAX), "?? ("));
    out_buffer_text(a->why);
    filled_to(text_append(space_for(LINE_MAX), ")\n"));
  }
  for (int i = 0; i < a->count; i++) {
    if (i) filled_to(text_append(space_for(LINE_MAX), "  in "));
    out_buffer_frame(&a->frames[i], NULL);
  }
}

void out_buffer_address_json(const symbolized_address_t *a, bool first) {
  json_object *object = json_new_object(), *list = json_new_array();
  json_add_address(object, "address", a->address);
  if (a->module) json_add_text(object, "module", a->module);
  for (int i = 0; i < a->count; i++) {
    json_object *frame = json_new_object();
    json_add_function(frame, &a->frames[i]);
    json_append(list, frame);
  }
  json_add(object, "frames", list);
  if (a->why) json_add_text(object, "why", a->why);
  fputs_unlocked(first ? "\n" : ",\n", stdout);
  fputs_unlocked(json_print(object, JSON_STYLE), stdout);
  json_object_put(object);
}
