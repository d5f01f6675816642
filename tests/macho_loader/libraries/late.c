/* SPDX-License-Identifier: MIT
 *
 * Loaded while the program runs.
 */
#include <sys/stat.h>
#include <unistd.h>

int late_constructor_pid;

__attribute__((constructor)) static void begin(void) {
  struct stat st;
  late_constructor_pid = getpid();
  (void)stat("/late", &st);
}

int late_call(void);
int late_call(void) { return getpid(); }
