/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "recorder/monitor/outside/dormant.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attach/object.h"
#include "attach/permit.h"
#include "base/bits.h"
#include "base/message.h"
#include "dormant/board.h"
#include "os/os.h"
#include "recorder/start/launch.h"
#include "recorder/process_facts.h"

#define WAKE_LIMIT_NS UINT64_C(60000000000)
#define REST_LIMIT_NS UINT64_C(5000000000)
/* After this, the user is told why nothing happens. */
#define QUIET_NS UINT64_C(1000000000)
#define CALL_MS  100
/* The agent needs a few milliseconds, but may wait for a thread that is in it. */
#define WORK_NS UINT64_C(10000000000)

typedef struct found {
  char path[PATH_MAX];
  unsigned long long inode;
} found_t;

typedef struct open_board {
  int fd;
  board_t *board;
  board_slot_t *slot;
} open_board_t;

/* ---- the file ----------------------------------------------------------------------------- */

/* The mapped board of PID. */
static bool find_board(pid_t pid, found_t *out) {
  char path[32], *line = NULL;
  size_t size = 0;
  bool found = false;
  snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
  FILE *maps = fopen(path, "re");
  while (maps && !found && getline(&line, &size, maps) > 0) {
    int at = 0;
    if (sscanf(line, "%*s rw-s %*s %*s %llu %n", &out->inode, &at) < 1 || line[at] != '/') continue;
    line[strcspn(line, "\n")] = 0;
    const char *name = strrchr(line + at, '/') + 1;
    found = !strncmp(name, BOARD_NAME, strlen(BOARD_NAME)) &&
            snprintf(out->path, sizeof out->path, "%s", line + at) < (int)sizeof out->path;
  }
  if (maps) fclose(maps);
  free(line);
  return found;
}

bool dormant_is_in(pid_t pid) {
  found_t found;
  return find_board(pid, &found);
}

/* Opens PATH below the root folder of PID and follows no link in it. */
static int open_in_root(pid_t pid, const char *path) {
  char root[32];
  snprintf(root, sizeof root, "/proc/%d/root", (int)pid);
  const struct open_how how = {.flags = O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOCTTY,
                               .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS};
  int folder = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return -1;
  int fd = (int)syscall(SYS_openat2, folder, path, &how, sizeof how);
  int error = errno;
  close(folder);
  errno = error;
  return fd;
}

static bool is_board(int fd, const found_t *found) {
  struct stat s;
  return fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_ino == found->inode && s.st_nlink == 1 &&
         s.st_size >= (off_t)BOARD_BYTES && !(s.st_mode & 077) &&
         (s.st_uid == geteuid() || geteuid() == 0);
}

static bool open_board(open_board_t *b, pid_t pid, problem_t *problem) {
  found_t found;
  *b = (open_board_t){.fd = -1};
  if (!find_board(pid, &found)) {
    problem_set(problem, "process %d has no dormant agent any more", (int)pid);
    return false;
  }
  b->fd = open_in_root(pid, found.path);
  if (b->fd < 0 || !is_board(b->fd, &found)) {
    problem_set(problem, "the dormant agent of process %d cannot be called through '%s': %s",
                (int)pid, found.path,
                b->fd < 0 ? strerror(errno) : "it is not the file that the program has mapped");
    return false;
  }
  void *map = mmap(NULL, BOARD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, b->fd, 0);
  if (map != MAP_FAILED) b->board = map;
  if (!b->board) problem_set(problem, "cannot map '%s': %s", found.path, strerror(errno));
  return b->board != NULL;
}

static void close_board(open_board_t *b) {
  if (b->board) munmap(b->board, BOARD_BYTES);
  if (b->fd >= 0) close(b->fd); /* and its locks */
}

/* ---- the slot ----------------------------------------------------------------------------- */

static bool lock_slot(const open_board_t *b, size_t i, short type) {
  struct flock range = {.l_type = type,
                        .l_whence = SEEK_SET,
                        .l_start = (off_t)(offsetof(board_t, slots) + i * sizeof(board_slot_t)),
                        .l_len = sizeof(board_slot_t)};
  return fcntl(b->fd, F_OFD_SETLK, &range) == 0;
}

/* 0: another process's request waits there, whose command has ended. */
static int rank_of(const board_slot_t *slot, uint32_t pid) {
  uint32_t state = load_acquire(&slot->state);
  if (load_relaxed(&slot->pid) == pid) return state == BOARD_TAKEN ? -1 : 3;
  if (state == BOARD_FREE) return 2;
  return state == BOARD_DONE;
}

/* Locks the slot that was this process's before, or a free one, or a left one. */
static bool take_slot(open_board_t *b, uint32_t pid, problem_t *problem) {
  for (int rank = 3; rank >= 0; rank--)
    for (size_t i = 0; i < BOARD_SLOTS; i++) {
      board_slot_t *slot = &b->board->slots[i];
      if (rank_of(slot, pid) != rank || !lock_slot(b, i, F_WRLCK)) continue;
      b->slot = slot;
      return true;
    }
  problem_set(problem, "too many programs wake at once: try again");
  return false;
}

