/* SPDX-License-Identifier: MIT
 *
 * The file is read, not mapped: if it were truncated meanwhile, libelf would get SIGBUS. libelf
 * allocates what the headers say, so their sizes are checked first.
 */
#include "target/packed/debug_frame.h"

#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The largest section, compressed or not. */
#define SECTION_MAX (64u << 20)

/* The index of the section with the section names; 0: none. */
static size_t names_of(Elf *elf) {
  GElf_Shdr header;
  size_t names;
  if (elf_getshdrstrndx(elf, &names) != 0) return 0;
  return gelf_getshdr(elf_getscn(elf, names), &header) && header.sh_size <= SECTION_MAX ? names : 0;
}

static Elf_Scn *section_named(Elf *elf, size_t names, const char *name, GElf_Shdr *header) {
  Elf_Scn *section = NULL;
  while ((section = elf_nextscn(elf, section))) {
    const char *own =
        gelf_getshdr(section, header) ? elf_strptr(elf, names, header->sh_name) : NULL;
    if (own && !strcmp(own, name)) return section;
  }
  return NULL;
}

/* The gABI's format: SHF_COMPRESSED. */
static bool unpack(Elf_Scn *section) {
  GElf_Chdr packed;
  return gelf_getchdr(section, &packed) && packed.ch_size <= SECTION_MAX &&
         elf_compress(section, 0, 0) >= 0;
}

/* The older GNU format, used by Go until 1.18: "ZLIB" and the size in eight bytes, big-endian. */
static bool unpack_gnu(Elf_Scn *section) {
  const Elf_Data *data = elf_rawdata(section, NULL);
  const uint8_t *head = data ? data->d_buf : NULL;
  uint64_t size = 0;
  if (!head || data->d_size < 12 || memcmp(head, "ZLIB", 4) != 0) return false;
  for (int i = 4; i < 12; i++)
    size = size << 8 | head[i];
  return size <= SECTION_MAX && elf_compress_gnu(section, 0, 0) >= 0;
}

static section_t debug_frame(Elf *elf) {
  GElf_Shdr header;
  size_t names = names_of(elf);
  if (!names) return (section_t){0};
  Elf_Scn *section = section_named(elf, names, ".debug_frame", &header);
  bool is_gnu = !section;
  if (is_gnu) section = section_named(elf, names, ".zdebug_frame", &header);
  if (!section || header.sh_size > SECTION_MAX || !(is_gnu || header.sh_flags & SHF_COMPRESSED))
    return (section_t){0};
  if (!(is_gnu ? unpack_gnu(section) : unpack(section))) return (section_t){0};
  const Elf_Data *data = elf_rawdata(section, NULL);
  if (!data || !data->d_size) return (section_t){0};
  uint8_t *copy = malloc(data->d_size);
  if (!copy) return (section_t){0};
  memcpy(copy, data->d_buf, data->d_size);
  return (section_t){.data = copy, .size = data->d_size};
}

section_t packed_debug_frame(const char *path) {
  section_t section = {0};
  elf_version(EV_CURRENT);
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return section;
  Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
  if (elf) section = debug_frame(elf);
  elf_end(elf);
  close(fd);
  return section;
}
