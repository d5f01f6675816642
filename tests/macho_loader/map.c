/* SPDX-License-Identifier: MIT
 *
 * Maps an image and the libraries it names, in the way dyld does: segments at their distances, all
 * moved by one slide, protections as the file asks for them, the constant data closed once it is
 * filled in. Libraries of the system are answered by the stand-ins.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader.h"

mac_image_t images[IMAGES_MAX];
int image_count;

#define PAGE 16384ull /* of arm64 macOS; x86_64 ones are a part of it */

static uint32_t get32(const uint8_t *at) {
  uint32_t value;
  memcpy(&value, at, sizeof value);
  return value;
}
static uint64_t get64(const uint8_t *at) {
  uint64_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

static void read_file(mac_image_t *image) {
  struct stat st;
  int fd = open(image->path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &st) != 0) die("cannot open %s", image->path);
  image->file_size = (uint64_t)st.st_size;
  image->file = mmap(NULL, image->file_size, PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (image->file == MAP_FAILED || get32(image->file) != FACT_MH_MAGIC_64)
    die("%s is no 64-bit Mach-O file", image->path);
#if defined(__aarch64__)
  if (get32(image->file + FACT_header_cputype) != FACT_CPU_TYPE_ARM64)
#else
  if (get32(image->file + FACT_header_cputype) != FACT_CPU_TYPE_X86_64)
#endif
    die("%s is for another processor", image->path);
}

static void take_segment(mac_image_t *image, const uint8_t *command) {
  mac_segment_t *s = &image->segments[image->segment_count++];
  if (image->segment_count == SEGMENTS_MAX) die("%s has too many segments", image->path);
  memcpy(s->name, command + FACT_segment_name, 16);
  s->address = get64(command + FACT_segment_vmaddr);
  s->size = get64(command + FACT_segment_vmsize);
  s->offset = get64(command + FACT_segment_fileoff);
  s->file_size = get64(command + FACT_segment_filesize);
  s->protection = get32(command + FACT_segment_initprot);
  s->flags = get32(command + FACT_segment_flags);
}

static void take_range(uint32_t out[2], const uint8_t *command, int offset, int size) {
  out[0] = get32(command + offset);
  out[1] = get32(command + size);
}

static void read_command(mac_image_t *image, const uint8_t *command) {
  uint32_t kind = get32(command), range[2];
  if (kind == FACT_LC_SEGMENT_64) {
    take_segment(image, command);
  } else if (kind == FACT_LC_DYLD_INFO_ONLY) {
    take_range(image->rebase, command, FACT_info_rebase_off, FACT_info_rebase_size);
    take_range(image->bind, command, FACT_info_bind_off, FACT_info_bind_size);
    take_range(image->lazy, command, FACT_info_lazy_off, FACT_info_lazy_size);
    image->trie = image->file + get32(command + FACT_info_export_off);
    image->trie_size = get32(command + FACT_info_export_size);
  } else if (kind == FACT_LC_DYLD_CHAINED_FIXUPS) {
    take_range(image->chained, command, FACT_linkedit_dataoff, FACT_linkedit_datasize);
  } else if (kind == FACT_LC_DYLD_EXPORTS_TRIE) {
    take_range(range, command, FACT_linkedit_dataoff, FACT_linkedit_datasize);
    image->trie = image->file + range[0];
    image->trie_size = range[1];
  } else if (kind == FACT_LC_LOAD_DYLIB) {
    if (++image->library_count == LIBRARIES_MAX) die("%s has too many libraries", image->path);
    image->libraries[image->library_count] =
        (const char *)command + get32(command + FACT_dylib_name);
  } else if (kind == FACT_LC_MAIN) {
    image->entry = get64(command + FACT_main_entryoff);
  }
}

static void each_command(mac_image_t *image, void (*visit)(mac_image_t *, const uint8_t *)) {
  const uint8_t *at = image->file + FACT_sizeof_header;
  for (uint32_t left = get32(image->file + FACT_header_ncmds); left--; at += get32(at + 4))
    visit(image, at);
}

/* Reserves the whole range, then lays each segment into it; __PAGEZERO has no bytes and no rights.
 */
static void map_segments(mac_image_t *image) {
  uint64_t low = UINT64_MAX, high = 0;
  for (int i = 0; i < image->segment_count; i++) {
    const mac_segment_t *s = &image->segments[i];
    if (!s->protection) continue;
    if (s->address < low) low = s->address;
    if (s->address + s->size > high) high = s->address + s->size;
  }
  uint64_t size = high - low;
  uint8_t *room = witness_room(image->path, size);
  if (!room) room = mmap(NULL, size + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) die("no room for %s", image->path);
  uint64_t base = ((uint64_t)room + PAGE - 1) & ~(PAGE - 1);
  image->slide = (int64_t)(base - low);
  image->start = base;
  image->end = base + size;
  image->header = (uint8_t *)base;
  int fd = open(image->path, O_RDONLY | O_CLOEXEC);
  for (int i = 0; i < image->segment_count; i++) {
    const mac_segment_t *s = &image->segments[i];
    if (!s->protection) continue;
    uint8_t *at = (uint8_t *)(s->address + (uint64_t)image->slide);
    if (mprotect(at, s->size, PROT_READ | PROT_WRITE) != 0 ||
        (s->file_size && mmap(at, s->file_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd,
                              (off_t)s->offset) == MAP_FAILED))
      die("cannot map %s of %s", s->name, image->path);
  }
  close(fd);
}

static void protect_segments(const mac_image_t *image) {
  for (int i = 0; i < image->segment_count; i++) {
    const mac_segment_t *s = &image->segments[i];
    int protection = (int)s->protection; /* VM_PROT_… have the values of PROT_… */
    if (s->flags & FACT_SG_READ_ONLY) protection &= ~PROT_WRITE;
    if (s->protection) mprotect((void *)(s->address + (uint64_t)image->slide), s->size, protection);
  }
}

/* ---- sections that mean something to a loader ----------------------------------------------- */

static void each_section(mac_image_t *image,
                         void (*visit)(mac_image_t *, const uint8_t *section, uint32_t type)) {
  const uint8_t *at = image->file + FACT_sizeof_header;
  for (uint32_t left = get32(image->file + FACT_header_ncmds); left--; at += get32(at + 4)) {
    if (get32(at) != FACT_LC_SEGMENT_64) continue;
    const uint8_t *section = at + FACT_sizeof_segment;
    for (uint32_t n = get32(at + FACT_segment_nsects); n--; section += FACT_sizeof_section)
      visit(image, section, get32(section + FACT_section_flags) & FACT_SECTION_TYPE);
  }
}

static uint8_t *place(const mac_image_t *image, const uint8_t *section) {
  return (uint8_t *)(get64(section + FACT_section_addr) + (uint64_t)image->slide);
}

/* Thread-local variables: a descriptor is {thunk, key, offset}; the template is the regular part,
 * then the one of zeros. */
static void prepare_section(mac_image_t *image, const uint8_t *section, uint32_t type) {
  uint64_t size = get64(section + FACT_section_size);
  if (type == FACT_S_THREAD_LOCAL_VARIABLES) {
    uint64_t *words = (uint64_t *)place(image, section);
    for (uint64_t i = 0; i + 2 < size / 8; i += 3) {
      words[i] = (uint64_t)tlv_thunk;
      words[i + 1] = (uint64_t)image->number;
    }
  } else if (type == FACT_S_THREAD_LOCAL_REGULAR) {
    image->thread_template = place(image, section);
    image->thread_file_size = size;
    image->thread_size += size;
  } else if (type == FACT_S_THREAD_LOCAL_ZEROFILL) {
    if (!image->thread_template) image->thread_template = place(image, section);
    uint64_t end = (uint64_t)place(image, section) + size;
    image->thread_size = end - (uint64_t)image->thread_template;
  }
}

typedef void constructor_t(int, char **, char **, char **);

static void run_constructors(mac_image_t *image, const uint8_t *section, uint32_t type) {
  static char *apple[] = {NULL};
  uint64_t size = get64(section + FACT_section_size);
  const uint8_t *at = place(image, section);
  if (type == FACT_S_MOD_INIT_FUNC_POINTERS)
    for (uint64_t i = 0; i < size; i += 8)
      ((constructor_t *)get64(at + i))(mac_argc, mac_argv, mac_environ, apple);
  if (type == FACT_S_INIT_FUNC_OFFSETS)
    for (uint64_t i = 0; i < size; i += 4)
      ((constructor_t *)(image->header + get32(at + i)))(mac_argc, mac_argv, mac_environ, apple);
}

/* ---- exported symbols ----------------------------------------------------------------------- */

static uint64_t uleb(const uint8_t **at) {
  uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    uint8_t byte = *(*at)++;
    value |= (uint64_t)(byte & 127) << shift;
    if (!(byte & 128)) return value;
  }
}