static bool set_build(board_slot_t *slot, problem_t *problem) {
  char path[PATH_MAX];
  object_t object;
  if (!launch_find_attached(path, sizeof path)) {
    problem_set(problem, "libsonde-attached.so is missing beside the command; install it");
    return false;
  }
  if (!object_open(&object, path, problem)) return false;
  slot->build_id_size = (uint32_t)object.build_id_size;
  memcpy(slot->build_id, object.build_id, object.build_id_size);
  object_close(&object);
  return true;
}

static void call(const open_board_t *b) {
  __atomic_fetch_add(&b->board->calls, 1, __ATOMIC_ACQ_REL);
}

static bool write_slot(const open_board_t *b, uint32_t pid, uint32_t request, const char *settings,
                       problem_t *problem) {
  board_slot_t *slot = b->slot;
  store_release(&slot->state, BOARD_FREE);
  if (!set_build(slot, problem)) return false;
  slot->request = request;
  slot->status = 0;
  slot->message[0] = 0;
  snprintf(slot->settings, sizeof slot->settings, "%s", settings);
  store_relaxed(&slot->pid, pid);
  store_release(&slot->state, BOARD_ASKED);
  call(b);
  return true;
}

/* ---- waiting ------------------------------------------------------------------------------ */

/* The signals that end a recording are blocked (observed_take_signals). */
static bool is_interrupted(void) {
  sigset_t pending;
  return sigpending(&pending) == 0 &&
         (sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1 ||
          sigismember(&pending, SIGHUP) == 1);
}

/* Waits until the program has done what the slot says; serves the socket meanwhile. The call is
 * repeated: a program may have looked at the board for another process. */
static bool wait_for_answer(control_t *control, const open_board_t *b, uint64_t limit_ns) {
  uint64_t start_ns = os_monotonic_ns();
  bool told = false;
  for (uint64_t waited = 0; load_acquire(&b->slot->state) != BOARD_DONE;
       waited = os_monotonic_ns() - start_ns) {
    struct pollfd fd = {.fd = control->fd, .events = POLLIN};
    bool taken = load_acquire(&b->slot->state) == BOARD_TAKEN;
    if (waited >= limit_ns + (taken ? WORK_NS : 0) || (is_interrupted() && !taken) ||
        (kill(control->pid, 0) < 0 && errno == ESRCH))
      return false;
    if (waited > QUIET_NS && !told && !taken)
      message_note("process %d notices at its next malloc, free or wait; it makes none now",
                   (int)control->pid);
    told |= waited > QUIET_NS;
    if (poll(&fd, 1, CALL_MS) > 0) control_serve(control);
    call(b);
  }
  return true;
}

static bool explain_answer(const board_slot_t *slot, pid_t pid, problem_t *problem) {
  if (slot->status == 0) return true;
  problem_set(problem, "the dormant agent of process %d answers: %.*s", (int)pid,
              (int)sizeof slot->message - 1, slot->message[0] ? slot->message : "no reason");
  return false;
}

/* The agent connects to the recorder's socket, whose name is one of the network namespace. */
static bool shares_network(pid_t pid, problem_t *problem) {
  char path[32];
  struct stat own, its;
  snprintf(path, sizeof path, "/proc/%d/ns/net", (int)pid);
  if (stat("/proc/self/ns/net", &own) < 0 || stat(path, &its) < 0 || own.st_ino == its.st_ino)
    return true;
  problem_set(
      problem,
      "process %d is in another network namespace: use 'nsenter --net --target %d sonde ctl "
      "%d record'",
      (int)pid, (int)pid, (int)pid);
  return false;
}

static bool ask(control_t *control, uint32_t request, const char *settings, uint64_t limit_ns,
                problem_t *problem) {
  open_board_t b;
  uint32_t asked = BOARD_ASKED, pid = (uint32_t)process_facts_own_pid(control->pid);
  if (!permit_check_filters(control->pid, problem) || !shares_network(control->pid, problem))
    return false;
  bool good = open_board(&b, control->pid, problem);
  good = good && take_slot(&b, pid, problem) && write_slot(&b, pid, request, settings, problem);
  if (good && wait_for_answer(control, &b, limit_ns)) {
    good = explain_answer(b.slot, control->pid, problem);
  } else if (good) {
    good = false;
    problem_set(problem, "process %d has not called malloc, free or a wait: its agent %s",
                (int)control->pid,
                request == ATTACH_START ? "sleeps on" : "rests when the program does");
    if (request == ATTACH_START) (void)cas_acq_rel(&b.slot->state, &asked, BOARD_FREE);
  }
  close_board(&b);
  return good;
}

bool dormant_wake(control_t *control, const char *settings, problem_t *problem) {
  return ask(control, (uint32_t)ATTACH_START, settings, WAKE_LIMIT_NS, problem);
}

bool dormant_rest(control_t *control, problem_t *problem) {
  return ask(control, (uint32_t)ATTACH_STOP, "", REST_LIMIT_NS, problem);
}
