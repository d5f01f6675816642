/* SPDX-License-Identifier: MIT
 *
 * A core file as a target. Memory that the kernel did not dump, mainly file-backed pages, is read
 * from the mapped files, as in gdb. A file whose build-id differs from the loaded one is refused,
 * because it would give wrong frames and names.
 */
#define _GNU_SOURCE
#include "target/core.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "target/modules.h"

#define PHDRS_MAX 64
#define NOTES_MAX 4096

/* ---- memory ------------------------------------------------------------------------------- */

/* The mapped file's bytes at ADDRESS, for memory that may not have been written to. */
static bool read_file(core_t *core, uint64_t address, void *out, size_t size) {
  const mapping_t *m = maps_find(&core->target->maps, address);
  if (!m || m->module == MODULE_NONE || size > m->end - address) return false;
  const module_t *module = &core->target->modules.items[m->module];
  if (module->state != MODULE_READY || !module->image.file) return false;
  uint64_t at = m->offset + (address - m->start);
  if (at > module->image.file_size || size > module->image.file_size - at) return false;
  memcpy(out, module->image.file + at, size);
  return true;
}

static bool core_read(memory_t *self, uint64_t address, void *out, size_t size) {
  core_t *core = (core_t *)self;
  return core_read_held(core, address, out, size) || read_file(core, address, out, size);
}

/* ---- build-ids ---------------------------------------------------------------------------- */

static bool find_build_id(const uint8_t *notes, uint64_t size, image_t *image) {
  for (uint64_t at = 0; size - at >= 12;) {
    uint32_t words[3];
    memcpy(words, notes + at, sizeof words);
    uint64_t data = at + 12 + (((uint64_t)words[0] + 3) & ~3ull);
    if (data > size || words[1] > size - data) return false;
    if (words[2] == NT_GNU_BUILD_ID && words[0] == 4 && memcmp(notes + at + 12, "GNU", 4) == 0 &&
        words[1] <= IMAGE_BUILD_ID_MAX) {
      memcpy(image->build_id, notes + data, words[1]);
      image->build_id_size = words[1];
      return true;
    }
    at = data + (((uint64_t)words[1] + 3) & ~3ull);
    if (at > size) return false;
  }
  return false;
}

/* The build-id of the image whose first page is at START in the core file. */
static bool held_build_id(const core_t *core, uint64_t start, image_t *image) {
  Elf64_Ehdr header;
  uint8_t notes[NOTES_MAX];
  if (!core_read_held(core, start, &header, sizeof header) ||
      memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phentsize != sizeof(Elf64_Phdr))
    return false;
  for (int i = 0; i < header.e_phnum && i < PHDRS_MAX; i++) {
    Elf64_Phdr phdr;
    if (!core_read_held(core, start + header.e_phoff + (uint64_t)i * sizeof phdr, &phdr,
                        sizeof phdr))
      return false;
    /* The notes are in the first segment, where file offsets and addresses have equal distances. */
    if (phdr.p_type == PT_NOTE && phdr.p_filesz <= sizeof notes &&
        core_read_held(core, start + phdr.p_offset, notes, phdr.p_filesz) &&
        find_build_id(notes, phdr.p_filesz, image))
      return true;
  }
  return false;
}

static bool same_build(target_t *target, const module_t *module) {
  image_t loaded = {.build_id_size = 0};
  if (!held_build_id(target->own, module->start, &loaded) || module->image.build_id_size == 0)
    return true; /* unknown, so not refused */
  return loaded.build_id_size == module->image.build_id_size &&
         memcmp(loaded.build_id, module->image.build_id, loaded.build_id_size) == 0;
}

/* ---- files -------------------------------------------------------------------------------- */

static bool is_main(const target_t *target, const module_t *module) {
  const core_t *core = target->own;
  return core->header >= module->start && core->header < module->end;
}

/* True if the file at PATH can be read and is the build that is loaded as MODULE, as far as the
 * core file tells. */
static bool is_its_file(const core_t *core, const module_t *module, const char *path) {
  image_t loaded = {.build_id_size = 0}, image;
  if (access(path, R_OK) != 0 || image_open(&image, path) != 0) return false;
  bool same = !held_build_id(core, module->start, &loaded) ||
              (loaded.build_id_size == image.build_id_size &&
               memcmp(loaded.build_id, image.build_id, loaded.build_id_size) == 0);
  image_close(&image);
  return same;
}

/* The file of MODULE below a sysroot, allocated; NULL: there is none. */
static char *find_below_sysroots(const core_t *core, const module_t *module) {
  char path[PATH_MAX];
  for (const char *const *root = core->sysroots; root && *root; root++)
    if (snprintf(path, sizeof path, "%s%s", *root, module->path) < (int)sizeof path &&
        is_its_file(core, module, path))
      return strdup(path);
  return NULL;
}

static void locate(target_t *target, module_t *module) {
  const core_t *core = target->own;
  bool is_given = core->exe && is_main(target, module);
  const char *path = is_given ? core->exe : module->path;
  if (!is_given) module->open_path = find_below_sysroots(core, module);
  if (module->open_path) return;
  if (access(path, R_OK) == 0)
    module->open_path = strdup(path);
  else if (!modules_from_memory(target, module))
    module->problem = "its file is missing";
}

