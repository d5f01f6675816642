/* SPDX-License-Identifier: MIT
 *
 * An instrumented program names the hook (in its dynamic symbols), or the sections of the places to
 * patch (in its section names), so a search for these names is enough, also in a stripped file.
 */
#define _GNU_SOURCE
#include "recorder/start/hooks.h"

#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/message.h"

/* True if one of the names has its first underscore at AT. */
static bool is_name_at(const char *file, size_t size, size_t at) {
  static const char *const names[] = {"__cyg_profile_func_enter", "__patchable_function_entries",
                                      "xray_instr_map", "sonde_trace_"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    size_t length = strlen(names[i]), before = strcspn(names[i], "_");
    if (at >= before && length <= size - (at - before) &&
        !memcmp(file + at - before, names[i], length))
      return true;
  }
  return false;
}

/* The file may be large, so it is read once for all names. */
static bool is_unprepared(const char *file, size_t size) {
  if (size < sizeof(Elf64_Ehdr) || memcmp(file, ELFMAG, SELFMAG) != 0) return false;
  for (const char *at = file; (at = memchr(at, '_', size - (size_t)(at - file))); at++)
    if (is_name_at(file, size, (size_t)(at - file))) return false;
  return true;
}

static bool file_is_unprepared(const char *path) {
  struct stat s;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return false;
  void *file = MAP_FAILED;
  if (fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_size > 0)
    file = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (file == MAP_FAILED) return false;
  bool missing = is_unprepared(file, (size_t)s.st_size);
  munmap(file, (size_t)s.st_size);
  return missing;
}

void hooks_note(const char *name, const char *path) {
  if (file_is_unprepared(path))
    message_note("%s has no compiler hooks, so --trace alone records no calls of its functions; "
                 "--trace='!*' records them without a rebuild",
                 name);
}
