/* SPDX-License-Identifier: MIT
 *
 * Most files have no such section. Their section headers say so, without libelf, which `sonde
 * record` loads only when it is needed.
 */
#include "target/packed/unpack.h"

#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "target/packed/debug_frame.h"

static bool read_at(int fd, void *out, size_t size, uint64_t offset) {
  return offset <= INT64_MAX && pread(fd, out, size, (off_t)offset) == (ssize_t)size;
}

/* Whether a section has this name, which begins at AT of the file. */
static bool is_packed_frame(int fd, uint64_t at, uint64_t flags) {
  static const char packed[] = ".debug_frame", gnu[] = ".zdebug_frame";
  char name[sizeof gnu] = {0};
  if (at > INT64_MAX || pread(fd, name, sizeof name, (off_t)at) <= 0) return false;
  return (flags & SHF_COMPRESSED && !memcmp(name, packed, sizeof packed)) ||
         !memcmp(name, gnu, sizeof gnu);
}

/* Whether a section may be a compressed .debug_frame. Without a number of sections in its header a
 * file may have any, for each of which libelf would allocate a structure. */
static bool has_packed_frame(int fd) {
  Elf64_Ehdr h;
  Elf64_Shdr names, section;
  if (!read_at(fd, &h, sizeof h, 0) || h.e_ident[EI_CLASS] != ELFCLASS64 ||
      h.e_shentsize != sizeof section || h.e_shstrndx >= h.e_shnum ||
      !read_at(fd, &names, sizeof names, h.e_shoff + (uint64_t)h.e_shstrndx * sizeof names))
    return false;
  for (unsigned i = 1; i < h.e_shnum; i++)
    if (read_at(fd, &section, sizeof section, h.e_shoff + (uint64_t)i * sizeof section) &&
        section.sh_type == SHT_PROGBITS &&
        is_packed_frame(fd, names.sh_offset + section.sh_name, section.sh_flags))
      return true;
  return false;
}

static section_t unpack_from(const char *path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return (section_t){0};
  bool has = has_packed_frame(fd);
  close(fd);
  return has ? packed_debug_frame(path) : (section_t){0};
}

bool module_unpack(module_t *module) {
  if (module->state != MODULE_READY || module->is_unpacked) return false;
  module->is_unpacked = true;
  if (module->image.debug_frame.data || !module->open_path) return false;
  module->image.debug_frame = unpack_from(module->open_path);
  module->unpacked = (void *)(uintptr_t)module->image.debug_frame.data;
  return module->unpacked != NULL;
}

void module_forget_unpacked(module_t *module) { free(module->unpacked); }
