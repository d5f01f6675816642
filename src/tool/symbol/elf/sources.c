/* SPDX-License-Identifier: MIT
 *
 * Finds the files of a module, in gdb's order: the image, a file named by the build-id, a file
 * named by .gnu_debuglink with matching content, debuginfod. The image is searched below the user's
 * sysroots first and in the user's folders last. Before debuginfod, the files of the user's folders
 * are tried. A file with another build-id is rejected. See sources.h.
 */
#include "symbol/elf/sources.h"

#include <dlfcn.h>
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/message.h"
#include "base/room.h"
#include "symbol/elf/folders.h"
#include "symbol/macho/map.h"
#include "symbol/index/coding.h"

static const char *const default_dirs[] = {"/usr/lib/debug", NULL};

/* ---- one file ----------------------------------------------------------------------------- */

static void close_file(elf_file_t *file) {
  if (file->elf) elf_end(file->elf);
  if (file->fd >= 0) close(file->fd);
  free(file->path);
  *file = (elf_file_t){.fd = -1};
}

static bool open_fd(elf_file_t *file, int fd, const char *path) {
  room_need_file(fd);
  *file = (elf_file_t){.fd = fd, .path = strdup(path)};
  elf_version(EV_CURRENT);
  file->elf = file->path ? elf_begin(fd, ELF_C_READ_MMAP, NULL) : NULL;
  if (file->elf && elf_kind(file->elf) == ELF_K_ELF) return true;
  close_file(file);
  return false;
}

static bool open_file(elf_file_t *file, const char *path) {
  int fd = elf_open_regular(path);
  return fd >= 0 && open_fd(file, fd, path);
}

static bool open_memory(elf_file_t *file, const uint8_t *bytes, size_t size, const char *path) {
  *file = (elf_file_t){.fd = -1, .path = strdup(path ? path : "")};
  elf_version(EV_CURRENT);
  file->elf = file->path ? elf_memory((char *)(uintptr_t)bytes, size) : NULL;
  if (file->elf && elf_kind(file->elf) == ELF_K_ELF) return true;
  close_file(file);
  return false;
}

/* ---- truncated files ---------------------------------------------------------------------- */

/* A truncated copy, or one with an overwritten header, would otherwise look like a stripped binary.
 * libelf silently drops a table that does not fit, so the numbers of the file header are compared
 * with the file's size.
 *
 * Linkers write the section headers at the end, so they reveal nearly every truncation. Segments
 * are checked only when there are no section headers: eu-strip's debug files keep the program
 * headers of their image, without its bytes. */
static bool is_inside(uint64_t offset, uint64_t length, uint64_t size) {
  return offset <= size && length <= size - offset;
}

/* With 65280 sections or more, the count is in the first section header, which libelf then reads.
 */
static bool section_table_is_inside(Elf *elf, const GElf_Ehdr *header, uint64_t size) {
  size_t count = header->e_shnum;
  if (!count && is_inside(header->e_shoff, header->e_shentsize, size) &&
      elf_getshdrnum(elf, &count) != 0)
    return false;
  if (!count) count = 1;
  return is_inside(header->e_shoff, (uint64_t)count * header->e_shentsize, size);
}

static bool sections_are_inside(Elf *elf, uint64_t size) {
  Elf_Scn *section = NULL;
  GElf_Shdr header;
  while ((section = elf_nextscn(elf, section)))
    if (gelf_getshdr(section, &header) && header.sh_type != SHT_NOBITS &&
        header.sh_type != SHT_NULL && !is_inside(header.sh_offset, header.sh_size, size))
      return false;
  return true;
}

static bool segments_are_inside(Elf *elf, uint64_t size) {
  GElf_Phdr header;
  size_t count;
  if (elf_getphdrnum(elf, &count) != 0) return false;
  for (size_t i = 0; i < count && i < INT32_MAX; i++)
    if (gelf_getphdr(elf, (int)i, &header) && header.p_type == PT_LOAD &&
        !is_inside(header.p_offset, header.p_filesz, size))
      return false;
  return true;
}

