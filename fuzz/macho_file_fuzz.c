/* SPDX-License-Identifier: MIT
 *
 * Mach-O files as the symbolizer opens them: plain and fat files, and members of archives, with
 * the ELF headers that are made for libdw. Checked beyond the sanitizers: libelf accepts these
 * headers, and the sections lie within the file.
 *
 *   byte 0     the machine, and bit 7: the member "m.o" of an archive, else the whole file
 *   the rest   the file
 */
#define _GNU_SOURCE
#include <gelf.h>
#include <libelf.h>

#include "file.h"
#include "symbol/macho/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds) {
  if (!holds) __builtin_trap();
}

static void check_elf(const macho_file_t *file) {
  const uint8_t *bytes;
  size_t size;
  if (!macho_file_elf(file, &bytes, &size)) return;
  (void)elf_version(EV_CURRENT);
  Elf *elf = elf_memory((char *)bytes, size);
  check(elf && elf_kind(elf) == ELF_K_ELF);
  GElf_Shdr header;
  size_t names, count = 0;
  check(elf_getshdrstrndx(elf, &names) == 0);
  for (Elf_Scn *s = NULL; (s = elf_nextscn(elf, s)); count++) {
    check(gelf_getshdr(s, &header) && elf_strptr(elf, names, header.sh_name));
    check(header.sh_offset <= size && header.sh_size <= size - header.sh_offset);
  }
  check(count >= 2); /* .debug_info and the names */
  elf_end(elf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char path[FUZZ_PATH_MAX], member[FUZZ_PATH_MAX + 8];
  macho_file_t file;
  uint64_t low, high;
  if (size < 2) return 0;
  fuzz_file(data + 1, size - 1, path);
  (void)snprintf(member, sizeof member, "%s(m.o)", path);
  image_machine_t machine = data[0] & 0x7f ? IMAGE_AARCH64 : IMAGE_MACHINE_UNKNOWN;
  symbol_reason_t reason = macho_object_open(&file, data[0] & 0x80 ? member : path, machine);
  if (reason == SYMBOL_NAMED) {
    macho_file_code(&file.image, &low, &high);
    check_elf(&file);
  } else {
    check(!file.map && !file.path);
  }
  macho_file_close(&file);
  return 0;
}
