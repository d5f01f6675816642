/* SPDX-License-Identifier: MIT */
#include "cli/linux/leaks_client.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/message.h"
#include "base/terminal.h"
#include "os/os.h"
#include "recorder/control.h"
#include "sonde/status.h"

#define POLL_NS UINT64_C(100000000)

bool leaks_client_begin(leaks_client_t *c, pid_t pid) {
  char *reply = NULL;
  bool failed = false;
  *c = (leaks_client_t){.pid = pid};
  int status = control_request(pid, "leaks=copy", &reply, &failed);
  if (status < 0) {
    (void)control_print_error(pid, status);
    return false;
  }
  int read = 0;
  if (failed)
    (void)message_fail("%s", reply);
  else if ((read = sscanf(reply, "recorder %d exchange %d recording %d", &c->recorder,
                          &c->exchange_fd, &c->recording_fd)) != 3)
    (void)message_fail("the recorder of process %d has another version", (int)pid);
  free(reply);
  return read == 3;
}

void leaks_client_end(const leaks_client_t *c) {
  char *reply = NULL;
  bool failed;
  if (control_request(c->pid, "leaks=end", &reply, &failed) == 0) free(reply);
}

/* The recorder makes the exchange as large as its address space; the program then sets its size. */
leaks_exchange_t *leaks_client_map(const leaks_client_t *c, uint64_t *size) {
  char path[64];
  struct stat s;
  snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)c->recorder, c->exchange_fd);
  int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return NULL;
  void *map = MAP_FAILED;
  *size = 0;
  if (fstat(fd, &s) == 0 && (uint64_t)s.st_size >= sizeof(leaks_exchange_t)) {
    map = mmap(NULL, (size_t)s.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    *size = (uint64_t)s.st_size;
  }
  close(fd);
  if (map == MAP_FAILED) return NULL;
  leaks_exchange_t *x = map;
  if (x->magic == LEAKS_MAGIC && x->size <= *size && x->size >= sizeof *x) {
    uint64_t whole = *size;
    *size = x->size;
    if (whole > *size) munmap((uint8_t *)map + ALIGN_UP(*size, UINT64_C(4096)), whole - *size);
    return x;
  }
  munmap(map, *size);
  return NULL;
}

static bool has_ended(uint32_t pid) {
  char path[40], text[512];
  snprintf(path, sizeof path, "/proc/%" PRIu32 "/stat", pid);
  ssize_t n = os_read_file(path, text, sizeof text);
  const char *close = n > 0 ? strrchr(text, ')') : NULL;
  return !close || close[1] != ' ' || close[2] == 'Z' || close[2] == 'X';
}

bool leaks_client_search(leaks_exchange_t *x, uint64_t address) {
  terminal_progress_t progress;
  terminal_progress_start(&progress, "searching the copy", 0);
  x->wanted = address;
  store_release(&x->state, (uint32_t)LEAKS_READY);
  (void)os_futex_wake_shared(&x->state, INT32_MAX);
  bool ended = false;
  while (load_acquire(&x->state) == LEAKS_READY && !ended) {
    (void)os_futex_wait_shared(&x->state, LEAKS_READY, POLL_NS);
    ended = has_ended(x->copy_pid);
    terminal_progress_step(&progress, 0);
  }
  terminal_progress_end(&progress);
  uint32_t state = load_acquire(&x->state);
  if (state == LEAKS_DONE) return true;
  if (state == LEAKS_FAILED)
    (void)message_fail("cannot search the copy: %s", sonde_strerror(x->error));
  else
    (void)message_fail("the copy of the process ended before it was searched");
  return false;
}