static symbol_reason_t check_truncation(Elf *elf, uint64_t size) {
  GElf_Ehdr header;
  if (!gelf_getehdr(elf, &header)) return SYMBOL_BAD_FILE;
  if (!header.e_phnum && !header.e_shoff) return SYMBOL_BAD_FILE;
  if (!is_inside(header.e_phoff, (uint64_t)header.e_phnum * header.e_phentsize, size))
    return SYMBOL_TRUNCATED;
  bool inside = header.e_shoff
                    ? section_table_is_inside(elf, &header, size) && sections_are_inside(elf, size)
                    : segments_are_inside(elf, size);
  return inside ? SYMBOL_NAMED : SYMBOL_TRUNCATED;
}

static symbol_reason_t check_file(const elf_file_t *file) {
  struct stat status;
  if (fstat(file->fd, &status) != 0) return SYMBOL_NO_FILE;
  return check_truncation(file->elf, (uint64_t)status.st_size);
}

/* ---- build-ids and sizes ------------------------------------------------------------------ */

static bool has_build_id(const elf_file_t *file, const uint8_t *id, size_t size, bool if_any) {
  const void *own;
  ssize_t own_size = dwelf_elf_gnu_build_id(file->elf, &own);
  if (own_size <= 0) return !if_any;
  return (size_t)own_size == size && !memcmp(own, id, size);
}

/* The section NAME if it has bytes in the file, or NULL. */
static Elf_Scn *section_named(Elf *elf, const char *name, GElf_Shdr *header) {
  size_t names;
  Elf_Scn *section = NULL;
  if (elf_getshdrstrndx(elf, &names) != 0) return NULL;
  while ((section = elf_nextscn(elf, section))) {
    if (!gelf_getshdr(section, header) || header->sh_type == SHT_NOBITS) continue;
    const char *own = elf_strptr(elf, names, header->sh_name);
    if (own && !strcmp(own, name)) return section;
  }
  return NULL;
}

static uint64_t debug_info_size(Elf *elf) {
  GElf_Shdr header;
  if (section_named(elf, ".debug_info", &header)) return header.sh_size;
  if (section_named(elf, ".zdebug_info", &header)) return header.sh_size;
  return 0;
}

static bool is_compressed(Elf *elf) {
  GElf_Shdr header;
  if (section_named(elf, ".debug_info", &header)) return header.sh_flags & SHF_COMPRESSED;
  return section_named(elf, ".zdebug_info", &header) != NULL;
}

static uint64_t symbols_size(Elf *elf) {
  uint64_t size = 0;
  Elf_Scn *section = NULL;
  GElf_Shdr header;
  while ((section = elf_nextscn(elf, section)))
    if (gelf_getshdr(section, &header) &&
        (header.sh_type == SHT_SYMTAB || header.sh_type == SHT_DYNSYM))
      size += header.sh_size;
  return size;
}

static void read_segments(sources_t *sources, Elf *elf) {
  size_t count = 0;
  bool first = true;
  sources->code_low = UINT64_MAX;
  sources->code_high = 0;
  if (elf_getphdrnum(elf, &count) != 0) count = 0;
  for (size_t i = 0; i < count && i < INT32_MAX; i++) {
    GElf_Phdr header;
    if (!gelf_getphdr(elf, (int)i, &header) || header.p_type != PT_LOAD) continue;
    if (first || header.p_vaddr < sources->link_base) sources->link_base = header.p_vaddr;
    first = false;
    if (!(header.p_flags & PF_X) || header.p_vaddr + header.p_memsz < header.p_vaddr) continue;
    if (header.p_vaddr < sources->code_low) sources->code_low = header.p_vaddr;
    if (header.p_vaddr + header.p_memsz > sources->code_high)
      sources->code_high = header.p_vaddr + header.p_memsz;
  }
  sources->link_base &= ~(uint64_t)0xfff;
}

/* ---- the debug file ----------------------------------------------------------------------- */

