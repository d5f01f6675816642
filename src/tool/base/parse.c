/* SPDX-License-Identifier: MIT
 *
 * Numbers, sizes, durations, days and addresses as users type them. Each function reads a whole
 * text unless it says otherwise, and returns false when the text is not such a value.
 */
#include "base/parse.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

bool parse_number(const char *text, long min, long max, long *out) {
  char *end;
  errno = 0;
  if (!isdigit((unsigned char)text[0]) && text[0] != '-') return false;
  long value = strtol(text, &end, 10);
  if (errno || *end || value < min || value > max) return false;
  *out = value;
  return true;
}

bool parse_duration(const char *text, double *out_ns) {
  static const struct {
    const char *name;
    double ns;
  } units[] = {{"ns", 1}, {"us", 1e3}, {"µs", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  char *end;
  double value = strtod(text, &end);
  if (end == text || !(value >= 0 && value < 1e12)) return false;
  for (size_t i = 0; i < sizeof units / sizeof *units; i++)
    if (!strcmp(end, units[i].name)) {
      *out_ns = value * units[i].ns;
      return true;
    }
  return false;
}

bool parse_day(const char *text, int64_t *out) {
  enum { DAY_SECONDS = 24 * 60 * 60 };
  struct tm day = {0}, back;
  int used = 0;
  if (sscanf(text, "%4d-%2d-%2d%n", &day.tm_year, &day.tm_mon, &day.tm_mday, &used) != 3 ||
      used != 10 || text[10] || day.tm_mon < 1 || day.tm_mon > 12 || day.tm_mday < 1)
    return false;
  day.tm_year -= 1900;
  day.tm_mon -= 1;
  int wanted = day.tm_mday; /* timegm turns 30 February into 2 March */
  time_t start = timegm(&day);
  if (start < 0 || !gmtime_r(&start, &back) || back.tm_mday != wanted) return false;
  *out = start / DAY_SECONDS;
  return true;
}

/* The value of a hexadecimal digit, + 1; 0: not a digit. */
static const uint8_t hex_values[256] = {
    ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
    ['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
    ['A'] = 11, ['B'] = 12, ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16};

bool parse_address_prefix(const char **text, uint64_t *out) {
  const char *at = *text;
  if (at[0] == '0' && (at[1] == 'x' || at[1] == 'X')) at += 2;
  uint64_t value = 0;
  const char *digits = at;
  unsigned digit;
  for (; (digit = hex_values[(unsigned char)*at]) && !(value >> 60); at++)
    value = value << 4 | (digit - 1);
  *text = at;
  *out = value;
  return at > digits;
}

bool parse_address(const char *text, uint64_t *out) {
  return parse_address_prefix(&text, out) && !*text;
}

bool parse_size(const char *text, uint64_t *out) {
  char *end;
  errno = 0;
  unsigned long long value = strtoull(text, &end, 10);
  unsigned shift = 0;
  if (errno || end == text || *text == '-') return false;
  if (*end == 'K' || *end == 'k')
    shift = 10, end++;
  else if (*end == 'M' || *end == 'm')
    shift = 20, end++;
  else if (*end == 'G' || *end == 'g')
    shift = 30, end++;
  if (*end || value > UINT64_MAX >> shift || value == 0) return false;
  *out = (uint64_t)value << shift;
  return true;
}
