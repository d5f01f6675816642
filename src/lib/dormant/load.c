/* SPDX-License-Identifier: MIT */
#include "dormant/load.h"

#include <elf.h>
#include <string.h>
#include <sys/mman.h>

#include "os/linux/dynamic.h"
#include "os/os.h"

#ifndef DT_RELR /* musl 1.2.3 */
#define DT_RELR 36
#endif

#define SEGMENTS_MAX 16u
#define BYTES_MAX    (UINT64_C(64) << 20)

#if defined(__x86_64__)
enum { MACHINE = EM_X86_64, RELATIVE = R_X86_64_RELATIVE };
#else
enum { MACHINE = EM_AARCH64, RELATIVE = R_AARCH64_RELATIVE };
#endif

const char dormant_other_build[] =
    "the command is of another build than the libsonde-attached.so beside libsonde-dormant.so";
static const char damaged[] = "libsonde-attached.so is damaged, or for another CPU";

typedef struct file {
  int fd;
  Elf64_Ehdr header;
  Elf64_Phdr segments[SEGMENTS_MAX];
} file_t;

static bool read_at(const file_t *f, void *out, uint64_t size, uint64_t offset) {
  for (uint64_t done = 0; done < size;) {
    ssize_t n = os_pread(f->fd, (uint8_t *)out + done, size - done, offset + done);
    if (n <= 0) return false;
    done += (uint64_t)n;
  }
  return true;
}

static bool read_headers(file_t *f) {
  const Elf64_Ehdr *h = &f->header;
  return read_at(f, &f->header, sizeof f->header, 0) && memcmp(h->e_ident, ELFMAG, SELFMAG) == 0 &&
         h->e_ident[EI_CLASS] == ELFCLASS64 && h->e_type == ET_DYN && h->e_machine == MACHINE &&
         h->e_phentsize == sizeof(Elf64_Phdr) && h->e_phnum > 0 && h->e_phnum <= SEGMENTS_MAX &&
         read_at(f, f->segments, h->e_phnum * sizeof(Elf64_Phdr), h->e_phoff);
}

static bool is_inside(const loaded_t *l, uint64_t at, uint64_t size) {
  return at <= l->size && size <= l->size - at;
}

/* The size of the mapping: to the end of the last segment. */
static bool find_size(const file_t *f, loaded_t *l) {
  for (uint32_t i = 0; i < f->header.e_phnum; i++) {
    const Elf64_Phdr *p = &f->segments[i];
    if (p->p_type == PT_TLS) return false;
    if (p->p_type != PT_LOAD) continue;
    bool is_aligned = p->p_align >= 4096 && !(p->p_align & (p->p_align - 1));
    if (!is_aligned || p->p_vaddr > BYTES_MAX || p->p_memsz > BYTES_MAX || p->p_align > BYTES_MAX ||
        p->p_filesz > p->p_memsz)
      return false;
    uint64_t end = ALIGN_UP(p->p_vaddr + p->p_memsz, p->p_align);
    if (l->size < end) l->size = end;
  }
  return l->size > 0;
}

static bool copy_segments(const file_t *f, const loaded_t *l) {
  for (uint32_t i = 0; i < f->header.e_phnum; i++) {
    const Elf64_Phdr *p = &f->segments[i];
    if (p->p_type == PT_LOAD &&
        !read_at(f, (void *)(uintptr_t)(l->start + p->p_vaddr), p->p_filesz, p->p_offset))
      return false;
  }
  return true;
}

/* ---- the dynamic section ------------------------------------------------------------------ */

static uint64_t value_of(const loaded_t *l, const Elf64_Phdr *dynamic, int64_t tag) {
  const Elf64_Dyn *entries = (const Elf64_Dyn *)(uintptr_t)(l->start + dynamic->p_vaddr);
  for (uint64_t i = 0; i < dynamic->p_memsz / sizeof *entries && entries[i].d_tag != DT_NULL; i++)
    if (entries[i].d_tag == tag) return entries[i].d_un.d_val;
  return 0;
}

static bool relocate(const loaded_t *l, const Elf64_Phdr *dynamic) {
  uint64_t at = value_of(l, dynamic, DT_RELA), bytes = value_of(l, dynamic, DT_RELASZ);
  if (!is_inside(l, at, bytes) || value_of(l, dynamic, DT_NEEDED) ||
      value_of(l, dynamic, DT_PLTRELSZ) || value_of(l, dynamic, DT_RELR) ||
      value_of(l, dynamic, DT_INIT))
    return false;
  const Elf64_Rela *relocations = (const Elf64_Rela *)(uintptr_t)(l->start + at);
  for (uint64_t i = 0; i < bytes / sizeof *relocations; i++) {
    const Elf64_Rela *r = &relocations[i];
    if (ELF64_R_TYPE(r->r_info) != RELATIVE || !is_inside(l, r->r_offset, 8)) return false;
    uint64_t value = l->start + (uint64_t)r->r_addend;
    memcpy((void *)(uintptr_t)(l->start + r->r_offset), &value, sizeof value);
  }
  return true;
}