static bool try_debug(sources_t *sources, const char *path, const uint8_t *id, size_t id_size,
                      const uint32_t *crc) {
  struct stat status, own;
  elf_file_t file;
  if (!open_file(&file, path)) return false;
  bool good = fstat(file.fd, &status) == 0 && check_file(&file) == SYMBOL_NAMED;
  if (good && sources->image.fd >= 0 && fstat(sources->image.fd, &own) == 0)
    good = status.st_ino != own.st_ino || status.st_dev != own.st_dev;
  if (good && id_size) good = has_build_id(&file, id, id_size, true);
  if (good && !id_size && crc) {
    size_t size;
    const char *bytes = elf_rawfile(file.elf, &size);
    good = bytes && crc32_z(0, (const Bytef *)bytes, size) == *crc;
  }
  if (good)
    sources->debug = file;
  else
    close_file(&file);
  return good;
}

/* Writes DIR/.build-id/xx/yyyy with SUFFIX to PATH. False: it is too long. */
static bool build_id_path(char path[PATH_MAX], const char *dir, const uint8_t *id, size_t size,
                          const char *suffix) {
  int used = snprintf(path, PATH_MAX, "%s/.build-id/%02x/", dir, id[0]);
  if (used < 0 || (size_t)used + size * 2 + strlen(suffix) + 1 > PATH_MAX) return false;
  for (size_t i = 1; i < size; i++)
    used += snprintf(path + used, PATH_MAX - (size_t)used, "%02x", id[i]);
  strcpy(path + used, suffix);
  return true;
}

static bool find_by_build_id(sources_t *sources, const char *const *dirs, const uint8_t *id,
                             size_t size) {
  char path[PATH_MAX];
  for (; dirs && *dirs; dirs++) {
    if (build_id_path(path, *dirs, id, size, ".debug") && try_debug(sources, path, id, size, NULL))
      return true;
    /* a link to the image itself, as in some distributions */
    if (!sources->image.elf && build_id_path(path, *dirs, id, size, "") &&
        try_debug(sources, path, id, size, NULL))
      return true;
  }
  return false;
}

/* The debug files of sysroots. */
static bool find_in_sysroots(sources_t *sources, const char *const *sysroots, const uint8_t *id,
                             size_t size) {
  char path[PATH_MAX];
  const char *dirs[] = {path, NULL};
  for (; sysroots && *sysroots; sysroots++)
    if ((size_t)snprintf(path, sizeof path, "%s/usr/lib/debug", *sysroots) < sizeof path &&
        find_by_build_id(sources, dirs, id, size))
      return true;
  return false;
}

static bool find_by_link(sources_t *sources, const char *const *dirs, const uint8_t *id,
                         size_t size) {
  GElf_Word crc;
  char path[PATH_MAX], folder[PATH_MAX];
  const char *name = sources->image.elf ? dwelf_elf_gnu_debuglink(sources->image.elf, &crc) : NULL;
  if (!name || !*name || strchr(name, '/') || !realpath(sources->image.path, folder)) return false;
  char *slash = strrchr(folder, '/');
  if (slash) *slash = 0;
  uint32_t sum = crc;
  for (int i = 0; i < 2; i++) {
    if ((size_t)snprintf(path, sizeof path, i ? "%s/.debug/%s" : "%s/%s", folder, name) >=
        sizeof path)
      continue;
    if (try_debug(sources, path, id, size, &sum)) return true;
  }
  for (; dirs && *dirs; dirs++)
    if ((size_t)snprintf(path, sizeof path, "%s%s/%s", *dirs, folder, name) < sizeof path &&
        try_debug(sources, path, id, size, &sum))
      return true;
  return false;
}

/* Tries NAME and NAME.debug in folders of debug files or unstripped builds. The build-id must
 * match. */
static bool find_by_name(sources_t *sources, const char *const *dirs, const char *image_path,
                         const uint8_t *id, size_t size) {
  char path[PATH_MAX];
  const char *slash = image_path ? strrchr(image_path, '/') : NULL;
  const char *name = slash ? slash + 1 : image_path;
  if (!size || !name || !*name) return false;
  for (; dirs && *dirs; dirs++)
    for (int i = 0; i < 2; i++)
      if ((size_t)snprintf(path, sizeof path, i ? "%s/%s" : "%s/%s.debug", *dirs, name) <
              sizeof path &&
          try_debug(sources, path, id, size, NULL))
        return true;
  return false;
}

