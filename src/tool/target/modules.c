/* SPDX-License-Identifier: MIT
 *
 * A module is a run of adjacent mappings of one file whose offsets do not decrease: the loader maps
 * the segments of an image in that order, and a second load of the same file starts again at offset
 * 0. Its image is opened when a pc is first found in it. If the file is not accessible (deleted, a
 * memfd, in another container), its bytes are copied from the target's memory to their file
 * offsets. Such a copy has no section headers, which the image parser does not need.
 *
 * The slide is calculated from the segment of the pc's own mapping, not from the lowest address.
 * This is correct for prelinked, non-PIE and unusually linked images too.
 */
#define _GNU_SOURCE
#include "target/modules.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/array.h"
#include "sonde/status.h"
#include "target/packed/unpack.h"

/* The largest image that is copied from memory. */
#define MODULE_BYTES_MAX (512u << 20)
#define PAGE_MASK        0xfffu

/* ---- grouping ----------------------------------------------------------------------------- */

static bool is_file(const mapping_t *m) { return m->path[0] == '/'; }
static bool is_vdso(const mapping_t *m) { return strcmp(m->path, "[vdso]") == 0; }

static bool continues(const maps_t *maps, const module_t *module, const mapping_t *m) {
  const mapping_t *last = &maps->items[module->first_mapping + module->mapping_count - 1];
  return is_file(m) && last->inode == m->inode && last->dev_major == m->dev_major &&
         last->dev_minor == m->dev_minor && last->offset <= m->offset &&
         !(m->offset == 0 && last->offset == 0 && (m->access & MAP_EXEC)) &&
         strcmp(last->path, m->path) == 0;
}

static bool add_module(modules_t *modules, size_t *capacity, const mapping_t *m, size_t index) {
  if (!ARRAY_GROW(modules->items, modules->count, *capacity)) return false;
  module_t *module = &modules->items[modules->count++];
  memset(module, 0, sizeof *module);
  module->start = m->start;
  module->path = m->path;
  module->memfd = -1;
  module->first_mapping = index;
  return true;
}

bool modules_build(target_t *target) {
  maps_t *maps = &target->maps;
  modules_t *modules = &target->modules;
  size_t capacity = 0;
  bool open = false; /* the last module may continue */
  for (size_t i = 0; i < maps->count; i++) {
    mapping_t *m = &maps->items[i];
    if (!is_file(m) && !is_vdso(m)) {
      /* .bss and reserved gaps are within an image and part of the run. */
      if (m->path[0]) open = false;
      continue;
    }
    module_t *module = open ? &modules->items[modules->count - 1] : NULL;
    if (!module || !continues(maps, module, m)) {
      if (!add_module(modules, &capacity, m, i)) return false;
      module = &modules->items[modules->count - 1];
    }
    module->end = m->end;
    module->mapping_count = i - module->first_mapping + 1;
    m->module = (uint32_t)(modules->count - 1);
    open = is_file(m);
  }
  return true;
}

void modules_free(target_t *target) {
  for (size_t i = 0; i < target->modules.count; i++) {
    module_t *module = &target->modules.items[i];
    if (module->state == MODULE_READY) image_close(&module->image);
    module_forget_unpacked(module);
    if (module->memfd >= 0) close(module->memfd);
    free(module->open_path);
  }
  free(target->modules.items);
  memset(&target->modules, 0, sizeof target->modules);
}

/* ---- bytes from memory -------------------------------------------------------------------- */

static bool copy_range(target_t *target, int fd, uint64_t address, uint64_t size, uint64_t offset) {
  static const size_t piece = 1 << 16;
  char *buffer = malloc(piece);
  bool any = false;
  for (uint64_t done = 0; buffer && done < size;) {
    size_t n = size - done < piece ? (size_t)(size - done) : piece;
    if (!target->memory->read(target->memory, address + done, buffer, n)) {
      n = size - done < PAGE_MASK + 1 ? (size_t)(size - done) : PAGE_MASK + 1;
      if (!target->memory->read(target->memory, address + done, buffer, n)) {
        done += n; /* holes remain */
        continue;
      }
    }
    if (pwrite(fd, buffer, n, (off_t)(offset + done)) != (ssize_t)n) break;
    any = true;
    done += n;
  }
  free(buffer);
  return any;
}

