/* SPDX-License-Identifier: MIT
 *
 * Files and memory of a recording, by public functions of libSystem. A program on Apple's systems
 * records itself, without a recorder process.
 */
#include <crt_externs.h>
#include <errno.h>
#include <fcntl.h>
#include <mach-o/loader.h>
#include <mach/mach.h>
#include <mach/vm_map.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/text.h"
#include "os/apple/thread.h"
#include "os/os.h"

/* ---- files ---------------------------------------------------------------------------------- */

#define HIGH_DESCRIPTOR 512

static int as_high(int fd) {
  int high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, HIGH_DESCRIPTOR);
  if (high < 0) return fd; /* the limit on descriptors may be lower */
  close(fd);
  return high;
}

static int result_of(int value, int saved) {
  int result = value < 0 ? -errno : value;
  errno = saved;
  return result;
}

int os_open_high(const char *path) {
  int saved = errno;
  return result_of(as_high(open(path, O_RDWR | O_CLOEXEC | O_NOCTTY)), saved);
}

int os_create_high(const char *path) {
  const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY;
  int saved = errno;
  return result_of(as_high(open(path, flags, 0600)), saved);
}

bool os_keep_at_exec(int fd) { return fcntl(fd, F_SETFD, 0) == 0; }

int os_open_of_process(uint32_t pid, uint32_t fd) {
  int saved = errno;
  if (pid != (uint32_t)os_pid()) return -ENOSYS;
  return result_of(fcntl((int)fd, F_DUPFD_CLOEXEC, HIGH_DESCRIPTOR), saved);
}

static const char *temporary_folder(void) {
  for (char *const *variable = *_NSGetEnviron(); variable && *variable; variable++)
    if (text_after(*variable, "TMPDIR=")) return text_after(*variable, "TMPDIR=");
  return NULL;
}

/* A file in the program's temporary folder, which a sandboxed app may write. It has no name once it
 * is open, and is not written back while memory is plentiful. */
static int open_temporary(const char *name) {
  char path[1024];
  const char *folder = temporary_folder();
  if (!folder || text_length(folder) + text_length(name) >= sizeof path) return -1;
  *text_append(text_append(path, folder), name) = 0;
  int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd >= 0) (void)unlink(path);
  return fd;
}

/* Shared memory whose name is removed at once. A name has at most 31 characters (PSHMNAMLEN). The
 * sandbox of an app for iOS refuses names outside the app's groups; a file then serves. */
int os_memory_file(const char *name) {
  static uint32_t count;
  char path[64], *p = text_append(path, "/");
  p = decimal_append(p, (uint32_t)os_pid());
  p = text_append(p, ".");
  p = decimal_append(p, add_relaxed(&count, 1));
  (void)name;
  *p = 0;
  int saved = errno, fd = shm_open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
  if (fd >= 0)
    (void)shm_unlink(path);
  else
    fd = open_temporary(path);
  return result_of(as_high(fd), saved);
}

int os_file_resize(int fd, uint64_t size) {
  int saved = errno;
  return result_of(ftruncate(fd, (off_t)size), saved);
}

void os_remove(const char *path) {
  int saved = errno;
  (void)unlink(path);
  errno = saved;
}

bool os_file_id(int fd, os_file_id_t *out) {
  struct stat st;
  int saved = errno;
  bool good = fstat(fd, &st) == 0;
  errno = saved;
  if (good) *out = (os_file_id_t){(uint64_t)st.st_dev, st.st_ino, (uint64_t)st.st_size};
  return good;
}

/* Writes zeros, because these files are shared memory, which cannot be punched. */
int os_file_punch(int fd, uint64_t offset, uint64_t size) {
  void *map = os_map_shared(fd, offset, size);
  if (!map) return -ENOMEM;
  memset(map, 0, size);
  os_unmap(map, size);
  return 0;
}

ssize_t os_read_link(const char *path, char *out, size_t size) {
  (void)path, (void)out, (void)size;
  return -ENOSYS;
}

ssize_t os_socket_request(const char *name, const char *text, char *answer, size_t size,
                          uint32_t patience_s) {
  (void)name, (void)text, (void)answer, (void)size, (void)patience_s;
  return -ENOSYS; /* there is no recorder to answer */
}

int os_socket_descriptor(const char *name, const char *text) {
  (void)name, (void)text;
  return -ENOSYS;
}

int os_socket_calls(const char *name) {
  (void)name;
  return -1;
}