/* Tries the files with the build-id in folders of the user, whatever their names: first those with
 * debug information. */
static bool find_in_folders(sources_t *sources, const symbol_places_t *places, const uint8_t *id,
                            size_t size) {
  for (int any = 0; any < 2; any++)
    for (const char *const *dirs = places->debug_dirs; dirs && *dirs; dirs++) {
      size_t place = 0;
      const char *path;
      while ((path = elf_folders_find(places->folders, *dirs, id, size, &place))) {
        if (!try_debug(sources, path, id, size, NULL)) continue;
        if (any || debug_info_size(sources->debug.elf)) return true;
        close_file(&sources->debug);
      }
    }
  return false;
}

/* debuginfod.h of elfutils: a client finds a file by its build-id. The library is loaded only when
 * servers are configured. It caches files and failures. */
static bool find_by_debuginfod(sources_t *sources, const uint8_t *id, size_t size) {
  const char *urls = getenv("DEBUGINFOD_URLS");
  if (!urls || !*urls) return false;
  void *library = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return false;
  void *(*begin)(void);
  void (*end)(void *);
  int (*find)(void *, const unsigned char *, int, char **);
  *(void **)&begin = dlsym(library, "debuginfod_begin");
  *(void **)&end = dlsym(library, "debuginfod_end");
  *(void **)&find = dlsym(library, "debuginfod_find_debuginfo");
  void *client = begin && end && find ? begin() : NULL;
  if (!client) return false;
  char *path = NULL;
  int fd = find(client, id, (int)size, &path);
  bool good = fd >= 0 && open_fd(&sources->debug, fd, path ? path : "");
  free(path);
  end(client);
  return good;
}

static void find_debug(sources_t *sources, const symbol_places_t *places, const char *image_path,
                       const uint8_t *id, size_t id_size) {
  const char *const *dirs = places->debug_dirs;
  if (id_size && (find_by_build_id(sources, dirs, id, id_size) ||
                  find_in_sysroots(sources, places->sysroots, id, id_size) ||
                  find_by_build_id(sources, default_dirs, id, id_size)))
    return;
  if (find_by_link(sources, dirs, id, id_size) || find_by_link(sources, default_dirs, id, id_size))
    return;
  if (find_by_name(sources, dirs, image_path, id, id_size)) return;
  if (find_in_folders(sources, places, id, id_size)) return;
  if (id_size) find_by_debuginfod(sources, id, id_size);
}

static void read_debug(sources_t *sources) {
  sources_t other = {0};
  if (!sources->debug.elf) return;
  sources->debug_size = debug_info_size(sources->debug.elf);
  sources->is_compressed = is_compressed(sources->debug.elf);
  sources->symbols_size += symbols_size(sources->debug.elf);
  read_segments(&other, sources->debug.elf);
  if (!sources->image.elf) {
    sources->link_base = other.link_base;
    sources->code_low = other.code_low;
    sources->code_high = other.code_high;
  }
  sources->bias = sources->link_base - other.link_base;
}

/* ---- .gnu_debugdata ----------------------------------------------------------------------- */

#define XZ_UNPACKED_MAX ((size_t)256 << 20)
#define XZ_MEMORY_MAX   ((uint64_t)128 << 20)

/* Unpacks the xz stream PACKED (.gnu_debugdata contains one, of a small ELF file). The caller frees
 * the result. NULL when PACKED is not an xz stream or unpacks to more than XZ_UNPACKED_MAX bytes.
 */
