/* SPDX-License-Identifier: MIT */
#include "recorder/monitor/unsampled.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "recorder/preload_check.h"

static bool has_io_uring(pid_t pid) {
  char path[64], link[64];
  snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
  DIR *folder = opendir(path);
  struct dirent *entry;
  bool found = false;
  while (folder && !found && (entry = readdir(folder))) {
    ssize_t n = readlinkat(dirfd(folder), entry->d_name, link, sizeof link - 1);
    link[n > 0 ? n : 0] = 0;
    found = !strcmp(link, "anon_inode:[io_uring]");
  }
  if (folder) closedir(folder);
  return found;
}

unsigned unsampled_detect(pid_t pid) {
  return (preload_check_process_is_go(pid) ? UNSAMPLED_GO : 0) |
         (has_io_uring(pid) ? UNSAMPLED_IO_URING : 0);
}

const char *unsampled_text(unsigned one) {
  switch (one) {
  case UNSAMPLED_GO:
    return "a Go program: goroutines wait in the Go runtime's own system calls, so their stalls "
           "are not detected";
  case UNSAMPLED_IO_URING:
    return "the program uses io_uring: stalls of a loop that waits in the ring, not in epoll or "
           "poll, are not detected";
  case UNSAMPLED_OUTSIDE:
    return "from outside, a stall is one long wait: iterations that use the CPU or wait many times "
           "are not detected";
  default:
    return "more than 256 threads run event loops: stalls of the later ones are not detected";
  }
}
