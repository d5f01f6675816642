/* SPDX-License-Identifier: MIT */
#include "target/jit/parse.h"

#include <string.h>

#include "base/load.h"

/* ---- perf maps ---------------------------------------------------------------------------- */

/* Reads a hexadecimal number at *P that ends before END; false if there is none. */
static bool hex(const char **p, const char *end, uint64_t *out) {
  const char *start = *p;
  uint64_t value = 0;
  for (; *p < end; ++*p) {
    char c = **p;
    unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                     : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                     : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                            : 16;
    if (digit == 16) break;
    value = value << 4 | digit;
  }
  *out = value;
  return *p > start && *p - start <= 16;
}

static bool number(const char **p, const char *end, uint64_t *out) {
  if (end - *p > 2 && (*p)[0] == '0' && (*p)[1] == 'x') *p += 2;
  return hex(p, end, out) && *p < end && *(*p)++ == ' ';
}

static void take_line(jit_t *jit, const char *p, const char *end) {
  uint64_t address, size;
  if (number(&p, end, &address) && number(&p, end, &size) && p < end)
    jit_add(jit, address, size, UINT64_MAX, 0, p, (size_t)(end - p));
}

size_t jit_parse_perf_map(jit_parse_t *state, jit_t *jit, const char *text, size_t size) {
  const char *end = text + size, *line = text, *stop;
  for (; (stop = memchr(line, '\n', (size_t)(end - line))); line = stop + 1) {
    if (!state->in_long_line) take_line(jit, line, stop);
    state->in_long_line = false;
    if (stop + 1 == end) return size;
  }
  if (end - line < JIT_PIECE_BYTES && !state->in_long_line) return (size_t)(line - text);
  state->in_long_line = true;
  return size;
}

/* ---- jitdump ------------------------------------------------------------------------------ */

#define MAGIC        0x4a695444u
#define OTHER_CLOCK  1u /* flag of the header: times are the processor's counter */
#define RECORD_LOAD  0u
#define RECORD_MOVE  1u
#define RECORD_BYTES 16u
#define LOAD_NAME    56u /* where the name begins */
#define MOVE_BYTES   64u

uint64_t jit_parse_header(jit_parse_t *state, const uint8_t *data, uint32_t *pid) {
  uint32_t size = load32(data + 8);
  if (load32(data) != MAGIC || size < JIT_HEADER_BYTES) return 0;
  *pid = load32(data + 20);
  state->has_times = !(load64(data + 32) & OTHER_CLOCK);
  return size;
}

/* Record head (16), pid and tid (8), vma, address, size, index (8 each), the name, the code. */
static bool take_load(jit_t *jit, uint64_t time_ns, const uint8_t *p, size_t size) {
  const uint8_t *name = p + LOAD_NAME,
                *end = size > LOAD_NAME ? memchr(name, 0, size - LOAD_NAME) : NULL;
  if (end)
    jit_add(jit, load64(p + 32), load64(p + 40), load64(p + 48), time_ns, (const char *)name,
            (size_t)(end - name));
  return end != NULL;
}

/* Record head (16), pid and tid (8), vma, old address, new address, size, index. */
static bool take_move(jit_t *jit, uint64_t time_ns, const uint8_t *p, size_t size) {
  if (size >= MOVE_BYTES) jit_move(jit, load64(p + 56), load64(p + 40), load64(p + 48), time_ns);
  return size >= MOVE_BYTES;
}

/* Reads the record at P, of which SIZE bytes are there. False if it lacks a part. */
static bool take_record(const jit_parse_t *state, jit_t *jit, const uint8_t *p, size_t size) {
  uint64_t time_ns = state->has_times ? load64(p + 8) : 0;
  switch (load32(p)) {
  case RECORD_LOAD: return take_load(jit, time_ns, p, size);
  case RECORD_MOVE: return take_move(jit, time_ns, p, size);
  default: return true;
  }
}

uint64_t jit_parse_records(const jit_parse_t *state, jit_t *jit, const uint8_t *data, size_t size) {
  uint64_t at = 0;
  while (at < size && size - at >= RECORD_BYTES) {
    uint32_t length = load32(data + at + 4);
    size_t there = size - at;
    bool is_cut = there < length && there < JIT_PIECE_BYTES;
    if (length < RECORD_BYTES) break;
    if (!take_record(state, jit, data + at, there < length ? there : length) && is_cut) break;
    at += length;
  }
  return at;
}
