/* SPDX-License-Identifier: MIT
 *
 * Opens Mach-O files and members of archives. See file.h.
 */
#include "symbol/macho/file.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "image/macho/macho.h"
#include "image/macho/format.h"

/* Space for the ELF headers: a multiple of every page size. */
#define HEADER_SPACE 65536

/* ---- mapping ------------------------------------------------------------------------------ */

static bool map_file(macho_file_t *file, const char *path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return false;
  void *space = MAP_FAILED;
  if (fstat(fd, &file->status) == 0 && S_ISREG(file->status.st_mode) && file->status.st_size > 0) {
    file->map_size = HEADER_SPACE + (size_t)file->status.st_size;
    space = mmap(NULL, file->map_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  if (space != MAP_FAILED) {
    file->map = space;
    if (mmap(file->map + HEADER_SPACE, (size_t)file->status.st_size, PROT_READ,
             MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED) {
      munmap(file->map, file->map_size);
      file->map = NULL;
    }
  }
  close(fd);
  return file->map != NULL;
}

void macho_file_close(macho_file_t *file) {
  if (file->map) munmap(file->map, file->map_size);
  free(file->path);
  *file = (macho_file_t){0};
}

/* ---- the ELF header ----------------------------------------------------------------------- */

/* Mach-O truncates names at 16 characters. */
static const char *const section_names[][2] = {
    {"__debug_info", ".debug_info"},         {"__debug_abbrev", ".debug_abbrev"},
    {"__debug_line", ".debug_line"},         {"__debug_line_str", ".debug_line_str"},
    {"__debug_str", ".debug_str"},           {"__debug_str_offs", ".debug_str_offsets"},
    {"__debug_addr", ".debug_addr"},         {"__debug_ranges", ".debug_ranges"},
    {"__debug_rnglists", ".debug_rnglists"}, {"__debug_loc", ".debug_loc"},
    {"__debug_loclists", ".debug_loclists"}, {"__debug_aranges", ".debug_aranges"},
    {"__debug_types", ".debug_types"},       {"__zdebug_info", ".zdebug_info"},
    {"__zdebug_abbrev", ".zdebug_abbrev"},   {"__zdebug_line", ".zdebug_line"},
    {"__zdebug_str", ".zdebug_str"},         {"__zdebug_ranges", ".zdebug_ranges"},
};
#define NAMES (sizeof section_names / sizeof section_names[0])

typedef struct elf_writer {
  macho_file_t *file;
  char *names;
  uint32_t names_used;
  uint32_t count; /* of sections; section 0 is reserved */
} elf_writer_t;

static void put_section(elf_writer_t *w, const char *name, uint32_t type, uint64_t offset,
                        uint64_t size) {
  uint8_t *at = w->file->map;
  uint32_t start = w->names_used, index = w->count++;
  w->names_used += (uint32_t)(stpcpy(w->names + start, name) - (w->names + start)) + 1;
  if (w->file->image.is_64bit) {
    Elf64_Shdr header = {
        .sh_name = start, .sh_type = type, .sh_offset = offset, .sh_size = size, .sh_addralign = 1};
    memcpy(at + sizeof(Elf64_Ehdr) + index * sizeof header, &header, sizeof header);
  } else {
    Elf32_Shdr header = {.sh_name = start,
                         .sh_type = type,
                         .sh_offset = (Elf32_Off)offset,
                         .sh_size = (Elf32_Word)size,
                         .sh_addralign = 1};
    memcpy(at + sizeof(Elf32_Ehdr) + index * sizeof header, &header, sizeof header);
  }
}

static Elf32_Half elf_machine(image_machine_t machine) {
  switch (machine) {
  case IMAGE_X86_64: return EM_X86_64;
  case IMAGE_AARCH64: return EM_AARCH64;
  case IMAGE_I386: return EM_386;
  case IMAGE_ARMV7:
  case IMAGE_ARM64_32: return EM_ARM;
  default: return EM_NONE;
  }
}

static void put_header(elf_writer_t *w) {
  const image_t *image = &w->file->image;
  Elf32_Half count = (Elf32_Half)w->count, names = (Elf32_Half)(w->count - 1);
  uint8_t ident[EI_NIDENT] = {
      ELFMAG0,     ELFMAG1,   ELFMAG2, ELFMAG3, image->is_64bit ? ELFCLASS64 : ELFCLASS32,
      ELFDATA2LSB, EV_CURRENT};
  if (image->is_64bit) {
    Elf64_Ehdr header = {.e_type = ET_EXEC,
                         .e_machine = elf_machine(image->machine),
                         .e_version = EV_CURRENT,
                         .e_shoff = sizeof header,
                         .e_ehsize = sizeof header,
                         .e_shentsize = sizeof(Elf64_Shdr),
                         .e_shnum = count,
                         .e_shstrndx = names};
    memcpy(header.e_ident, ident, sizeof ident);
    memcpy(w->file->map, &header, sizeof header);
  } else {
    Elf32_Ehdr header = {.e_type = ET_EXEC,
                         .e_machine = elf_machine(image->machine),
                         .e_version = EV_CURRENT,
                         .e_shoff = sizeof header,
                         .e_ehsize = sizeof header,
                         .e_shentsize = sizeof(Elf32_Shdr),
                         .e_shnum = count,
                         .e_shstrndx = names};
    memcpy(header.e_ident, ident, sizeof ident);
    memcpy(w->file->map, &header, sizeof header);
  }
}

/* Names are at the end of the header space, which the section headers never reach. */
#define NAMES_AT (HEADER_SPACE - 4096)

static void write_elf(macho_file_t *file) {
  elf_writer_t w = {.file = file, .names = (char *)file->map + NAMES_AT};
  bool seen[NAMES] = {false};
  macho_sections_t walk = {0};
  macho_section_t section;
  if (file->image.is_big_endian || (!file->image.is_64bit && file->map_size > UINT32_MAX)) return;
  put_section(&w, "", SHT_NULL, 0, 0);
  while (macho_next_section(&file->image, &walk, &section)) {
    section_t bytes = macho_contents(&file->image, &section);
    if (!bytes.data || strcmp(section.segment, "__DWARF") != 0) continue;
    for (size_t i = 0; i < NAMES; i++) {
      if (seen[i] || strcmp(section.name, section_names[i][0]) != 0) continue;
      seen[i] = true;
      put_section(&w, section_names[i][1], SHT_PROGBITS, (uint64_t)(bytes.data - file->map),
                  bytes.size);
      if (strstr(section.name, "debug_info")) file->debug_size = bytes.size;
    }
  }
  put_section(&w, ".shstrtab", SHT_STRTAB, NAMES_AT, 4096);
  put_header(&w);
}

bool macho_file_elf(const macho_file_t *file, const uint8_t **bytes, size_t *size) {
  *bytes = file->map;
  *size = file->map_size;
  return file->map && file->debug_size;
}

void macho_file_code(const image_t *image, uint64_t *low, uint64_t *high) {
  *low = UINT64_MAX;
  *high = 0;
  for (uint32_t i = 0; i < image->segment_count; i++) {
    const segment_t *s = &image->segments[i];
    if (!(s->flags & ELF_PF_X)) continue;
    if (s->address < *low) *low = s->address;
    if (s->address + s->size > *high) *high = s->address + s->size;
  }
}

/* ---- slices ------------------------------------------------------------------------------- */

static bool is_arm64e(const image_t *image) {
  return image->machine == IMAGE_AARCH64 && image->macho.cpu_subtype == MACHO_SUBTYPE_ARM64E;
}

static bool accepts_any(const macho_choice_t *choice) {
  return !choice->uuid_size && choice->machine == IMAGE_MACHINE_UNKNOWN;
}

/* 0: IMAGE is not wanted; 1: wanted if there is no better one; 2: wanted. */
static int fitness(const image_t *image, const macho_choice_t *choice) {
  if (choice->uuid_size)
    return image->build_id_size == choice->uuid_size &&
                   memcmp(image->build_id, choice->uuid, choice->uuid_size) == 0
               ? 2
               : 0;
  if (accepts_any(choice)) return 2;
  if (image->machine != choice->machine) return 0;
  if (is_arm64e(image) == choice->is_arm64e) return 2;
  return choice->is_arm64e ? 0 : 1;
}

/* Returns whether the file contains all of its segments and its symbol table. */
static bool is_complete(const image_t *image) {
  for (uint32_t i = 0; i < image->segment_count; i++)
    if (image->segments[i].file_offset + image->segments[i].file_size > image->file_size)
      return false;
  return !image->macho.is_cut;
}

/* Returns whether the image of a truncated slice may be the wanted one. */
static bool may_be_chosen(const macho_slice_t *slice, const macho_choice_t *choice) {
  if (choice->uuid_size || accepts_any(choice)) return true;
  return slice->machine == choice->machine && slice->is_arm64e >= choice->is_arm64e;
}

/* Chooses the slice of BYTES that CHOICE wants; of several, the first. */
static symbol_reason_t choose_slice(macho_file_t *file, const uint8_t *bytes, uint64_t size,
                                    const macho_choice_t *choice) {
  macho_slice_t slices[MACHO_SLICES_MAX];
  int count = macho_slices(bytes, size, slices), best = 0;
  bool is_other = false, is_truncated = false;
  symbol_reason_t reason = SYMBOL_NAMED;
  for (int i = 0; i < count && best < 2; i++) {
    image_t image = {.file = bytes, .file_size = size};
    if (macho_parse_file(&image, &slices[i], NULL) != 0) {
      is_truncated |= slices[i].is_cut && may_be_chosen(&slices[i], choice);
      if (is_truncated && accepts_any(choice)) break;
      continue;
    }
    int fits = fitness(&image, choice);
    is_other = true;
    is_truncated |= slices[i].is_cut && choice->uuid_size && !image.build_id_size;
    if (fits <= best) continue;
    best = fits;
    file->image = image;
    reason = is_complete(&image) && !slices[i].is_cut ? SYMBOL_NAMED : SYMBOL_TRUNCATED;
  }
  if (best == 2) return reason;
  if (is_truncated) return SYMBOL_TRUNCATED;
  if (best) return reason;
  return is_other ? SYMBOL_REPLACED : SYMBOL_BAD_FILE;
}

static symbol_reason_t open_part(macho_file_t *file, const char *path, const char *member,
                                 const macho_choice_t *choice);

symbol_reason_t macho_file_open(macho_file_t *file, const char *path,
                                const macho_choice_t *choice) {
  return open_part(file, path, NULL, choice);
}

/* ---- archives ----------------------------------------------------------------------------- */

/* ar(5): "!<arch>\n", then members. A member begins with a header of 60 characters: name 16, date
 * 12, user 6, group 6, mode 8, size 10, "`\n". BSD stores a long name ("#1/LENGTH") before the
 * contents. */
static bool find_member(const uint8_t *bytes, uint64_t size, const char *member, uint64_t *from,
                        uint64_t *length) {
  size_t wanted = strlen(member);
  if (size < 8 || memcmp(bytes, "!<arch>\n", 8) != 0) return false;
  for (uint64_t at = 8; size - at >= 60;) {
    char head[61] = {0}, digits[11] = {0};
    memcpy(head, bytes + at, 60);
    memcpy(digits, head + 48, 10);
    uint64_t body = at + 60, body_size = strtoull(digits, NULL, 10), name_size = 0;
    if (body_size > size - body) return false;
    const char *name = head;
    size_t shown = strcspn(head, " /");
    if (strncmp(head, "#1/", 3) == 0) {
      name_size = strtoull(head + 3, NULL, 10);
      if (name_size > body_size) return false;
      name = (const char *)bytes + body;
      shown = strnlen(name, name_size);
    }
    if (shown == wanted && memcmp(name, member, wanted) == 0) {
      *from = body + name_size;
      *length = body_size - name_size;
      return true;
    }
    at = body + body_size + (body_size & 1);
    if (at > size) return false;
  }
  return false;
}

static symbol_reason_t open_part(macho_file_t *file, const char *path, const char *member,
                                 const macho_choice_t *choice) {
  *file = (macho_file_t){0};
  if (!map_file(file, path)) return SYMBOL_NO_FILE;
  const uint8_t *bytes = file->map + HEADER_SPACE;
  uint64_t size = (uint64_t)file->status.st_size, from = 0;
  symbol_reason_t reason = SYMBOL_NO_FILE;
  if (!member || find_member(bytes, size, member, &from, &size))
    reason = choose_slice(file, bytes + from, size, choice);
  if (reason == SYMBOL_NAMED && !(file->path = strdup(path))) reason = SYMBOL_NO_FILE;
  if (reason == SYMBOL_NAMED)
    write_elf(file);
  else
    macho_file_close(file);
  return reason;
}

symbol_reason_t macho_object_open(macho_file_t *file, const char *path, image_machine_t machine) {
  const macho_choice_t choice = {.machine = machine};
  size_t length = strlen(path);
  const char *open_paren = strrchr(path, '(');
  symbol_reason_t reason = open_part(file, path, NULL, &choice);
  if (reason != SYMBOL_NO_FILE || !open_paren || path[length - 1] != ')') return reason;
  char *archive = strndup(path, (size_t)(open_paren - path));
  char *member = strndup(open_paren + 1, length - (size_t)(open_paren - path) - 2);
  if (archive && member) reason = open_part(file, archive, member, &choice);
  free(archive);
  free(member);
  return reason;
}
