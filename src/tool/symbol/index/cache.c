/* SPDX-License-Identifier: MIT
 *
 * See cache.h for how processes share the folder.
 */
#include "symbol/index/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"

#define SUFFIX       ".index"
#define SUFFIX_TEMP  ".new"
#define SUFFIX_SPENT ".spent"
/* The time of use is updated at most this often. */
#define USED_EVERY_S 600

/* A temporary file this old has no writer. */
#define ABANDONED_S 3600

/* A file of what was spent is removed at this age. */
#define SPENT_S ((time_t)30 * 24 * 3600)

#define TEMPORARY_NAME  192
#define TEMPORARIES_MAX 100
#define LIMIT_FILE      "limit"

bool index_cache_folder(char *out) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int used = -1;
  if (cache && cache[0] == '/')
    used = snprintf(out, INDEX_CACHE_PATH_MAX, "%s/sonde/symbols", cache);
  else if (home && home[0] == '/')
    used = snprintf(out, INDEX_CACHE_PATH_MAX, "%s/.cache/sonde/symbols", home);
  return used > 0 && used < INDEX_CACHE_PATH_MAX;
}

/* Opens the folder; MAKE creates it and its parents. -1 with errno. */
static int open_folder(bool make) {
  char path[INDEX_CACHE_PATH_MAX];
  errno = ENOENT;
  if (!index_cache_folder(path)) return -1;
  if (make)
    for (char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
      if (slash) *slash = 0;
      if (mkdir(path, 0700) != 0 && errno != EEXIST) return -1;
      if (!slash) break;
      *slash = '/';
    }
  return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static bool path_of(const char *key, const char *suffix, char *out) {
  char folder[INDEX_CACHE_PATH_MAX];
  if (!index_cache_folder(folder)) return false;
  int used = snprintf(out, INDEX_CACHE_PATH_MAX, "%s/%s%s", folder, key, suffix);
  return used > 0 && used < INDEX_CACHE_PATH_MAX;
}

bool index_cache_path(const char *key, char *out) { return path_of(key, SUFFIX, out); }

/* ---- one index ---------------------------------------------------------------------------- */

static void update_use(const char *path) {
  struct stat status;
  if (stat(path, &status) == 0 && time(NULL) - status.st_mtime > USED_EVERY_S)
    utimensat(AT_FDCWD, path, NULL, 0);
}

index_t *index_cache_open(const char *key, uint64_t fingerprint) {
  char path[INDEX_CACHE_PATH_MAX];
  if (!index_cache_path(key, path) || access(path, R_OK) != 0) return NULL;
  index_t *index = index_from_file(path);
  if (index && index_origin(index)->fingerprint == fingerprint) {
    update_use(path);
    return index;
  }
  index_close(index);
  unlink(path);
  return NULL;
}

static bool write_all(int fd, const uint8_t *bytes, size_t size) {
  while (size) {
    ssize_t written = write(fd, bytes, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes += written;
    size -= (size_t)written;
  }
  return true;
}

/* Creates a temporary file for STEM and writes its name to NAME. A process with the same pid, in
 * another pid namespace or on another machine, may write to the same folder. */
static int open_temporary(int folder, const char *stem, char name[TEMPORARY_NAME]) {
  for (unsigned n = 0; n < TEMPORARIES_MAX; n++) {
    snprintf(name, TEMPORARY_NAME, "%s.%ld-%u" SUFFIX_TEMP, stem, (long)getpid(), n);
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

/* A write beyond this limit ends the process (setrlimit(2), SIGXFSZ). */
static bool is_too_large_for_a_file(size_t size) {
  struct rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && size > limit.rlim_cur;
}

void index_cache_store(const char *key, const uint8_t *bytes, size_t size) {
  char temporary[TEMPORARY_NAME], final[192];
  uint64_t limit = index_cache_limit();
  if (size > limit || is_too_large_for_a_file(size)) return;
  int folder = open_folder(true);
  if (folder < 0) return;
  snprintf(final, sizeof final, "%s" SUFFIX, key);
  int fd = open_temporary(folder, key, temporary);
  if (fd >= 0) {
    bool good = write_all(fd, bytes, size);
    if (close(fd) != 0) good = false;
    if (!good || renameat(folder, temporary, folder, final) != 0) unlinkat(folder, temporary, 0);
  }
  close(folder);
  index_cache_shrink(limit);
}

void index_cache_remove(const char *key) {
  char path[INDEX_CACHE_PATH_MAX];
  if (index_cache_path(key, path)) unlink(path);
}

/* ---- what was spent without an index --------------------------------------------------------- */

uint64_t index_cache_spent(const char *key) {
  char path[INDEX_CACHE_PATH_MAX];
  uint64_t spent = 0;
  int fd = path_of(key, SUFFIX_SPENT, path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) return 0;
  if (pread(fd, &spent, sizeof spent, 0) != sizeof spent) spent = 0;
  close(fd);
  return spent;
}

void index_cache_spend(const char *key, uint64_t cost) {
  char name[TEMPORARY_NAME];
  int folder = open_folder(true);
  if (folder < 0) return;
  snprintf(name, sizeof name, "%s" SUFFIX_SPENT, key);
  uint64_t spent = index_cache_spent(key), sum = spent > UINT64_MAX - cost ? spent : spent + cost;
  int fd = openat(folder, name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd >= 0) {
    if (pwrite(fd, &sum, sizeof sum, 0) != sizeof sum) unlinkat(folder, name, 0);
    close(fd);
  }
  close(folder);
}

void index_cache_forget_spent(const char *key) {
  char path[INDEX_CACHE_PATH_MAX];
  if (path_of(key, SUFFIX_SPENT, path)) unlink(path);
}

/* ---- all entries -------------------------------------------------------------------------- */

static int compare_use(const void *left, const void *right) {
  const index_cache_entry_t *a = left, *b = right;
  if (a->used.tv_sec != b->used.tv_sec) return a->used.tv_sec < b->used.tv_sec ? -1 : 1;
  if (a->used.tv_nsec != b->used.tv_nsec) return a->used.tv_nsec < b->used.tv_nsec ? -1 : 1;
  return strcmp(a->key, b->key);
}

static bool ends_with(const char *name, const char *suffix, size_t *length) {
  size_t size = strlen(name), tail = strlen(suffix);
  *length = size > tail ? size - tail : 0;
  return *length && !strcmp(name + *length, suffix);
}

static bool read_entry(int folder, const char *name, index_cache_entry_t *entry) {
  struct stat status;
  size_t length;
  if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode))
    return false;
  if (ends_with(name, SUFFIX_TEMP, &length)) {
    if (time(NULL) - status.st_mtime > ABANDONED_S) unlinkat(folder, name, 0);
    return false;
  }
  if (ends_with(name, SUFFIX_SPENT, &length)) {
    if (time(NULL) - status.st_mtime > SPENT_S) unlinkat(folder, name, 0);
    return false;
  }
  if (!ends_with(name, SUFFIX, &length) || length >= sizeof entry->key) return false;
  *entry = (index_cache_entry_t){.size_bytes = (uint64_t)status.st_size, .used = status.st_mtim};
  memcpy(entry->key, name, length);
  return true;
}

long index_cache_list(index_cache_entry_t **entries) {
  *entries = NULL;
  int fd = open_folder(false);
  if (fd < 0) return errno == ENOENT ? 0 : -1;
  DIR *folder = fdopendir(fd);
  if (!folder) {
    close(fd);
    return -1;
  }
  size_t count = 0, capacity = 0;
  struct dirent *file;
  while ((file = readdir(folder))) {
    index_cache_entry_t entry;
    if (!read_entry(dirfd(folder), file->d_name, &entry)) continue;
    if (!ARRAY_GROW(*entries, count, capacity)) break;
    (*entries)[count++] = entry;
  }
  closedir(folder);
  if (count) qsort(*entries, count, sizeof **entries, compare_use);
  return (long)count;
}

static void forget_all_spent(void) {
  int fd = open_folder(false);
  DIR *folder = fd < 0 ? NULL : fdopendir(fd);
  struct dirent *file;
  size_t length;
  if (!folder && fd >= 0) close(fd);
  while (folder && (file = readdir(folder)))
    if (ends_with(file->d_name, SUFFIX_SPENT, &length)) unlinkat(fd, file->d_name, 0);
  if (folder) closedir(folder);
}

long index_cache_shrink(uint64_t limit_bytes) {
  index_cache_entry_t *entries;
  long count = index_cache_list(&entries), removed = 0;
  uint64_t total = 0;
  for (long i = 0; i < count; i++)
    total += entries[i].size_bytes;
  for (long i = 0; i < count && total > limit_bytes; i++) {
    index_cache_remove(entries[i].key);
    total -= entries[i].size_bytes;
    removed++;
  }
  free(entries);
  if (!limit_bytes) forget_all_spent();
  return removed;
}

/* ---- the limit ---------------------------------------------------------------------------- */

uint64_t index_cache_limit(void) {
  char path[INDEX_CACHE_PATH_MAX], text[32] = {0};
  if (!path_of(LIMIT_FILE, "", path)) return INDEX_CACHE_LIMIT_DEFAULT;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return INDEX_CACHE_LIMIT_DEFAULT;
  ssize_t size = read(fd, text, sizeof text - 1);
  close(fd);
  char *end;
  errno = 0;
  unsigned long long limit = size > 0 ? strtoull(text, &end, 10) : 0;
  bool good = size > 0 && !errno && end != text && (*end == '\n' || !*end);
  return good ? limit : INDEX_CACHE_LIMIT_DEFAULT;
}

bool index_cache_set_limit(uint64_t bytes) {
  char text[32], temporary[TEMPORARY_NAME];
  int size = snprintf(text, sizeof text, "%llu\n", (unsigned long long)bytes);
  int folder = open_folder(true);
  if (folder < 0) return false;
  int fd = open_temporary(folder, LIMIT_FILE, temporary);
  bool good = fd >= 0 && write_all(fd, (const uint8_t *)text, (size_t)size);
  if (fd >= 0) close(fd);
  if (good) good = renameat(folder, temporary, folder, LIMIT_FILE) == 0;
  close(folder);
  return good;
}