/* Section headers are not mapped: removes them from the copied ELF header. */
static void forget_sections(int fd) {
  Elf64_Ehdr header;
  if (pread(fd, &header, sizeof header, 0) != (ssize_t)sizeof header ||
      memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return;
  if (header.e_ident[EI_CLASS] == ELFCLASS64) {
    header.e_shoff = 0;
    header.e_shnum = header.e_shstrndx = 0;
    if (pwrite(fd, &header, sizeof header, 0) < 0) return;
  }
}

bool modules_from_memory(target_t *target, module_t *module) {
  int fd = memfd_create("sonde-image", MFD_CLOEXEC);
  if (fd < 0) return false;
  bool any = false, vdso = strcmp(module->path, "[vdso]") == 0;
  for (size_t i = 0; i < module->mapping_count; i++) {
    const mapping_t *m = &target->maps.items[module->first_mapping + i];
    if (!is_file(m) && !vdso) continue;
    uint64_t size = m->end - m->start, offset = vdso ? 0 : m->offset;
    if (size > MODULE_BYTES_MAX || offset > MODULE_BYTES_MAX) continue;
    any |= copy_range(target, fd, m->start, size, offset);
  }
  char path[64];
  if (!any) {
    close(fd);
    return false;
  }
  if (!vdso) forget_sections(fd);
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  module->memfd = fd;
  module->open_path = strdup(path);
  return module->open_path != NULL;
}

/* ---- placing ------------------------------------------------------------------------------ */

/* Calculates the slide from the segment of IMAGE that the loader mapped at M. */
static bool slide_from(const image_t *image, const mapping_t *m, uint64_t *slide) {
  for (uint32_t i = 0; i < image->segment_count; i++) {
    const segment_t *s = &image->segments[i];
    uint64_t first = s->file_offset & ~(uint64_t)PAGE_MASK;
    if (!(m->access & MAP_UNKNOWN) && !(s->flags & PF_X) != !(m->access & MAP_EXEC)) continue;
    if (m->offset < first || m->offset >= s->file_offset + s->file_size) continue;
    *slide = m->start - (s->address - s->file_offset + m->offset);
    return true;
  }
  return false;
}

static bool place(target_t *target, module_t *module) {
  image_t *image = &module->image;
  bool vdso = strcmp(module->path, "[vdso]") == 0;
  for (int pass = 0; pass < 2;
       pass++) { /* code first: data may be mapped at the linked address of code */
    for (size_t i = 0; i < module->mapping_count; i++) {
      mapping_t m = target->maps.items[module->first_mapping + i];
      if (!is_file(&m) && !vdso) continue;
      if (vdso) m.offset = 0;
      if (pass == 0 && !(m.access & MAP_EXEC)) continue;
      if (!slide_from(image, &m, &image->slide)) continue;
      image->start = module->start;
      image->end = module->end;
      return true;
    }
  }
  return false;
}

static bool right_machine(const target_t *target, const image_t *image) {
  return image->is_64bit && !image->is_big_endian &&
         image->machine == (target->machine == MACHINE_X86_64 ? IMAGE_X86_64 : IMAGE_AARCH64);
}

bool modules_ready(target_t *target, module_t *module) {
  if (module->state != MODULE_UNREAD) return module->state == MODULE_READY;
  module->state = MODULE_FAILED;
  errno = 0;
  if (strcmp(module->path, "[vdso]") == 0)
    modules_from_memory(target, module);
  else
    target->locate(target, module);
  if (!module->open_path) {
    if (errno == ENOMEM)
      module->problem = sonde_strerror(SONDE_ENOMEM);
    else if (!module->problem)
      module->problem = "cannot open its file";
    return false;
  }
  int status = image_open(&module->image, module->open_path);
  if (status < 0) {
    module->problem = status == SONDE_EFORMAT ? "not an ELF image" : sonde_strerror(status);
    return false;
  }
  if (target->same_build && !target->same_build(target, module)) {
    module->problem = "its file is another build than the loaded one";
    image_close(&module->image);
    return false;
  }
  if (!right_machine(target, &module->image) || !place(target, module)) {
    module->problem = "its file does not match its mappings";
    image_close(&module->image);
    return false;
  }
  module->state = MODULE_READY;
  return true;
}

void modules_trim(const module_t *module) {
  const image_t *image = &module->image;
  if (image->mapped)
    (void)madvise((void *)(uintptr_t)image->mapped, image->mapped_size, MADV_DONTNEED);
}

module_t *target_module(target_t *target, uint64_t address) {
  mapping_t *m = NULL;
  if (target->last_mapping < target->maps.count) {
    m = &target->maps.items[target->last_mapping];
    if (address < m->start || address >= m->end) m = NULL;
  }
  if (!m) m = maps_find(&target->maps, address);
  if (!m) return NULL;
  target->last_mapping = (size_t)(m - target->maps.items);
  if (m->module == MODULE_NONE) return NULL;
  module_t *module = &target->modules.items[m->module];
  modules_ready(target, module);
  return module;
}
