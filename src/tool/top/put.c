/* SPDX-License-Identifier: MIT
 *
 * Text of the program on a terminal: decodes UTF-8 and counts columns, so that no byte can move the
 * cursor, change a color or break a column.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <string.h>
#include <wchar.h>
#include <wctype.h>

#include "top/layout.h"

/* The character at TEXT and its bytes in *SIZE, at least 1; 0xfffd if it is malformed. */
static uint32_t decode(const char *text, size_t *size) {
  const unsigned char *p = (const unsigned char *)text;
  static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
  size_t more = p[0] >= 0xf0 ? 3 : p[0] >= 0xe0 ? 2 : 1;
  *size = 1;
  if (p[0] < 0x80) return p[0];
  if (p[0] < 0xc2 || p[0] > 0xf4) return 0xfffd;
  uint32_t code = p[0] & (0x3fu >> more);
  for (size_t i = 1; i <= more; i++) {
    if ((p[i] & 0xc0) != 0x80) return 0xfffd;
    code = code << 6 | (p[i] & 0x3f);
  }
  if (code < least[more] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return 0xfffd;
  *size = more + 1;
  return code;
}

/* Characters that change the direction of the text around them. */
static bool is_bidi(uint32_t code) {
  return code == 0x200e || code == 0x200f || (code >= 0x202a && code <= 0x202e) ||
         (code >= 0x2066 && code <= 0x2069);
}

unsigned top_put(top_line_t *line, bool is_utf8, const char *text, unsigned width) {
  size_t length = strlen(line->text), size;
  unsigned used = 0;
  for (; *text; text += size) {
    uint32_t code = decode(text, &size);
    int columns = code < 0x80 ? (code >= ' ' && code < 0x7f ? 1 : -1) : wcwidth((wchar_t)code);
    bool shown = columns >= 0 && !is_bidi(code) && code != 0xfffd && (code < 0x80 || is_utf8);
    unsigned taken = shown ? (unsigned)columns : 1;
    if (used + taken > width || length + size + 1 > TOP_LINE_MAX) break;
    if (shown)
      memcpy(line->text + length, text, size);
    else
      line->text[length] = code == 0x2026 ? '.' : '?';
    length += shown ? size : 1;
    used += taken;
  }
  line->text[length] = 0;
  return used;
}
