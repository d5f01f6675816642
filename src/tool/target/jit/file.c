/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "target/jit/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FILE_BYTES_MAX ((uint64_t)4 << 30)
/* The clock is set now and then, and file systems round times. */
#define CLOCK_ERROR_NS UINT64_C(2000000000)

/* ---- the process -------------------------------------------------------------------------- */

static uint64_t clock_ns(clockid_t clock) {
  struct timespec t;
  if (clock_gettime(clock, &t) != 0) return 0;
  return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static FILE *open_proc(pid_t pid, const char *name) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
  return fopen(path, "re");
}

static int open_folder(pid_t pid, const char *name) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
  return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* proc_pid_stat(5): field 22 is the start in ticks since boot. */
static void read_start(jit_files_t *f) {
  char text[1024];
  unsigned long long ticks;
  FILE *stat = open_proc(f->pid, "stat");
  size_t size = stat ? fread(text, 1, sizeof text - 1, stat) : 0;
  if (stat) fclose(stat);
  text[size] = 0;
  char *p = strrchr(text, ')'); /* the name may contain anything */
  for (int field = 2; p && field < 22; field++)
    p = strchr(p + 1, ' ');
  long hz = sysconf(_SC_CLK_TCK);
  if (!p || hz <= 0 || sscanf(p, "%llu", &ticks) != 1) return;
  uint64_t since_boot = (uint64_t)ticks * (1000000000 / (uint64_t)hz);
  f->start_ns = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_BOOTTIME) + since_boot;
}

static void read_users(jit_files_t *f) {
  char line[256];
  unsigned user, effective;
  FILE *status = open_proc(f->pid, "status");
  while (status && fgets(line, sizeof line, status))
    if (sscanf(line, "Uid: %u %u", &user, &effective) == 2) {
      f->user = user;
      f->effective_user = effective;
    }
  if (status) fclose(status);
}

/* Whether PATH is DIRECTORY/jit-NUMBER.dump. */
static bool is_dump_path(const char *path) {
  const char *slash = strrchr(path, '/'), *p = slash ? slash + 5 : NULL;
  if (!slash || strncmp(slash, "/jit-", 5) != 0) return false;
  while (*p >= '0' && *p <= '9')
    p++;
  return p > slash + 5 && strcmp(p, ".dump") == 0;
}

static void find_mapped(jit_files_t *f) {
  char *line = NULL;
  size_t capacity = 0;
  FILE *maps = open_proc(f->pid, "maps");
  for (ssize_t n; maps && (n = getline(&line, &capacity, maps)) > 0;) {
    const char *path = strchr(line, '/');
    line[n - 1] = 0;
    if (path && is_dump_path(path) && strlen(path) < sizeof f->mapped) strcpy(f->mapped, path);
  }
  free(line);
  if (maps) fclose(maps);
}

static void replace_folder(int *fd, int newer) {
  if (newer < 0) return;
  if (*fd >= 0) close(*fd);
  *fd = newer;
}

void jit_files_refresh(jit_files_t *f) {
  replace_folder(&f->root_fd, open_folder(f->pid, "root"));
  replace_folder(&f->cwd_fd, open_folder(f->pid, "cwd"));
  find_mapped(f);
}

void jit_files_open(jit_files_t *f, pid_t pid, pid_t inner) {
  *f = (jit_files_t){.pid = pid, .inner = inner > 0 ? inner : pid, .root_fd = -1, .cwd_fd = -1};
  f->user = f->effective_user = (uid_t)-1;
  read_start(f);
  read_users(f);
  jit_files_refresh(f);
}

void jit_files_close(jit_files_t *f) {
  if (f->root_fd >= 0) close(f->root_fd);
  if (f->cwd_fd >= 0) close(f->cwd_fd);
}

/* ---- which file --------------------------------------------------------------------------- */

/* Opens PATH below FOLDER, which stands for "/" in links of the path. The last part must not be a
 * link. Kernels before 5.6 lack openat2. */
static int open_below(int folder, const char *path) {
  struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY,
                         .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
  while (*path == '/')
    path++;
  int fd = (int)syscall(SYS_openat2, folder, path, &how, sizeof how);
  if (fd < 0 && errno == ENOSYS) fd = openat(folder, path, (int)how.flags);
  return fd;
}

/* Why the file cannot be trusted; NULL: it can. */
static const char *distrust(const jit_files_t *f, const struct stat *st) {
  uint64_t written_ns = (uint64_t)st->st_mtim.tv_sec * 1000000000 + (uint64_t)st->st_mtim.tv_nsec;
  if (!S_ISREG(st->st_mode)) return "it is not a regular file";
  if (st->st_uid != 0 && st->st_uid != f->user && st->st_uid != f->effective_user)
    return "it belongs to another user";
  if (f->start_ns && written_ns + CLOCK_ERROR_NS < f->start_ns)
    return "it is older than the process";
  if ((uint64_t)st->st_size > FILE_BYTES_MAX) return "it is larger than 4 GB";
  return NULL;
}