static void find_build_id(loaded_t *l, const Elf64_Phdr *notes) {
  uint64_t at = notes->p_vaddr, end = at + notes->p_memsz;
  while (is_inside(l, notes->p_vaddr, notes->p_memsz) && end - at >= sizeof(Elf64_Nhdr)) {
    const Elf64_Nhdr *note = (const Elf64_Nhdr *)(uintptr_t)(l->start + at);
    uint64_t name = ALIGN_UP((uint64_t)note->n_namesz, UINT64_C(4));
    uint64_t size = ALIGN_UP((uint64_t)note->n_descsz, UINT64_C(4));
    at += sizeof *note;
    if (name > end - at || size > end - at - name) return;
    const uint8_t *text = (const uint8_t *)(uintptr_t)(l->start + at);
    if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && !memcmp(text, "GNU", 4)) {
      l->build_id = text + name;
      l->build_id_size = note->n_descsz;
    }
    at += name + size;
  }
}

/* ---- the whole ---------------------------------------------------------------------------- */

static int access_of(uint32_t flags) {
  return (flags & PF_R ? PROT_READ : 0) | (flags & PF_W ? PROT_WRITE : 0) |
         (flags & PF_X ? PROT_EXEC : 0);
}

static bool protect(const file_t *f, const loaded_t *l) {
  for (uint32_t i = 0; i < f->header.e_phnum; i++) {
    const Elf64_Phdr *p = &f->segments[i];
    if (p->p_type != PT_LOAD || p->p_flags & PF_W) continue;
    uint64_t start = ALIGN_DOWN(p->p_vaddr, p->p_align);
    uint64_t end = ALIGN_UP(p->p_vaddr + p->p_memsz, p->p_align);
    if (os_protect(l->start + start, l->start + end, access_of(p->p_flags)) != 0) return false;
  }
  return true;
}

static void initialize(const loaded_t *l, const Elf64_Phdr *dynamic) {
  uint64_t at = value_of(l, dynamic, DT_INIT_ARRAY), bytes = value_of(l, dynamic, DT_INIT_ARRAYSZ);
  typedef void initializer_t(int, char **, char **);
  initializer_t **initializers = (initializer_t **)(uintptr_t)(l->start + at);
  for (uint64_t i = 0; is_inside(l, at, bytes) && i < bytes / 8; i++)
    initializers[i](0, NULL, NULL);
}

bool dormant_is_build(const loaded_t *l, const uint8_t *build_id, uint32_t size) {
  return l->build_id_size == size && memcmp(l->build_id, build_id, size) == 0;
}

static const char *load(const file_t *f, loaded_t *l, const uint8_t *build_id, uint32_t size) {
  const Elf64_Phdr *dynamic = NULL;
  if (!find_size(f, l)) return damaged;
  l->start = (uint64_t)(uintptr_t)os_map(l->size);
  if (!l->start) return "out of memory";
  if (!copy_segments(f, l)) return damaged;
  for (uint32_t i = 0; i < f->header.e_phnum; i++) {
    const Elf64_Phdr *p = &f->segments[i];
    if (p->p_type == PT_DYNAMIC && is_inside(l, p->p_vaddr, p->p_memsz)) dynamic = p;
    if (p->p_type == PT_NOTE) find_build_id(l, p);
  }
  if (!dynamic || !relocate(l, dynamic)) return damaged;
  dynamic_t symbols;
  dynamic_read(&symbols, (const Elf64_Dyn *)(uintptr_t)(l->start + dynamic->p_vaddr), l->start,
               l->start, l->start + l->size);
  l->entry =
      (void (*)(attach_block_t *))(uintptr_t)dynamic_symbol(&symbols, "sonde_attach_run", NULL);
  if (!l->entry || !l->build_id_size) return damaged;
  if (!dormant_is_build(l, build_id, size)) return dormant_other_build;
  if (!protect(f, l)) return "the program may not make memory executable";
  initialize(l, dynamic);
  return NULL;
}

const char *dormant_load(loaded_t *out, const char *path, const uint8_t *build_id, uint32_t size) {
  file_t f;
  loaded_t l = {0};
  f.fd = os_open_read(path);
  if (f.fd < 0) return "libsonde-attached.so cannot be opened beside libsonde-dormant.so";
  const char *problem = read_headers(&f) ? load(&f, &l, build_id, size) : damaged;
  os_close(f.fd);
  if (problem && l.start) os_unmap((void *)(uintptr_t)l.start, l.size);
  if (!problem) *out = l;
  return problem;
}