static uint8_t *unpack_xz(const void *packed, size_t packed_size, size_t *size) {
  uint8_t *out = NULL;
  for (size_t capacity = packed_size * 4 + 4096; capacity <= XZ_UNPACKED_MAX; capacity *= 2) {
    uint64_t memory = XZ_MEMORY_MAX;
    size_t read = 0, written = 0;
    uint8_t *grown = realloc(out, capacity);
    if (!grown) message_out_of_memory();
    out = grown;
    lzma_ret result = lzma_stream_buffer_decode(&memory, 0, NULL, packed, &read, packed_size, out,
                                                &written, capacity);
    if (result == LZMA_OK) {
      *size = written;
      return out;
    }
    if (result == LZMA_MEM_ERROR) message_out_of_memory();
    if (result != LZMA_BUF_ERROR) break;
  }
  free(out);
  return NULL;
}

static void open_mini(sources_t *sources) {
  GElf_Shdr header;
  Elf_Scn *section = section_named(sources->image.elf, ".gnu_debugdata", &header);
  Elf_Data *data = section ? elf_rawdata(section, NULL) : NULL;
  size_t size;
  if (!data || !data->d_buf) return;
  sources->mini_bytes = unpack_xz(data->d_buf, data->d_size, &size);
  if (sources->mini_bytes) open_memory(&sources->mini, sources->mini_bytes, size, NULL);
}

static uint64_t mix_status(uint64_t sum, const struct stat *status) {
  uint64_t facts[] = {sum, (uint64_t)status->st_size, (uint64_t)status->st_mtim.tv_sec,
                      (uint64_t)status->st_mtim.tv_nsec, (uint64_t)status->st_ino};
  return coding_checksum((const uint8_t *)facts, sizeof facts);
}

static uint64_t mix_file(uint64_t sum, const elf_file_t *file) {
  struct stat status;
  if (file->fd < 0 || fstat(file->fd, &status) != 0) return sum;
  return mix_status(sum, &status);
}

/* ---- Mach-O ------------------------------------------------------------------------------- */

/* The estimated size of an object file's debug information. */
#define OBJECT_COST 65536

static void read_macho(sources_t *sources) {
  const macho_sources_t *macho = sources->macho;
  const macho_file_t *debug = macho_sources_debug(macho);
  const image_t *image = macho_sources_image(macho);
  sources->link_base = image->start;
  macho_file_code(image, &sources->code_low, &sources->code_high);
  sources->debug_size = debug ? debug->debug_size : 0;
  sources->symbols_size = image->symtab.size;
  sources->fingerprint = 1;
  if (macho->image.map) sources->fingerprint = mix_status(1, &macho->image.status);
  if (macho->debug.map)
    sources->fingerprint = mix_status(sources->fingerprint, &macho->debug.status);
  if (debug) return;
  sources->fingerprint ^= macho_map_fingerprint(image);
  sources->debug_size = macho_map_objects(image) * OBJECT_COST;
}

const char *sources_debug_path(const sources_t *sources) {
  if (sources->macho) {
    const macho_file_t *debug = macho_sources_debug(sources->macho);
    return debug ? debug->path : NULL;
  }
  if (sources->image_has_debug) return sources->image.path;
  return sources->debug.elf ? sources->debug.path : NULL;
}

/* Opens PATH as the image of SOURCE. */
static symbol_reason_t try_image(sources_t *sources, const symbol_source_t *source,
                                 const char *path) {
  int fd = elf_open_regular(path);
  if (fd < 0) return SYMBOL_NO_FILE;
  if (!open_fd(&sources->image, fd, path)) return SYMBOL_BAD_FILE;
  symbol_reason_t reason = check_file(&sources->image);
  if (reason == SYMBOL_NAMED && source->build_id_size &&
      !has_build_id(&sources->image, source->build_id, source->build_id_size, true))
    reason = SYMBOL_REPLACED;
  if (reason != SYMBOL_NAMED) close_file(&sources->image);
  return reason;
}

/* Opens PATH if it has the bytes of SOURCE's code: a debug file has not. */
static bool try_foreign(sources_t *sources, const symbol_source_t *source, const char *path) {
  GElf_Shdr header;
  if (try_image(sources, source, path) != SYMBOL_NAMED) return false;
  if (section_named(sources->image.elf, ".text", &header)) return true;
  close_file(&sources->image);
  return false;
}