int os_socket_call(int fd, const char *text) {
  (void)fd, (void)text;
  return -1;
}

uint64_t os_file_size_limit(void) {
  struct rlimit limit;
  int saved = errno;
  bool known = getrlimit(RLIMIT_FSIZE, &limit) == 0;
  errno = saved;
  return known && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur : UINT64_MAX;
}

/* ---- memory --------------------------------------------------------------------------------- */

void *os_map_shared(int fd, uint64_t offset, size_t size) {
  int saved = errno;
  void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
  errno = saved;
  return map == MAP_FAILED ? NULL : map;
}

/* Shared memory that could be sized is there: it is of no disk. */
bool os_populate(void *address, size_t size) {
  (void)address, (void)size;
  return true;
}

bool os_hide_from_fork(void *address, size_t size) {
  return vm_inherit(mach_task_self(), (vm_address_t)address, size, VM_INHERIT_NONE) == KERN_SUCCESS;
}

/* The kernel has no inheritance as zeros, so a child of fork does it itself, before fork returns.
 * Children of vfork and posix_spawn do not run our code. */
#define WIPES_MAX 4096u
static struct {
  void *address;
  size_t size;
} wipes[WIPES_MAX];
static uint32_t wipe_count, is_registered;

static void wipe_in_child(void) {
  uint32_t count = load_acquire(&wipe_count);
  for (uint32_t i = 0; i < count && i < WIPES_MAX; i++)
    if (wipes[i].address) memset(wipes[i].address, 0, wipes[i].size);
}

/* Before main: later, pthread_atfork might be called inside malloc, which it uses. */
__attribute__((constructor)) static void register_wipe(void) {
  store_release(&is_registered, (uint32_t)(pthread_atfork(NULL, NULL, wipe_in_child) == 0));
}

bool os_wipe_on_fork(void *address, size_t size) {
  uint32_t i = load_acquire(&is_registered) ? add_relaxed(&wipe_count, 1) : WIPES_MAX;
  if (i >= WIPES_MAX) return false;
  wipes[i].size = size;
  store_release(&wipes[i].address, address);
  return true;
}

/* ---- what the program is called ------------------------------------------------------------- */

static size_t take_text(char *out, size_t size, const char *text) {
  size_t length = 0;
  for (; text[length] && length + 1 < size; length++)
    out[length] = text[length];
  out[length] = 0;
  return length;
}

static bool take_path(const os_image_t *image, void *context) {
  if (((const struct mach_header *)(uintptr_t)image->header)->filetype != MH_EXECUTE) return true;
  *(const char **)context = image->path;
  return false;
}

ssize_t os_program_path(char *out, size_t size) {
  const char *path = NULL;
  os_images(take_path, &path);
  return path ? (ssize_t)take_text(out, size, path) : -ENOENT;
}

ssize_t os_program_arguments(char *out, size_t size) {
  size_t used = 0;
  char **arguments = *_NSGetArgv();
  for (int i = 0; i < *_NSGetArgc() && used + 1 < size; i++)
    used += take_text(out + used, size - used, arguments[i]) + 1;
  return (ssize_t)used;
}

ssize_t os_thread_name_here(char *out, size_t size) {
  int error = pthread_getname_np(pthread_self(), out, size);
  if (error) return -error;
  size_t length = 0;
  while (length < size && out[length])
    length++;
  return (ssize_t)length;
}

/* ---- the rest ------------------------------------------------------------------------------- */

uint64_t os_realtime_ns(void) { return clock_gettime_nsec_np(CLOCK_REALTIME); }

bool os_process_alive(pid_t pid) {
  int saved = errno;
  bool alive = kill(pid, 0) == 0 || errno == EPERM;
  errno = saved;
  return alive;
}

uint64_t os_pid_space(void) { return 0; }

/* A thread that was suspended has been in the kernel since. */
void os_barrier(void) { os_threads_interrupt(); }

ssize_t os_read_file(const char *path, char *out, size_t size) {
  int fd = os_open_read(path);
  size_t done = 0;
  if (fd < 0) return fd;
  for (ssize_t n = 1; n > 0 && done < size - 1; done += (size_t)n) {
    n = os_read(fd, out + done, size - 1 - done);
    if (n < 0) n = 0;
    if (n == 0) break;
  }
  os_close(fd);
  out[done] = 0;
  return (ssize_t)done;
}