/* Goes down the trie along NAME. */
void *image_export(const mac_image_t *image, const char *name) {
  if (!image->trie_size) return NULL;
  const uint8_t *node = image->trie;
  for (;;) {
    const uint8_t *at = node;
    uint64_t terminal = uleb(&at);
    if (!*name) {
      if (!terminal) return NULL;
      (void)uleb(&at); /* flags: re-exports are not met here */
      return image->header + uleb(&at);
    }
    at += terminal;
    int children = *at++;
    const uint8_t *next = NULL;
    while (children-- && !next) {
      size_t length = strlen((const char *)at);
      bool here = strncmp(name, (const char *)at, length) == 0;
      at += length + 1;
      uint64_t offset = uleb(&at);
      if (here) next = image->trie + offset, name += length;
    }
    if (!next) return NULL;
    node = next;
  }
}

/* ---- images --------------------------------------------------------------------------------- */

static bool is_of_system(const char *path) { return strncmp(path, "/usr/lib/", 9) == 0; }

/* @rpath, @loader_path: beside the image that asks. */
static void find_library(const mac_image_t *image, const char *name, char *out, size_t size) {
  const char *base = strrchr(name, '/'), *slash = strrchr(image->path, '/');
  int folder = slash ? (int)(slash - image->path) : 1;
  snprintf(out, size, "%.*s/%s", folder, slash ? image->path : ".", base ? base + 1 : name);
}

