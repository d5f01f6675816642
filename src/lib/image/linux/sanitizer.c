/* SPDX-License-Identifier: MIT */
#include "image/elf/sanitizer.h"

#include <elf.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "os/os.h"

#define PHDR_MAX     64u
#define DYNAMIC_MAX  512u
#define DYNAMIC_READ 64u /* entries at once: few programs have more */
#define SCRIPT_DEPTH 4   /* as the kernel: fs/exec.c */
#define SCRIPT_LINE  256u

bool sanitizer_is_runtime(const char *path) {
  static const char *const prefixes[] = {"lib", "libclang_rt."};
  static const char *const kinds[] = {"asan", "lsan", "tsan", "hwasan"};
  const char *name = path;
  for (const char *p = path; *p && *p != ':' && *p != ' '; p++)
    if (*p == '/') name = p + 1;
  for (uint32_t i = 0; i < ARRAY_COUNT(prefixes); i++)
    for (uint32_t k = 0; k < ARRAY_COUNT(kinds); k++) {
      const char *rest = text_after(name, prefixes[i]);
      rest = rest ? text_after(rest, kinds[k]) : NULL;
      if (rest && (*rest == '.' || *rest == '-' || *rest == '_')) return true;
    }
  return false;
}

const char *sanitizer_in_list(const char *list) {
  for (const char *at = list; *at; at++) {
    bool starts = at == list || at[-1] == ':' || at[-1] == ' ';
    if (starts && sanitizer_is_runtime(at)) return at;
  }
  return NULL;
}

typedef struct program {
  int fd;
  Elf64_Phdr phdr[PHDR_MAX];
  uint32_t count;
  Elf64_Dyn dynamic[DYNAMIC_READ]; /* the entries from `first` on that were read last */
  uint32_t first, dynamic_count;
} program_t;

static bool read_at(int fd, uint64_t offset, void *out, size_t size) {
  return os_pread(fd, out, size, offset) == (ssize_t)size;
}

static bool read_headers(program_t *p) {
  Elf64_Ehdr h;
  if (!read_at(p->fd, 0, &h, sizeof h) || memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 ||
      h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_phentsize != sizeof *p->phdr || h.e_phnum > PHDR_MAX)
    return false;
  p->count = h.e_phnum;
  return read_at(p->fd, h.e_phoff, p->phdr, p->count * sizeof *p->phdr);
}

/* The place in the file of ADDRESS; UINT64_MAX if it has none. */
static uint64_t offset_of(const program_t *p, uint64_t address) {
  for (const Elf64_Phdr *s = p->phdr; s < p->phdr + p->count; s++)
    if (s->p_type == PT_LOAD && address - s->p_vaddr < s->p_filesz)
      return s->p_offset + (address - s->p_vaddr);
  return UINT64_MAX;
}

static bool entry_at(program_t *p, const Elf64_Phdr *dynamic, uint32_t index, Elf64_Dyn *e) {
  if (index >= DYNAMIC_MAX || (index + 1) * sizeof *e > dynamic->p_filesz) return false;
  if (index < p->first || index - p->first >= p->dynamic_count) {
    p->first = index / DYNAMIC_READ * DYNAMIC_READ;
    ssize_t n =
        os_pread(p->fd, p->dynamic, sizeof p->dynamic, dynamic->p_offset + p->first * sizeof *e);
    p->dynamic_count = n > 0 ? (uint32_t)n / sizeof *e : 0;
    if (index - p->first >= p->dynamic_count) return false;
  }
  *e = p->dynamic[index - p->first];
  return e->d_tag != DT_NULL;
}

/* Copies the name at OFFSET, of which a longer one is cut: it is none of those looked for. */
static bool read_name(const program_t *p, uint64_t offset, char out[SANITIZER_NAME_MAX]) {
  ssize_t n = os_pread(p->fd, out, SANITIZER_NAME_MAX - 1, offset);
  out[n > 0 ? n : 0] = 0;
  return n > 0;
}

static bool runtime_of(program_t *p, const Elf64_Phdr *dynamic, char out[SANITIZER_NAME_MAX]) {
  Elf64_Dyn e;
  uint64_t names = UINT64_MAX;
  for (uint32_t i = 0; entry_at(p, dynamic, i, &e); i++)
    if (e.d_tag == DT_STRTAB) names = offset_of(p, e.d_un.d_ptr);
  for (uint32_t i = 0; names != UINT64_MAX && entry_at(p, dynamic, i, &e); i++)
    if (e.d_tag == DT_NEEDED && read_name(p, names + e.d_un.d_val, out) &&
        sanitizer_is_runtime(out))
      return true;
  return false;
}

static bool runtime_of_file(int fd, char out[SANITIZER_NAME_MAX]) {
  program_t p = {.fd = fd};
  if (!read_headers(&p)) return false;
  for (uint32_t i = 0; i < p.count; i++)
    if (p.phdr[i].p_type == PT_DYNAMIC) return runtime_of(&p, &p.phdr[i], out);
  return false;
}

/* The path of the interpreter in LINE, the beginning of a script. NULL: it is not a script. */
static const char *interpreter_in(char *line) {
  if (line[0] != '#' || line[1] != '!') return NULL;
  char *path = line + 2, *end;
  while (*path == ' ' || *path == '\t')
    path++;
  for (end = path; *end && *end != ' ' && *end != '\t' && *end != '\n';)
    end++;
  *end = 0;
  return path;
}

bool sanitizer_of_program(const char *path, char out[SANITIZER_NAME_MAX]) {
  char line[SCRIPT_LINE];
  for (int depth = 0; path && depth < SCRIPT_DEPTH; depth++) {
    int fd = os_open_read(path);
    if (fd < 0) return false;
    bool found = runtime_of_file(fd, out);
    ssize_t n = found ? 0 : os_pread(fd, line, sizeof line - 1, 0);
    os_close(fd);
    if (found) return true;
    line[n > 0 ? n : 0] = 0;
    path = interpreter_in(line);
  }
  return false;
}
