/* SPDX-License-Identifier: MIT
 *
 * What else programs ask of libSystem. A function is bound to glibc's own where the two have the
 * same binary interface; where a constant, a structure or the way of passing arguments differs,
 * there is a wrapper. errno is translated when the program looks at it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "errors.h"
#include "loader.h"

/* ---- errors --------------------------------------------------------------------------------- */

int mac_error(int error) {
  static const struct {
    int here, there;
  } map[] = {
#define SAME(name) {name, FACT_##name},
      ERRORS(SAME)};
#undef SAME
  for (unsigned i = 0; i < sizeof map / sizeof *map; i++)
    if (map[i].here == error) return map[i].there;
  die("the error %s has no number of Apple's here", strerror(error));
}

static __thread int program_errno;

/* glibc's errno counts only while nobody has looked at it. */
static int *mac_errno(void) {
  if (errno) {
    program_errno = mac_error(errno);
    errno = 0;
  }
  return &program_errno;
}

/* Of kernel.S. */
static long mac_failed(long result) {
  errno = (int)-result;
  return -1;
}

/* ---- files ---------------------------------------------------------------------------------- */

int mac_open_flags(int flags) {
  static const int map[][2] = {
      {FACT_O_WRONLY, O_WRONLY},       {FACT_O_RDWR, O_RDWR},        {FACT_O_CREAT, O_CREAT},
      {FACT_O_EXCL, O_EXCL},           {FACT_O_TRUNC, O_TRUNC},      {FACT_O_APPEND, O_APPEND},
      {FACT_O_NOCTTY, O_NOCTTY},       {FACT_O_CLOEXEC, O_CLOEXEC},  {FACT_O_NONBLOCK, O_NONBLOCK},
      {FACT_O_DIRECTORY, O_DIRECTORY}, {FACT_O_NOFOLLOW, O_NOFOLLOW}};
  int out = 0;
  for (unsigned i = 0; i < sizeof map / sizeof *map; i++) {
    if (flags & map[i][0]) out |= map[i][1];
    flags &= ~map[i][0];
  }
  if (flags) die("open with the flags %#x", flags);
  return out;
}

int mac_open(const char *path, int flags, int mode);
int mac_open(const char *path, int flags, int mode) {
  if (strncmp(path, "/proc/", 6) == 0) die("macOS has no %s", path);
  return open(path, mac_open_flags(flags), mode & 07777);
}

/* macOS takes 31 characters. With MACHO_SANDBOX it refuses them all, as the sandbox of an app. */
int mac_shm_open(const char *name, int flags, int mode);
int mac_shm_open(const char *name, int flags, int mode) {
  if (strlen(name) > 31) die("shm_open of a name of %zu characters", strlen(name));
  if (getenv("MACHO_SANDBOX")) {
    errno = EPERM;
    return -1;
  }
  return shm_open(name, mac_open_flags(flags), (mode_t)(mode & 07777));
}

static int own_resource(int resource) {
  switch (resource) {
  case FACT_RLIMIT_AS: return RLIMIT_AS;
  case FACT_RLIMIT_DATA: return RLIMIT_DATA;
  case FACT_RLIMIT_FSIZE: return RLIMIT_FSIZE;
  default: die("getrlimit %d", resource);
  }
}

static int mac_getrlimit(int resource, uint64_t out[2]) {
  struct rlimit limit;
  if (getrlimit(own_resource(resource), &limit) != 0) return -1;
  out[0] = limit.rlim_cur == RLIM_INFINITY ? FACT_RLIM_INFINITY : limit.rlim_cur;
  out[1] = limit.rlim_max == RLIM_INFINITY ? FACT_RLIM_INFINITY : limit.rlim_max;
  return 0;
}

/* Of a file that has a path. OUT has MAXPATHLEN bytes. */
static int path_of_descriptor(int fd, char *out) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, out, 1023);
  if (length < 0) errno = EBADF;
  if (length < 0 || out[0] != '/') return -1;
  out[length] = 0;
  return 0;
}

int mac_fcntl(int fd, int command, long argument);
int mac_fcntl(int fd, int command, long argument) {
  if (command == (int)FACT_F_GETFD) return fcntl(fd, F_GETFD);
  if (command == (int)FACT_F_GETPATH) return path_of_descriptor(fd, (char *)argument);
  if (command != FACT_F_DUPFD_CLOEXEC) die("fcntl %d", command);
  return fcntl(fd, F_DUPFD_CLOEXEC, (int)argument);
}

