/* SPDX-License-Identifier: MIT
 *
 * Detects the layout of a log and reads its file name. See apple_log.h.
 */
#include "import/apple_log.h"

#include <ctype.h>
#include <stdlib.h>

/* Records checked at either end of a log. */
#define CHECKED_RECORDS 4096u

static bool fits(const uint8_t *data, uint64_t size, apple_layout_t layout) {
  uint64_t count = size / layout;
  if (count == 0) return false;
  for (uint64_t i = 0; i < count; i++) {
    if (i == CHECKED_RECORDS && count > 2 * CHECKED_RECORDS) i = count - CHECKED_RECORDS;
    apple_record_t record = apple_decode(data + i * layout, layout);
    if (!apple_is_possible(&record)) return false;
    if (layout == APPLE_16 && (record.type & APPLE_ALLOC) && record.argument == 0 &&
        record.address == APPLE_ADDRESS_XOR)
      return false; /* all zeros: the upper half of a wider record */
  }
  return true;
}

apple_layout_t apple_detect(const uint8_t *data, uint64_t size, bool *ambiguous) {
  static const apple_layout_t layouts[] = {APPLE_32, APPLE_24, APPLE_16};
  apple_layout_t found = APPLE_UNKNOWN;
  *ambiguous = false;
  for (int i = 0; i < 3; i++) {
    if (!fits(data, size, layouts[i])) continue;
    *ambiguous |= found != APPLE_UNKNOWN;
    found = layouts[i];
  }
  return *ambiguous ? APPLE_UNKNOWN : found;
}

/* NAME.PID, which ends at END. */
static bool saved_name(const char *text, const char *end, uint32_t *pid, char *name,
                       size_t capacity) {
  uint64_t number = 0, unit = 1;
  const char *digits = end;
  for (; digits > text && isdigit((unsigned char)digits[-1]) && unit < 10000000000; unit *= 10)
    number += unit * (uint64_t)(*--digits - '0');
  size_t length = digits > text ? (size_t)(digits - 1 - text) : 0;
  if (digits == end || !length || digits[-1] != '.' || length >= capacity || number > INT32_MAX)
    return false;
  memcpy(name, text, length);
  name[length] = 0;
  *pid = (uint32_t)number;
  return true;
}

bool apple_file_name(const char *path, uint32_t *pid, char *name, size_t capacity) {
  static const char prefix[] = "stack-logs.", suffix[] = ".index";
  const char *slash = strrchr(path, '/'), *text = slash ? slash + 1 : path;
  size_t length = strlen(text), tail = sizeof suffix - 1 + 7; /* ".XXXXXX.index" */
  if (length < sizeof suffix || strcmp(text + length - (sizeof suffix - 1), suffix) != 0)
    return false;
  if (strncmp(text, prefix, sizeof prefix - 1) != 0)
    return saved_name(text, text + length - (sizeof suffix - 1), pid, name, capacity);
  if (length < sizeof prefix + tail) return false;
  char *end;
  unsigned long number = strtoul(text + sizeof prefix - 1, &end, 10);
  if (*end != '.' || end == text + sizeof prefix - 1 || number > INT32_MAX) return false;
  const char *from = end + 1, *to = text + length - tail;
  (void)strtoull(from, &end, 16);
  if (*end == '.' && end > from && end < to) from = end + 1; /* the address of a shared region */
  if (from >= to || (size_t)(to - from) >= capacity) return false;
  memcpy(name, from, (size_t)(to - from));
  name[to - from] = 0;
  *pid = (uint32_t)number;
  return true;
}
