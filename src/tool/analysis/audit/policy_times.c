/* SPDX-License-Identifier: MIT */
#include "analysis/audit/policy_times.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool policy_day(const char *text, time_t *out) {
  struct tm day = {0}, back;
  int used = 0;
  if (!text || sscanf(text, "%4d-%2d-%2d%n", &day.tm_year, &day.tm_mon, &day.tm_mday, &used) != 3 ||
      used != 10 || text[10] || day.tm_mon < 1 || day.tm_mon > 12 || day.tm_mday < 1)
    return false;
  day.tm_year -= 1900;
  day.tm_mon -= 1;
  int wanted = day.tm_mday; /* timegm makes 2 March of 30 February */
  time_t start = timegm(&day);
  if (start <= 0 || !gmtime_r(&start, &back) || back.tm_mday != wanted) return false;
  *out = start + 24 * 60 * 60;
  return true;
}

bool policy_window(const char *text, uint64_t *ns) {
  char *end;
  unsigned long long n = text && isdigit((unsigned char)*text) ? strtoull(text, &end, 10) : 0;
  if (!n || n > 1000000) return false;
  if (!strcmp(end, "ms"))
    *ns = n * 1000000;
  else if (!strcmp(end, "s"))
    *ns = n * 1000000000;
  else if (!strcmp(end, "m"))
    *ns = n * 60000000000;
  else
    return false;
  return true;
}