/* ---- a core file without NT_FILE --------------------------------------------------------------
 */

/* The linked address of IMAGE's program headers; the auxiliary vector has the loaded one. */
static bool linked_headers(const image_t *image, uint64_t *address) {
  Elf64_Ehdr header;
  if (!image->file || image->file_size < sizeof header) return false;
  memcpy(&header, image->file, sizeof header);
  for (uint32_t i = 0; i < image->segment_count; i++) {
    const segment_t *s = &image->segments[i];
    if (header.e_phoff < s->file_offset || header.e_phoff - s->file_offset >= s->file_size)
      continue;
    *address = s->address + (header.e_phoff - s->file_offset);
    return true;
  }
  return false;
}

/* qemu-user and some other dumpers do not record the mapped files. If the user names the main
 * executable, its program headers give its place. */
static bool add_exe(core_t *core) {
  maps_t *maps = &core->target->maps;
  image_t image;
  uint64_t linked;
  if (!core->exe || core->header == 0 || maps_find(maps, core->header) ||
      image_open(&image, core->exe) != 0)
    return true;
  bool good = true;
  for (uint32_t i = 0; good && linked_headers(&image, &linked) && i < image.segment_count; i++) {
    const segment_t *s = &image.segments[i];
    uint64_t skip = s->file_offset & 0xfff, start = core->header - linked + s->address - skip;
    mapping_t m = {.start = start,
                   .end = start + ((skip + s->file_size + 0xfff) & ~0xfffull),
                   .offset = s->file_offset - skip,
                   .module = MODULE_NONE,
                   .path = core->exe,
                   .access = (s->flags & PF_R ? MAP_READ : 0) | (s->flags & PF_W ? MAP_WRITE : 0) |
                             (s->flags & PF_X ? MAP_EXEC : 0)};
    if (m.start < m.end && core->exe[0]) good = maps_add(maps, &m);
  }
  maps_sort(maps);
  image_close(&image);
  return good;
}

/* ---- opening ------------------------------------------------------------------------------ */

static void core_close(target_t *target) {
  core_t *core = target->own;
  if (!core) return;
  if (core->is_mapped) munmap((void *)(uintptr_t)core->bytes, (size_t)core->size);
  core_free(core);
  free(core);
}

static const uint8_t *map_file(const char *path, uint64_t *size, problem_t *problem) {
  struct stat st;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0 || fstat(fd, &st) != 0) {
    problem_set(problem, "cannot open '%s': %s", path, strerror(errno));
    if (fd >= 0) close(fd);
    return NULL;
  }
  const uint8_t *bytes = NULL;
  if (!S_ISREG(st.st_mode))
    problem_set(problem, "'%s' is not a regular file", path);
  else if (st.st_size == 0)
    problem_set(problem, "'%s' is empty", path);
  else {
    void *at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED)
      problem_set(problem, "cannot map '%s': %s", path, strerror(errno));
    else
      bytes = at;
  }
  close(fd);
  *size = (uint64_t)st.st_size;
  return bytes;
}

static int by_tid(const void *a, const void *b) {
  const thread_t *x = a, *y = b;
  return x->tid < y->tid ? -1 : x->tid > y->tid;
}

static void find_exe(target_t *target, const char *given) {
  for (size_t i = 0; i < target->modules.count && !target->exe; i++)
    if (is_main(target, &target->modules.items[i]))
      target->exe = strdup(target->modules.items[i].path);
  if (!target->exe && given) target->exe = strdup(given);
}

static bool open_core(target_t *target, const char *path, const char *exe,
                      const char *const *sysroots, problem_t *problem) {
  core_t *core = calloc(1, sizeof *core);
  problem_t inner = {{0}};
  if (!core) {
    problem_set(problem, "out of memory");
    return false;
  }
  target->own = core;
  target->close = core_close;
  target->locate = locate;
  target->same_build = same_build;
  target->memory = &core->memory;
  core->memory.read = core_read;
  core->target = target;
  core->exe = exe ? core->exe_path : NULL;
  core->sysroots = sysroots;
  core->add_missing = add_exe;
  if (exe && !realpath(exe, core->exe_path)) {
    problem_set(problem, "cannot open '%s': %s", exe, strerror(errno));
    return false;
  }
  uint64_t size;
  const uint8_t *bytes = map_file(path, &size, problem);
  if (!bytes) return false;
  core->is_mapped = true;
  core->bytes = bytes;
  core->size = size;
  if (!core_parse(target, core, bytes, size, &inner)) {
    problem_set(problem, "'%s' %s", path, inner.text);
    return false;
  }
  if (target->thread_count)
    qsort(target->threads, target->thread_count, sizeof *target->threads, by_tid);
  if (!modules_build(target)) {
    problem_set(problem, "out of memory");
    return false;
  }
  find_exe(target, exe);
  return true;
}

target_t *target_open_core(const char *path, const char *exe, const char *const *sysroots,
                           problem_t *problem) {
  target_t *target = target_new();
  if (target && open_core(target, path, exe, sysroots, problem)) return target;
  if (!target) problem_set(problem, "out of memory");
  target_close(target);
  return NULL;
}
