/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "recorder/monitor/usage/descriptors.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINK_BYTES = 32 }; /* the beginning tells the kind */

static DIR *open_folder(int folder) {
  int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *entries = copy >= 0 ? fdopendir(copy) : NULL;
  if (!entries && copy >= 0) close(copy);
  return entries;
}

/* Since Linux 6.2, the size of /proc/PID/fd is the count of open descriptors. */
bool descriptors_count(int folder, uint64_t *out) {
  struct stat facts;
  if (folder < 0 || fstat(folder, &facts) != 0) return false;
  *out = (uint64_t)facts.st_size;
  if (*out) return true;
  DIR *entries = open_folder(folder);
  const struct dirent *entry;
  while (entries && (entry = readdir(entries)))
    *out += entry->d_name[0] != '.';
  if (entries) closedir(entries);
  return entries != NULL;
}

/* ---- kinds -------------------------------------------------------------------------------- */

/* proc(5), /proc/PID/fd: what the links of descriptors without a path begin with. */
static const struct {
  const char *text;
  usage_field_t kind;
} kinds[] = {{"socket:", USAGE_SOCKETS},
             {"pipe:", USAGE_PIPES},
             {"anon_inode:[eventpoll]", USAGE_EPOLLS},
             {"anon_inode:[timerfd]", USAGE_TIMERS},
             {"anon_inode:[eventfd]", USAGE_EVENTS},
             {"/memfd:", USAGE_OTHER_DESCRIPTORS}};
enum { KINDS = sizeof kinds / sizeof *kinds };

usage_field_t descriptors_kind(const char *text, bool is_written) {
  for (int i = 0; i < KINDS; i++)
    if (!strncmp(text, kinds[i].text, strlen(kinds[i].text))) return kinds[i].kind;
  if (text[0] != '/') return USAGE_OTHER_DESCRIPTORS;
  return is_written ? USAGE_WRITTEN_FILES : USAGE_READ_FILES;
}

/* The mode of a link is that of the descriptor: readable, writable or both (proc(5)). */
static void classify(int folder, const char *name, usage_values_t *out) {
  char text[LINK_BYTES];
  struct stat facts;
  ssize_t n = readlinkat(folder, name, text, sizeof text - 1);
  if (n < 0 || fstatat(folder, name, &facts, AT_SYMLINK_NOFOLLOW) != 0) return; /* closed */
  text[n] = 0;
  out->value[descriptors_kind(text, facts.st_mode & S_IWUSR)]++;
}

static void each_kind(usage_values_t *values, bool is_known) {
  for (unsigned kind = USAGE_READ_FILES; kind <= USAGE_OTHER_DESCRIPTORS; kind++) {
    values->known[kind] = is_known;
    values->value[kind] = 0;
  }
}

void descriptors_forget(usage_values_t *values) { each_kind(values, false); }

void descriptors_read_kinds(int folder, uint64_t *classified, usage_values_t *values) {
  uint64_t now = values->value[USAGE_DESCRIPTORS];
  if (now < DESCRIPTORS_KINDS_LEAST || now > DESCRIPTORS_KINDS_MOST || now < 2 * *classified)
    return;
  DIR *entries = open_folder(folder);
  const struct dirent *entry;
  if (!entries) return;
  *classified = now;
  each_kind(values, true);
  while ((entry = readdir(entries)))
    if (entry->d_name[0] != '.') classify(folder, entry->d_name, values);
  closedir(entries);
}
