/* SPDX-License-Identifier: MIT
 *
 * A test program for macOS, for libsonde there: an ordinary executable that uses nothing but
 * libSystem, libobjc, CoreFoundation and libsonde. Exit status 1 when a check failed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "sonde/name.h"
#include "sonde/stack.h"

static int made, failed;

int checks_failed(void) { return failed; }
int checks_made(void) { return made; }

void say(const char *text) { (void)write(1, text, strlen(text)); }

void check(bool good, const char *what) {
  made++;
  if (!good) failed++;
  say(good ? "ok " : "FAILED ");
  say(what);
  say("\n");
}

bool is_named(uintptr_t pc, const char *name) {
  sonde_name_t found;
  if (sonde_name(pc, 0, &found) != 0 || !found.symbol) return false;
  const char *symbol = found.symbol[0] == '_' ? found.symbol + 1 : found.symbol;
  return strcmp(symbol, name) == 0;
}

bool has_chain(const uintptr_t *pcs, int count, const char *const *names) {
  for (int start = 0; start < count; start++) {
    int i = 0;
    while (names[i] && start + i < count && is_named(pcs[start + i], names[i]))
      i++;
    if (!names[i]) return true;
  }
  (void)sonde_stack_print(1, pcs, count, 0); /* what it was instead */
  return false;
}

int main(int argc, char **argv) {
  if (argc > 3 && strcmp(argv[1], "stops") == 0) {
    run_stops(atoi(argv[2]), (uint64_t)atoi(argv[3]));
    return 0;
  }
  if (argc > 3 && strcmp(argv[1], "signals") == 0) {
    run_signals(atoi(argv[2]), (uint64_t)atoi(argv[3]));
    return 0;
  }
  if (argc > 2 && strcmp(argv[1], "messages") == 0) {
    check_messages(argv[2]);
  } else if (argc > 1 && strcmp(argv[1], "loop") == 0) {
    check_loop();
    check_cpu();
    check_locks();
  } else if (argc > 3 && strcmp(argv[1], "apple") == 0) {
    check_apple_log(argv[2], strcmp(argv[3], "private") == 0);
  } else if (argc > 1 && strcmp(argv[1], "suspended") == 0) {
    check_suspended(argc > 2 ? argv[2] : NULL);
  } else if (argc > 2 && strcmp(argv[1], "misbehave") == 0) {
    misbehave(argv[2]);
  } else if (argc > 4 && strcmp(argv[1], "audit") == 0) {
    check_audit(argv[2], argv[3], argv[4]);
  } else {
    check_stacks();
    check_threads();
    check_async();
    check_ns_thread();
    if (argc > 1) check_hooks(argv[1]);
    if (argc > 3) check_log(argv[2], strcmp(argv[3], "private") == 0);
  }
  char line[64];
  snprintf(line, sizeof line, "%d checks, %d failed\n", made, failed);
  say(line);
  return failed ? 1 : 0;
}