void mac_put_stat(const struct stat *st, uint8_t *out) {
  uint16_t mode = (uint16_t)st->st_mode;
  uint64_t size = (uint64_t)st->st_size, inode = st->st_ino;
  uint32_t device = (uint32_t)st->st_dev;
  memset(out, 0, FACT_sizeof_stat);
  memcpy(out + FACT_stat_mode, &mode, sizeof mode);
  memcpy(out + FACT_stat_size, &size, sizeof size);
  memcpy(out + FACT_stat_ino, &inode, sizeof inode);
  memcpy(out + FACT_stat_dev, &device, sizeof device);
  memcpy(out + FACT_stat_uid, &st->st_uid, sizeof st->st_uid);
  memcpy(out + FACT_stat_mtime, &st->st_mtim, sizeof st->st_mtim); /* timespecs are the same */
}

static int mac_stat(const char *path, uint8_t *out) {
  struct stat st;
  if (stat(path, &st) != 0) return -1;
  mac_put_stat(&st, out);
  return 0;
}

static int mac_lstat(const char *path, uint8_t *out) {
  struct stat st;
  if (lstat(path, &st) != 0) return -1;
  mac_put_stat(&st, out);
  return 0;
}

/* For system/files.c: the size of a block, how many there are, and are free. */
static int mac_statvfs(const char *path, uint64_t out[3]) {
  struct statvfs vfs;
  if (statvfs(path, &vfs) != 0) return -1;
  out[0] = vfs.f_bsize;
  out[1] = vfs.f_blocks;
  out[2] = vfs.f_bfree;
  return 0;
}

static int mac_fstat(int fd, uint8_t *out) {
  struct stat st;
  if (fstat(fd, &st) != 0) return -1;
  mac_put_stat(&st, out);
  return 0;
}

static void *mac_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset) {
  int own = 0;
  if (flags & (int)FACT_MAP_PRIVATE) own |= MAP_PRIVATE;
  if (flags & (int)FACT_MAP_SHARED) own |= MAP_SHARED;
  if (flags & (int)FACT_MAP_FIXED) own |= MAP_FIXED;
  if (flags & (int)FACT_MAP_ANON) own |= MAP_ANONYMOUS;
  if (flags & (int)FACT_MAP_NORESERVE) own |= MAP_NORESERVE;
  flags &= ~(int)(FACT_MAP_PRIVATE | FACT_MAP_SHARED | FACT_MAP_FIXED | FACT_MAP_ANON |
                  FACT_MAP_NORESERVE);
  if (flags) die("mmap with the flags %#x", flags);
  return mmap(address, size, protection, own, fd, offset);
}

#if defined(__aarch64__)
/* Variadic arguments lie one behind the other in slots of 8 bytes: a va_list of AAPCS64 whose
 * register parts are used up reads exactly that. */
void mac_list(va_list *out, void *stack) {
  struct {
    void *stack, *gr_top, *vr_top;
    int gr_offs, vr_offs;
  } list = {stack, NULL, NULL, 0, 0};
  _Static_assert(sizeof list == sizeof *out, "AAPCS64's va_list");
  memcpy(out, &list, sizeof list);
}

int mac_snprintf(char *out, size_t size, const char *format, void *stack) {
  va_list arguments;
  mac_list(&arguments, stack);
  return vsnprintf(out, size, format, arguments);
}
void open_entry(void), shm_open_entry(void), fcntl_entry(void), snprintf_entry(void);
#else
#define open_entry     mac_open
#define shm_open_entry mac_shm_open
#define fcntl_entry    mac_fcntl
#define snprintf_entry snprintf
#endif

/* ---- time, signals -------------------------------------------------------------------------- */

