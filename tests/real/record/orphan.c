/* SPDX-License-Identifier: MIT
 *
 * For tests/real/log_orphans.py.
 *
 *   orphan write LOG    starts a log, prints a line, and waits to be killed
 *   orphan own LOG      starts a log and prints what sonde_log_remove_orphan returns while the log
 *                       is written and after its end
 *   orphan remove FILE  prints what sonde_log_remove_orphan returns
 *   orphan reused FILE  the same, after it has written its own process id into the header
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sonde/log.h>
#include <sonde/malloc.h>

/* docs/format.md: pid and recorder_pid. */
static int take_over(const char *path) {
  uint32_t pid = (uint32_t)getpid();
  int fd = open(path, O_WRONLY);
  return fd < 0 || pwrite(fd, &pid, sizeof pid, 80) < 0 || pwrite(fd, &pid, sizeof pid, 120) < 0 ||
         close(fd);
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  if (!strcmp(argv[1], "reused") && take_over(argv[2])) return 5;
  if (!strcmp(argv[1], "remove") || !strcmp(argv[1], "reused")) {
    printf("%d\n", sonde_log_remove_orphan(argv[2]));
    return 0;
  }
  if (sonde_malloc_log_start(argv[2], SONDE_MALLOC_LIVE)) return 3;
  if (!strcmp(argv[1], "write")) {
    puts("started");
    fflush(stdout);
    pause();
  }
  printf("%d", sonde_log_remove_orphan(argv[2]));
  if (sonde_malloc_log_stop()) return 4;
  printf(" %d\n", sonde_log_remove_orphan(argv[2]));
  return 0;
}