static bool find_image(sources_t *sources, const symbol_places_t *places,
                       const symbol_source_t *source) {
  const uint8_t *id = source->build_id;
  size_t size = source->build_id_size;
  for (const char *const *dirs = places->debug_dirs; size && dirs && *dirs; dirs++) {
    char path[PATH_MAX];
    const char *found;
    size_t place = 0;
    if (build_id_path(path, *dirs, id, size, "") && try_foreign(sources, source, path)) return true;
    while ((found = elf_folders_find(places->folders, *dirs, id, size, &place)))
      if (try_foreign(sources, source, found)) return true;
  }
  return false;
}

static symbol_reason_t open_image(sources_t *sources, const symbol_source_t *source,
                                  const symbol_places_t *places) {
  char path[PATH_MAX];
  bool is_foreign;
  symbol_reason_t reason = SYMBOL_NO_FILE;
  if (source->bytes)
    return open_memory(&sources->image, source->bytes, source->size, source->path)
               ? SYMBOL_NAMED
               : SYMBOL_BAD_FILE;
  for (size_t i = 0; symbol_place(places, source, i, path, &is_foreign); i++) {
    symbol_reason_t found = try_image(sources, source, path);
    if (found == SYMBOL_NAMED) return SYMBOL_NAMED;
    if (found != SYMBOL_NO_FILE) reason = found;
  }
  return find_image(sources, places, source) ? SYMBOL_NAMED : reason;
}

symbol_reason_t sources_open(sources_t *sources, const symbol_source_t *source,
                             const symbol_places_t *places) {
  *sources = (sources_t){.image = {.fd = -1}, .debug = {.fd = -1}, .mini = {.fd = -1}};
  symbol_reason_t reason;
  sources->macho = macho_sources_open(source, places, &reason);
  if (sources->macho) {
    read_macho(sources);
    return SYMBOL_NAMED;
  }
  if (reason == SYMBOL_REPLACED || reason == SYMBOL_TRUNCATED) return reason; /* a Mach-O file */
  reason = open_image(sources, source, places);
  const uint8_t *id = source->build_id;
  size_t id_size = source->build_id_size;
  if (sources->image.elf) {
    const void *own;
    ssize_t own_size = dwelf_elf_gnu_build_id(sources->image.elf, &own);
    if (!id_size && own_size > 0) {
      id = own;
      id_size = (size_t)own_size;
    }
    read_segments(sources, sources->image.elf);
    sources->debug_size = debug_info_size(sources->image.elf);
    sources->is_compressed = is_compressed(sources->image.elf);
    sources->image_has_debug = sources->debug_size > 0;
    sources->symbols_size = symbols_size(sources->image.elf);
    open_mini(sources);
  }
  if (!sources->image_has_debug && !source->bytes)
    find_debug(sources, places, source->path, id, id_size);
  read_debug(sources);
  sources->fingerprint = mix_file(mix_file(1, &sources->image), &sources->debug);
  if (sources->image.elf || sources->debug.elf) return SYMBOL_NAMED;
  return reason;
}

void sources_close(sources_t *sources) {
  macho_sources_close(sources->macho);
  sources->macho = NULL;
  close_file(&sources->image);
  close_file(&sources->debug);
  close_file(&sources->mini);
  free(sources->mini_bytes);
  sources->mini_bytes = NULL;
}

size_t sources_build_id(const sources_t *sources, uint8_t *out, size_t capacity) {
  if (sources->macho) {
    const image_t *image = macho_sources_image(sources->macho);
    if (image->build_id_size > capacity) return 0;
    memcpy(out, image->build_id, image->build_id_size);
    return image->build_id_size;
  }
  const void *id;
  Elf *elf = sources->image.elf ? sources->image.elf : sources->debug.elf;
  ssize_t size = dwelf_elf_gnu_build_id(elf, &id);
  if (size <= 0 || (size_t)size > capacity) return 0;
  memcpy(out, id, (size_t)size);
  return (size_t)size;
}
