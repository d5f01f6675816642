/* SPDX-License-Identifier: MIT
 *
 * A program for macOS or iOS that switches on the malloc log of the system, and writes its events,
 * stacks and images where `sonde import` can read them (sonde/apple_log.h). Elsewhere it says that
 * there is no such log.
 *
 *   cc apple_log.c -lsonde
 *   ./a.out FOLDER
 */
#include <stdio.h>
#include <stdlib.h>

#include <sonde/sonde.h>

int main(int argc, char **argv) {
  int status = sonde_apple_log_start(SONDE_APPLE_LOG_ALL);
  if (status < 0) {
    printf("no log: %s\n", sonde_strerror(status));
    return status != SONDE_EUNSUPPORTED;
  }
  void *kept = malloc(1234);
  char path[1024];
  if (sonde_apple_log_path(path, sizeof path) > 0) printf("the log: %s\n", path);
  status = sonde_apple_log_save(argc > 1 ? argv[1] : NULL);
  if (status < 0)
    printf("not saved: %s\n", sonde_strerror(status));
  else
    printf("saved; %d stacks could not be read\n", status);
  sonde_apple_log_stop();
  free(kept);
  return status < 0;
}