static uint64_t mac_clock_gettime_nsec_np(int clock) {
  struct timespec now;
  if (clock == FACT_CLOCK_UPTIME_RAW || clock == FACT_CLOCK_MONOTONIC_RAW)
    clock_gettime(CLOCK_MONOTONIC, &now);
  else if (clock == FACT_CLOCK_REALTIME)
    clock_gettime(CLOCK_REALTIME, &now);
  else
    die("clock %d", clock);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A thread that is suspended sleeps on; here a signal suspends it, which would end the sleep. */
static int mac_nanosleep(const struct timespec *wanted, struct timespec *left) {
  struct timespec rest = *wanted;
  int result = -1;
  errno = EINTR;
  while (result != 0 && errno == EINTR)
    result = nanosleep(&rest, &rest);
  if (left) *left = (struct timespec){0};
  return result;
}

static int mac_usleep(uint32_t us) {
  const struct timespec wanted = {us / 1000000, us % 1000000 * 1000};
  return mac_nanosleep(&wanted, NULL);
}

static int mac_sigaltstack(const void *wanted, uint8_t *out) {
  stack_t now;
  if (wanted) die("sigaltstack is set");
  if (sigaltstack(NULL, &now) != 0) return -1;
  int flags = (now.ss_flags & SS_ONSTACK ? (int)FACT_SS_ONSTACK : 0) |
              (now.ss_flags & SS_DISABLE ? (int)FACT_SS_DISABLE : 0);
  memcpy(out + FACT_stack_sp, &now.ss_sp, 8);
  memcpy(out + FACT_stack_size, &now.ss_size, 8);
  memcpy(out + FACT_stack_flags, &flags, 4);
  return 0;
}

static int *mac_get_argc(void) { return &mac_argc; }
static char ***mac_get_argv(void) { return &mac_argv; }
static char ***mac_get_environ(void) { return &mac_environ; }

int __cxa_atexit(void (*run)(void *), void *argument, void *image); /* of glibc */

/* Images are not closed with what they registered: it runs when the program ends. */
static int mac_cxa_atexit(void (*run)(void *), void *argument, void *image) {
  (void)image;
  return __cxa_atexit(run, argument, NULL);
}

static void mac_exit(int status) {
  int rights = threads_rights();
  if (rights) die("%d port rights were not given back", rights);
  exit(status);
}

const stand_in_t posix_stand_ins[] = {
    {"___error", mac_errno},
    {"__NSGetArgc", mac_get_argc},
    {"__NSGetArgv", mac_get_argv},
    {"__NSGetEnviron", mac_get_environ},
    {"_mac_host_realloc", realloc},
    {"_mac_host_calloc", calloc},
    {"_mac_host_free", free},
    {"_waitpid", waitpid},
    {"__exit", _exit},
    {"_kill", kill},
    {"_shm_open", shm_open_entry},
    {"_shm_unlink", shm_unlink},
    {"_ftruncate", ftruncate},
    {"_getrlimit", mac_getrlimit},
    {"_mac_failed", mac_failed},
    {"_open", open_entry},
    {"_fcntl", fcntl_entry},
    {"_snprintf", snprintf_entry},
    {"_close", close},
    {"_fchmod", fchmod},
    {"_write", write},
    {"_pread", pread},
    {"_pwrite", pwrite},
    {"_pipe", pipe},
    {"_popen", popen},
    {"_popen$DARWIN_EXTSN", popen},
    {"_pclose", pclose},
    {"_open_memstream", open_memstream},
    {"_dup2", dup2},
    {"_mac_host_fstat", mac_fstat},
    {"_mac_host_stat", mac_stat},
    {"_mac_host_lstat", mac_lstat},
    {"_mac_host_statvfs", mac_statvfs},
    {"_mac_host_mmap", mac_mmap},
    {"_mac_host_munmap", munmap},
    {"_unlink", unlink},
    {"_nanosleep", mac_nanosleep},
    {"_usleep", mac_usleep},
    {"_clock_gettime_nsec_np", mac_clock_gettime_nsec_np},
    {"_sigaltstack", mac_sigaltstack},
    {"_exit", mac_exit},
    {"___cxa_atexit", mac_cxa_atexit},
    {"_abort", abort},
    {"_atoi", atoi},
    {"_memcpy", memcpy},
    {"_memmove", memmove},
    {"_memset", memset},
    {"_memcmp", memcmp},
    {"_bzero", bzero},
    {"___bzero", bzero},
    {"_strlen", strlen},
    {"_strcmp", strcmp},
    {"_strncmp", strncmp},
    {"_strstr", strstr},
    {"_strrchr", strrchr},
    {NULL, NULL},
};
