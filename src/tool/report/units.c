/* SPDX-License-Identifier: MIT
 *
 * Formats numbers with units.
 */
#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "report/report.h"

enum { TEXT_SIZE = 24 };

char *report_bytes(int64_t bytes, char *text) {
  static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
  double value = (double)bytes;
  int unit = 0;
  while ((value >= 1000 || value <= -1000) && unit < 6) {
    value /= 1000;
    unit++;
  }
  snprintf(text, TEXT_SIZE, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
  return text;
}

char *report_duration(double ns, char *text) {
  static const char *const units[] = {"ns", "µs", "ms", "s"};
  int unit = 0;
  while (ns >= 1000 && unit < 3) {
    ns /= 1000;
    unit++;
  }
  snprintf(text, TEXT_SIZE, unit || (ns > 0 && ns < 10) ? "%.1f %s" : "%.0f %s", ns, units[unit]);
  return text;
}

char *report_count(uint64_t count, char *text) {
  char digits[TEXT_SIZE];
  int n = snprintf(digits, sizeof digits, "%" PRIu64, count), out = 0;
  for (int i = 0; i < n && out < TEXT_SIZE - 1; i++) {
    if (i && (n - i) % 3 == 0 && out < TEXT_SIZE - 2) text[out++] = ',';
    text[out++] = digits[i];
  }
  text[out] = 0;
  return text;
}

/* "libraries" becomes "library", and "stacks" becomes "stack". */
static void singular(const char *plural, char *out, size_t size) {
  int length = (int)strlen(plural);
  bool is_ies = length > 3 && strcmp(plural + length - 3, "ies") == 0;
  if (is_ies)
    snprintf(out, size, "%.*sy", length - 3, plural);
  else
    snprintf(out, size, "%.*s", length ? length - 1 : 0, plural);
}

void report_more(const report_t *r, size_t count, const char *plural, FILE *out) {
  char one[64];
  singular(plural, one, sizeof one);
  fprintf(out, "  … and %zu more%s%s%s\n", count, *plural ? " " : "", count == 1 ? one : plural,
          report_rest(r));
}

char *report_error(double error, double value, char *text) {
  double share = value < 0 ? -value : value;
  share = share > 0 ? 100 * error / share : 0;
  snprintf(text, TEXT_SIZE, share > 0 && share < 0.95 ? "± %.1f %%" : "± %.0f %%", share);
  return text;
}

const char *report_signal_name(uint64_t number) {
  static const char *const names[] = {
      [SIGHUP] = "SIGHUP",   [SIGINT] = "SIGINT",   [SIGQUIT] = "SIGQUIT", [SIGILL] = "SIGILL",
      [SIGTRAP] = "SIGTRAP", [SIGABRT] = "SIGABRT", [SIGBUS] = "SIGBUS",   [SIGFPE] = "SIGFPE",
      [SIGKILL] = "SIGKILL", [SIGUSR1] = "SIGUSR1", [SIGSEGV] = "SIGSEGV", [SIGUSR2] = "SIGUSR2",
      [SIGPIPE] = "SIGPIPE", [SIGALRM] = "SIGALRM", [SIGTERM] = "SIGTERM", [SIGXCPU] = "SIGXCPU",
      [SIGXFSZ] = "SIGXFSZ", [SIGSYS] = "SIGSYS"};
  const char *name = number < sizeof names / sizeof *names ? names[number] : NULL;
  return name ? name : "SIG?";
}
