/* SPDX-License-Identifier: MIT
 *
 * The threads of this process, read from /proc. Each file is opened, read and closed at once.
 */
#include <errno.h>
#include <fcntl.h>

#include "base/bits.h"
#include "base/text.h"
#include "os/linux/calls/call.h"
#include "os/linux/internal.h"
#include "os/os.h"

/* ---- names of files ------------------------------------------------------------------------- */

#define TASK_FOLDER    "/proc/self/task"
#define TASK_PATH_SIZE 48

/* The path of FILE of thread TID; with FROM_FOLDER relative to the folder of os_threads_open. */
static void task_path(char out[TASK_PATH_SIZE], bool from_folder, pid_t tid, const char *file) {
  char *at = from_folder ? out : text_append(out, TASK_FOLDER "/");
  *text_append(decimal_append(at, (uint32_t)tid), file) = '\0';
}

/* A missing file of a thread means that the thread has ended, as long as there is a /proc. */
static int task_error(pid_t tid, long error) {
  return (error == -ENOENT || error == -ESRCH) && !os_thread_alive(tid) ? -ESRCH : (int)error;
}

/* ---- the list ------------------------------------------------------------------------------- */

struct directory_entry { /* getdents64(2) */
  uint64_t inode;
  int64_t offset;
  uint16_t size;
  uint8_t type;
  char name[];
};