mac_image_t *image_load(const char *path, bool is_system) {
  char full[512];
  if (!realpath(path, full)) return NULL;
  for (int i = 0; i < image_count; i++)
    if (!images[i].is_gone && strcmp(images[i].path, full) == 0) return &images[i];
  if (image_count == IMAGES_MAX) die("too many images");
  mac_image_t *image = &images[image_count];
  *image = (mac_image_t){.number = image_count, .is_system = is_system};
  image_count++;
  strcpy(image->path, full);
  read_file(image);
  each_command(image, read_command);
  map_segments(image);
  for (int i = 1; i <= image->library_count; i++) {
    if (is_of_system(image->libraries[i])) continue;
    find_library(image, image->libraries[i], full, sizeof full);
    if (!image_load(full, false)) die("%s needs %s", image->path, image->libraries[i]);
  }
  image_fix(image);
  each_section(image, prepare_section);
  protect_segments(image);
  return image;
}

/* Libraries first. dyld tells of an image before its constructors run. */
void image_start(mac_image_t *image) {
  if (image->is_started) return;
  image->is_started = true;
  for (int i = image->number + 1; i < image_count; i++)
    image_start(&images[i]);
  each_section(image, run_constructors);
}

mac_image_t *image_holding(uint64_t address) {
  for (int i = 0; i < image_count; i++)
    if (!images[i].is_gone && address >= images[i].start && address < images[i].end)
      return &images[i];
  return NULL;
}

/* The main program first, then the others as they were loaded, then libSystem; or, for RTLD_NEXT,
 * those after the CALLER's image, and for RTLD_SELF that one and those after it. */
void *symbol_for_dlsym(void *handle, const char *name, const mac_image_t *caller) {
  char linked[256];
  snprintf(linked, sizeof linked, "_%s", name);
  bool is_next = (uint64_t)handle == (uint64_t)FACT_RTLD_NEXT;
  bool is_relative = is_next || (uint64_t)handle == (uint64_t)FACT_RTLD_SELF;
  if (!is_relative && (uint64_t)handle != (uint64_t)FACT_RTLD_DEFAULT)
    return image_export((const mac_image_t *)handle, linked);
  if (is_relative && !caller) die("dlsym(RTLD_NEXT) of %s from no image", name);
  int first = is_relative ? caller->is_system ? image_count : caller->number : 1;
  for (int i = first + is_next; i <= image_count; i++) {
    const mac_image_t *image = &images[i % image_count]; /* the system's, loaded first, is last */
    void *found = image->is_gone ? NULL : image_export(image, linked);
    if (found) return found;
  }
  return stand_in(linked);
}

static void *stand_in_among(const stand_in_t *list, const char *name) {
  for (; list->name; list++)
    if (strcmp(list->name, name) == 0) return gate_of(list);
  return NULL;
}

static const stand_in_t *const lists[] = {mach_stand_ins,  thread_stand_ins, dyld_stand_ins,
                                          posix_stand_ins, libc_stand_ins,   signal_stand_ins};

static void *system_export(const char *name) {
  void *found = NULL;
  for (int i = 0; i < image_count && !found; i++)
    if (images[i].is_system) found = image_export(&images[i], name);
  return found;
}

/* What follows a `$` says which variant of a function it is; all of them mean the present one. */
void *stand_in(const char *name) {
  char plain[256];
  snprintf(plain, sizeof plain, "%.*s", (int)strcspn(name, "$"), name);
  void *exported = system_export(name);
  if (!exported) exported = system_export(plain);
  if (exported) return exported;
  for (unsigned i = 0; i < sizeof lists / sizeof *lists; i++) {
    void *found = stand_in_among(lists[i], plain);
    if (found) return found;
  }
  return NULL;
}

void list_stand_ins(void) {
  for (unsigned i = 0; i < sizeof lists / sizeof *lists; i++)
    for (const stand_in_t *s = lists[i]; s->name; s++)
      printf("%s\n", s->name);
}