/* Opens PATH, below FOLDER; -1: it is not there, or `problem` says why it is not read. */
static int open_trusted(jit_files_t *f, int folder, const char *path, struct stat *st) {
  if (folder < 0) return -1;
  int fd = open_below(folder, path);
  if (fd < 0) {
    if (errno == ELOOP) f->problem = "it is a symbolic link";
    if (errno == EACCES || errno == EPERM) f->problem = "it may not be read";
    if (errno == ENXIO) f->problem = "it is not a regular file";
    return -1;
  }
  const char *problem = fstat(fd, st) == 0 ? distrust(f, st) : "it cannot be read";
  if (!problem) return fd;
  f->problem = problem;
  close(fd);
  return -1;
}

/* A jitdump file names its process itself. */
static bool is_own_dump(jit_files_t *f, int fd, uint64_t *first) {
  uint8_t header[JIT_HEADER_BYTES];
  uint32_t pid;
  jit_parse_t parse = {0};
  if (pread(fd, header, sizeof header, 0) != (ssize_t)sizeof header) return false;
  *first = jit_parse_header(&parse, header, &pid);
  if (*first && pid != (uint32_t)f->inner && pid != (uint32_t)f->pid) {
    f->problem = "it is of another process";
    return false;
  }
  if (!*first) f->problem = "it is no jitdump file of this byte order";
  return *first != 0;
}

typedef struct candidate {
  int folder;
  bool is_dump;
  char path[PATH_MAX];
} candidate_t;

/* V8 writes its jitdump file to the current folder, CPython and .NET to /tmp. */
static size_t list_candidates(const jit_files_t *f, candidate_t out[4]) {
  size_t n = 0;
  if (f->mapped[0]) {
    out[n] = (candidate_t){.folder = f->root_fd, .is_dump = true};
    strcpy(out[n++].path, f->mapped);
  }
  out[n] = (candidate_t){.folder = f->cwd_fd, .is_dump = true};
  snprintf(out[n++].path, PATH_MAX, "jit-%d.dump", (int)f->inner);
  out[n] = (candidate_t){.folder = f->root_fd, .is_dump = true};
  snprintf(out[n++].path, PATH_MAX, "/tmp/jit-%d.dump", (int)f->inner);
  out[n] = (candidate_t){.folder = f->root_fd};
  snprintf(out[n++].path, PATH_MAX, "/tmp/perf-%d.map", (int)f->inner);
  return n;
}

/* A file that was replaced or truncated is read from its start again. */
static void take_file(jit_files_t *f, const candidate_t *c, const struct stat *st, uint64_t first) {
  bool is_same = f->path[0] && f->is_dump == c->is_dump && f->device == st->st_dev &&
                 f->inode == st->st_ino && (uint64_t)st->st_size >= f->offset;
  if (is_same) return;
  strcpy(f->path, c->path);
  f->is_dump = c->is_dump;
  f->device = st->st_dev;
  f->inode = st->st_ino;
  f->offset = first;
  f->read_ns = 0;
  f->parse = (jit_parse_t){0};
}

/* Opens the file of the process; -1: there is none that can be read. */
static int open_file(jit_files_t *f) {
  candidate_t *all = malloc(4 * sizeof *all);
  size_t count = all ? list_candidates(f, all) : 0;
  int fd = -1;
  f->problem = NULL;
  for (size_t i = 0; fd < 0 && i < count; i++) {
    struct stat st;
    uint64_t first = 0;
    fd = open_trusted(f, all[i].folder, all[i].path, &st);
    if (fd >= 0 && all[i].is_dump && !is_own_dump(f, fd, &first)) {
      close(fd);
      fd = -1;
    }
    if (fd >= 0) take_file(f, &all[i], &st, first);
    if (fd < 0 && f->problem && !f->path[0]) strcpy(f->path, all[i].path);
  }
  if (fd >= 0) f->problem = NULL;
  free(all);
  return fd;
}

/* ---- reading ------------------------------------------------------------------------------ */

static uint64_t parse_piece(jit_files_t *f, jit_t *jit, const uint8_t *bytes, size_t size) {
  if (f->is_dump) return jit_parse_records(&f->parse, jit, bytes, size);
  return jit_parse_perf_map(&f->parse, jit, (const char *)bytes, size);
}

/* The writer may truncate the file meanwhile, so it is not mapped. */
bool jit_files_read(jit_files_t *f, jit_t *jit, uint64_t now_ns) {
  uint8_t header[JIT_HEADER_BYTES], *bytes = malloc(JIT_PIECE_BYTES);
  uint32_t pid;
  int fd = bytes ? open_file(f) : -1;
  if (fd >= 0 && f->is_dump && pread(fd, header, sizeof header, 0) == (ssize_t)sizeof header)
    (void)jit_parse_header(&f->parse, header, &pid);
  jit_set_times(jit, f->read_ns, now_ns);
  for (uint64_t done = 1; fd >= 0 && done && f->offset < FILE_BYTES_MAX; f->offset += done) {
    ssize_t n = pread(fd, bytes, JIT_PIECE_BYTES, (off_t)f->offset);
    done = n > 0 ? parse_piece(f, jit, bytes, (size_t)n) : 0;
  }
  if (fd >= 0) {
    f->read_ns = now_ns;
    close(fd);
  }
  free(bytes);
  return fd >= 0;
}