int os_threads_open(void) {
  return (int)call4(openat_tasks, AT_FDCWD, TASK_FOLDER, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
}

/* The identity is the inode number. /proc numbers the folder of each thread from a counter. It may
 * number it again later, if the kernel has dropped the folder from its cache. */
int os_threads_list(int folder, os_thread_visit_t *visit, void *context) {
  _Alignas(8) char entries[2048];
  long size;
  bool more = true;
  while (more && (size = call3(getdents64, folder, entries, sizeof entries)) > 0) {
    for (long at = 0; more && at < size;) {
      const struct directory_entry *entry = (const void *)(entries + at);
      const char *name = entry->name;
      pid_t tid = (pid_t)decimal_read(&name); /* 0: "." and ".." */
      if (tid > 0) more = visit(tid, entry->inode, context);
      at += entry->size;
    }
  }
  return more && size < 0 ? (int)size : 0;
}

int os_threads(os_thread_visit_t *visit, void *context) {
  int folder = os_threads_open();
  if (folder < 0) return folder;
  int r = os_threads_list(folder, visit, context);
  os_close(folder);
  return r;
}

/* ---- one thread ----------------------------------------------------------------------------- */

/* Reads FILE of a thread with one read, which suffices for these short files. Returns the size. */
static ssize_t read_task_file(int folder, pid_t tid, const char *file, char *out, size_t size) {
  char path[TASK_PATH_SIZE];
  bool from_folder = folder >= 0;
  task_path(path, from_folder, tid, file);
  int fd = (int)call4(openat_task, from_folder ? folder : AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) return task_error(tid, fd);
  ssize_t count = os_read(fd, out, size - 1);
  os_close(fd);
  if (count <= 0) return task_error(tid, count == 0 ? -ESRCH : count);
  out[count] = '\0';
  return count;
}

static const char *skip_fields(const char *at, int count) {
  for (; count > 0 && *at != '\0'; at++)
    if (*at == ' ') count--;
  return at;
}

static void copy_name(const char *from, const char *end, char out[OS_THREAD_NAME]) {
  size_t n = 0;
  while (from < end && n < OS_THREAD_NAME - 1)
    out[n++] = *from++;
  out[n] = '\0';
}

/* proc(5): "pid (name) state ppid …". The name may contain any character, even a parenthesis. Field
 * 32 is the set of the blocked signals among the first 31. */
int os_parse_thread(const char *text, os_thread_t *out) {
  const char *open = text, *close = NULL;
  while (*open != '\0' && *open != '(')
    open++;
  for (const char *c = open; *c != '\0'; c++)
    if (*c == ')') close = c;
  if (close == NULL || close[1] != ' ' || close[2] == '\0') return -EINVAL;
  *out = (os_thread_t){.state = close[2]};
  copy_name(open + 1, close, out->name);
  const char *blocked = skip_fields(close + 2, 32 - 3);
  out->blocked_signals = (uint32_t)decimal_read(&blocked);
  return 0;
}

/* Some kernels escape a newline and a backslash in /proc/…/stat (fs/proc/array.c). So a name with a
 * backslash is read again from /proc/…/comm, which has no escapes. */
static void read_plain_name(int folder, pid_t tid, char name[OS_THREAD_NAME]) {
  char plain[OS_THREAD_NAME + 2];
  bool escaped = false;
  for (const char *c = name; *c != '\0'; c++)
    escaped |= *c == '\\';
  if (!escaped) return;
  ssize_t size = read_task_file(folder, tid, "/comm", plain, sizeof plain);
  if (size > 0) copy_name(plain, plain + size - 1, name); /* without the newline that ends it */
}

int os_thread_read(int folder, pid_t tid, os_thread_t *out) {
  char text[1024];
  ssize_t size = read_task_file(folder, tid, "/stat", text, sizeof text);
  if (size < 0) return (int)size;
  int r = os_parse_thread(text, out);
  if (r != 0) return r;
  out->tid = tid;
  read_plain_name(folder, tid, out->name);
  return 0;
}

/* ---- where it is blocked -------------------------------------------------------------------- */

static bool read_hex(const char **at, uint64_t *value) {
  const char *c = *at;
  if (c[0] == ' ') c++;
  if (c[0] != '0' || c[1] != 'x') return false;
  *value = 0;
  for (c += 2;; c++) {
    uint64_t digit;
    if (*c >= '0' && *c <= '9')
      digit = (uint64_t)(*c - '0');
    else if (*c >= 'a' && *c <= 'f')
      digit = (uint64_t)(*c - 'a') + 10;
    else
      break;
    *value = *value << 4 | digit;
  }
  *at = c;
  return true;
}

/* proc(5), /proc/pid/syscall: "running", or "-1 sp pc" for a thread that is blocked outside a
 * system call, or the call's number, its six arguments, sp and pc. */
int os_parse_blocked(const char *text, os_blocked_t *out) {
  *out = (os_blocked_t){.call = -1};
  if (text[0] == 'r') return -EAGAIN;
  const char *at = text;
  bool in_call = *at != '-';
  if (in_call) out->call = (int64_t)decimal_read(&at);
  while (*at != '\0' && *at != ' ')
    at++;
  for (int i = 0; in_call && i < 6; i++)
    if (!read_hex(&at, &out->arguments[i])) return -EINVAL;
  return read_hex(&at, &out->sp) && read_hex(&at, &out->pc) ? 0 : -EINVAL;
}

static int read_blocked(int folder, pid_t tid, os_blocked_t *out) {
  char text[256];
  ssize_t size = read_task_file(folder, tid, "/syscall", text, sizeof text);
  return size < 0 ? (int)size : os_parse_blocked(text, out);
}

/* An emulator of user programs passes the file through, which then shows the emulator's registers.
 * So this thread reads its own file: it must show this very call, its buffer and this stack. */
static bool syscall_file_is_valid(void) {
  char text[256];
  os_blocked_t own;
  int fd = os_open_read("/proc/thread-self/syscall");
  if (fd < 0) return false;
  ssize_t size = os_read(fd, text, sizeof text - 1);
  os_close(fd);
  if (size <= 0) return false;
  text[size] = '\0';
  uint64_t here = (uintptr_t)text;
  return os_parse_blocked(text, &own) == 0 && own.call == SYS_read && own.arguments[1] == here &&
         own.sp <= here + sizeof text + 4096 && here <= own.sp + 4096;
}

int os_thread_blocked(int folder, pid_t tid, os_blocked_t *out) {
  static uint32_t verdict; /* 0: not asked yet, 1: it does, 2: it does not */
  uint32_t known = load_relaxed(&verdict);
  if (known == 0) {
    known = syscall_file_is_valid() ? 1 : 2;
    store_relaxed(&verdict, known);
  }
  return known == 1 ? read_blocked(folder, tid, out) : -ENOSYS;
}

/* The per-thread CPU clock (clock_getcpuclockid(3); include/linux/posix-timers.h: the id's
 * complement, then "per thread" and "scheduler's"). For a thread on a CPU the kernel adds what is
 * not yet booked, so the clock of a thread that has run has moved (for the exceptions see os.h). */
static int64_t cpu_ns(pid_t tid) {
  struct kernel_timespec time = {0, 0};
  long r = call2(clock_cpu, (int32_t)(~(uint32_t)tid << 3 | 4 | 2), &time);
  return r < 0 ? r : time.seconds * 1000000000 + time.nanoseconds;
}

/* On a machine whose cycle counter the kernel does not trust, CPU time goes by the timer's ticks,
 * and a thread can run between two of them. Ours runs: its clock must have moved at the next look.
 */
static bool clock_is_fine(void) {
  pid_t own = os_tid();
  for (int i = 0; i < 4; i++) {
    int64_t before = cpu_ns(own);
    if (before < 0 || cpu_ns(own) == before) return false;
  }
  return true;
}

uint32_t linux_cpu_clock;

int64_t os_thread_cpu_ns(pid_t tid) {
  uint32_t known = load_relaxed(&linux_cpu_clock);
  if (UNLIKELY(known == 0)) {
    known = clock_is_fine() ? 1 : 2;
    store_relaxed(&linux_cpu_clock, known);
  }
  return known == 1 ? cpu_ns(tid) : -ENOSYS;
}

/* ---- progress of a thread ------------------------------------------------------------------ */

/* /proc/…/schedstat: Documentation/scheduler/sched-stats.rst. */
typedef struct schedstat {
  uint64_t run_ns, ready_ns;
  uint64_t arrivals; /* how often it was put on a CPU; the kernel counts before it lets it run */
} schedstat_t;

static int read_schedstat(int folder, pid_t tid, schedstat_t *out) {
  char text[96];
  *out = (schedstat_t){0};
  ssize_t size = read_task_file(folder, tid, "/schedstat", text, sizeof text);
  if (size < 0) return (int)size;
  uint64_t *const fields[] = {&out->run_ns, &out->ready_ns, &out->arrivals};
  const char *at = text;
  for (int i = 0; i < 3; i++, at += *at == ' ')
    *fields[i] = decimal_read(&at);
  return 0;
}

bool os_thread_times(pid_t tid, uint64_t *run_ns, uint64_t *ready_ns) {
  schedstat_t s;
  int r = read_schedstat(-1, tid, &s);
  *run_ns = s.run_ns;
  *ready_ns = s.ready_ns;
  return r == 0;
}

typedef struct use_listing {
  int folder;
  os_thread_use_visit_t *visit;
  void *context;
} use_listing_t;

static bool list_use(pid_t tid, uint64_t identity, void *context) {
  const use_listing_t *listing = context;
  schedstat_t s;
  if (read_schedstat(listing->folder, tid, &s) == 0)
    listing->visit(tid, identity, s.run_ns, listing->context);
  return true;
}

int os_threads_use(os_thread_use_visit_t *visit, void *context) {
  use_listing_t listing = {os_threads_open(), visit, context};
  if (listing.folder < 0) return listing.folder;
  int r = os_threads_list(listing.folder, list_use, &listing);
  os_close(listing.folder);
  return r;
}

uint32_t linux_schedstat;

/* Some kernels have no such file, or one of zeros. Ours has been put on a CPU, or it would not ask.
 */
static bool schedstat_counts(void) {
  schedstat_t own;
  uint32_t known = load_relaxed(&linux_schedstat);
  if (known == 0) {
    known = read_schedstat(-1, os_tid(), &own) == 0 && own.arrivals > 0 ? 1 : 2;
    store_relaxed(&linux_schedstat, known);
  }
  return known == 1;
}

/* The number after LABEL; negative when there is none. */
static int64_t number_after(const char *text, const char *label) {
  for (; *text != '\0'; text++) {
    const char *at = text, *l = label;
    while (*l != '\0' && *at == *l)
      at++, l++;
    if (*l == '\0') return (int64_t)decimal_read(&at);
  }
  return -1;
}

/* /proc/…/status: how often it was taken off a CPU. Such a count stands still also for a thread
 * that runs; so it is asked first whether it does. */
static int64_t read_departures(int folder, pid_t tid) {
  char text[4096];
  os_blocked_t at;
  int r = os_thread_blocked(folder, tid, &at);
  if (r != 0) return r;
  ssize_t size = read_task_file(folder, tid, "/status", text, sizeof text);
  if (size < 0) return size;
  int64_t left = number_after(text, "\nvoluntary_ctxt_switches:\t");
  int64_t driven = number_after(text, "\nnonvoluntary_ctxt_switches:\t");
  return left < 0 || driven < 0 ? -ENOSYS : left + driven;
}

int64_t os_thread_progress_exact(int folder, pid_t tid) {
  schedstat_t s;
  if (!schedstat_counts()) return os_thread_progress(folder, tid);
  int r = read_schedstat(folder, tid, &s);
  return r < 0 ? r : (int64_t)s.arrivals;
}

int64_t os_thread_progress(int folder, pid_t tid) {
  int64_t used = os_thread_cpu_ns(tid);
  if (used >= 0) return used;
  if (load_relaxed(&linux_cpu_clock) == 1) return -ESRCH; /* it would have told of any thread */
  return schedstat_counts() ? os_thread_progress_exact(folder, tid) : read_departures(folder, tid);
}
