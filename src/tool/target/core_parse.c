/* SPDX-License-Identifier: MIT
 *
 * The format of Linux core files (elf(5); fs/binfmt_elf.c): program headers, PT_LOAD for memory,
 * one PT_NOTE with, for each thread, NT_PRSTATUS, and for the process NT_FILE (mapped files),
 * NT_AUXV and NT_PRPSINFO. The layouts of both CPUs are read by offset, so that either CPU can read
 * a core file of the other.
 *
 * The file is untrusted: every offset and count is checked against its size, which also bounds what
 * is allocated.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/load.h"
#include "base/array.h"
#include "target/core.h"
#include "target/registers.h"

#define PRSTATUS_SIGNAL 12
#define PRSTATUS_PID    32
#define PRSTATUS_REGS   112
#define PRPSINFO_PID    24

/* ---- segments ----------------------------------------------------------------------------- */

static int by_start(const void *a, const void *b) {
  const core_segment_t *x = a, *y = b;
  return x->start < y->start ? -1 : x->start > y->start;
}

static uint32_t access_of(uint32_t flags) {
  return (flags & PF_R ? MAP_READ : 0) | (flags & PF_W ? MAP_WRITE : 0) |
         (flags & PF_X ? MAP_EXEC : 0);
}

static void add_segment(target_t *target, core_t *core, const Elf64_Phdr *phdr) {
  core_segment_t *segment = &core->segments[core->segment_count];
  if (phdr->p_memsz == 0 || phdr->p_vaddr + phdr->p_memsz < phdr->p_vaddr) return;
  uint64_t held = phdr->p_filesz < phdr->p_memsz ? phdr->p_filesz : phdr->p_memsz;
  uint64_t left = phdr->p_offset < core->size ? core->size - phdr->p_offset : 0;
  if (held > left) {
    target->incomplete_core = true;
    held = left;
  }
  *segment = (core_segment_t){phdr->p_vaddr, phdr->p_memsz, phdr->p_offset, held,
                              access_of(phdr->p_flags)};
  core->segment_count++;
}

static const core_segment_t *find_segment(const core_t *core, uint64_t address) {
  size_t after = ARRAY_SEARCH(core->segment_count, k, core->segments[k].start <= address);
  const core_segment_t *s = after ? &core->segments[after - 1] : NULL;
  return s && address - s->start < s->size ? s : NULL;
}

bool core_read_held(const core_t *core, uint64_t address, void *out, size_t size) {
  uint8_t *to = out;
  while (size > 0) {
    const core_segment_t *s = find_segment(core, address);
    uint64_t at = s ? address - s->start : 0;
    if (!s || at >= s->held) return false;
    size_t n = s->held - at < size ? (size_t)(s->held - at) : size;
    memcpy(to, core->bytes + s->offset + at, n);
    to += n;
    address += n;
    size -= n;
  }
  return true;
}

/* ---- notes -------------------------------------------------------------------------------- */

typedef struct notes {
  target_t *target;
  core_t *core;
  size_t thread_capacity;
  const uint8_t *files; /* the NT_FILE note */
  uint64_t files_size;
} notes_t;

static bool read_prstatus(notes_t *notes, const uint8_t *data, uint64_t size) {
  target_t *target = notes->target;
  size_t registers = target->machine == MACHINE_X86_64 ? 27 * 8 : 34 * 8;
  if (size < PRSTATUS_REGS + registers) return true;
  if (!ARRAY_GROW(target->threads, target->thread_count, notes->thread_capacity)) return false;
  thread_t *thread = &target->threads[target->thread_count++];
  memset(thread, 0, sizeof *thread);
  thread->tid = (pid_t)load32(data + PRSTATUS_PID);
  thread->signal = data[PRSTATUS_SIGNAL];
  thread->wait.fd = -1;
  registers_read(target->machine, data + PRSTATUS_REGS, registers, &thread->regs);
  thread->wait.number =
      registers_syscall(target->machine, data + PRSTATUS_REGS, registers, thread->wait.args);
  return true;
}

static void read_auxv(core_t *core, const uint8_t *data, uint64_t size) {
  for (uint64_t at = 0; at + 16 <= size; at += 16) {
    uint64_t type = load64(data + at), value = load64(data + at + 8);
    if (type == AT_SYSINFO_EHDR) core->vdso = value;
    if (type == AT_PHDR) core->header = value;
  }
}

/* siginfo_t of 64-bit systems: si_signo, si_errno, si_code, then si_addr of a fault. Codes of 1 to
 * 0x7f are faults of the CPU. The note of the thread that ended the program is the first. */
static void read_siginfo(target_t *target, const uint8_t *data, uint64_t size) {
  enum { CODE = 8, ADDRESS = 16, FIRST_OTHER_CODE = 0x80 };
  if (size < ADDRESS + 8 || target->signal_code) return;
  target->signal_code = (int)load32(data + CODE);
  target->has_fault_address = target->signal_code > 0 && target->signal_code < FIRST_OTHER_CODE;
  target->fault_address = load64(data + ADDRESS);
}

static bool read_note(notes_t *notes, uint32_t type, const uint8_t *data, uint64_t size) {
  switch (type) {
  case NT_PRSTATUS: return read_prstatus(notes, data, size);
  case NT_PRPSINFO:
    if (size >= PRPSINFO_PID + 4) notes->target->pid = (pid_t)load32(data + PRPSINFO_PID);
    return true;
  case NT_AUXV: read_auxv(notes->core, data, size); return true;
  case NT_SIGINFO: read_siginfo(notes->target, data, size); return true;
  case NT_FILE:
    notes->files = data;
    notes->files_size = size;
    return true;
  default: return true;
  }
}

static bool read_notes(notes_t *notes, uint64_t offset, uint64_t size) {
  const core_t *core = notes->core;
  if (offset > core->size) return true;
  if (size > core->size - offset) {
    size = core->size - offset;
    notes->target->incomplete_core = true;
  }
  const uint8_t *p = core->bytes + offset;
  for (uint64_t at = 0; size - at >= 12;) {
    uint64_t name = load32(p + at), length = load32(p + at + 4);
    uint32_t type = load32(p + at + 8);
    uint64_t data = at + 12 + ((name + 3) & ~3ull);
    if (data > size || length > size - data) break;
    if (!read_note(notes, type, p + data, length)) return false;
    at = data + ((length + 3) & ~3ull);
    if (at > size) break;
  }
  return true;
}

/* ---- the memory map ----------------------------------------------------------------------- */

/* NT_FILE: count, page size, COUNT times (start, end, page offset), then COUNT paths. */
static bool add_files(notes_t *notes) {
  const uint8_t *p = notes->files;
  uint64_t size = notes->files_size;
  if (size < 16) return true;
  uint64_t count = load64(p), page = load64(p + 8);
  if (count > (size - 16) / 25 || page == 0 || page > (1 << 20)) return true;
  uint64_t path = 16 + count * 24;
  for (uint64_t i = 0; i < count; i++) {
    const uint8_t *entry = p + 16 + i * 24;
    const uint8_t *end = path < size ? memchr(p + path, 0, size - path) : NULL;
    if (!end) break;
    mapping_t m = {.start = load64(entry),
                   .end = load64(entry + 8),
                   .module = MODULE_NONE,
                   .offset = load64(entry + 16) * page,
                   .path = (const char *)p + path};
    path = (uint64_t)(end - p) + 1;
    if (m.start >= m.end) continue;
    const core_segment_t *segment = find_segment(notes->core, m.start);
    m.access = segment ? segment->access : MAP_READ | MAP_UNKNOWN;
    if (!maps_add(&notes->target->maps, &m)) return false;
  }
  maps_sort(&notes->target->maps);
  return true;
}

static bool add_anonymous(notes_t *notes) {
  core_t *core = notes->core;
  maps_t *maps = &notes->target->maps;
  size_t files = maps->count;
  for (size_t i = 0; i < core->segment_count; i++) {
    const core_segment_t *s = &core->segments[i];
    maps_t named = {.items = maps->items, .count = files};
    if (maps_find(&named, s->start)) continue;
    mapping_t m = {.start = s->start,
                   .end = s->start + s->size,
                   .access = s->access,
                   .module = MODULE_NONE,
                   .path = core->vdso == s->start && core->vdso ? "[vdso]" : ""};
    if (!maps_add(maps, &m)) return false;
  }
  maps_sort(maps);
  return true;
}

/* ---- the file ----------------------------------------------------------------------------- */

/* systemd-coredump(8) compresses core files. */
static const char *not_a_core(const uint8_t *start) {
  static const struct {
    const char *magic;
    const char *words;
  } formats[] = {{"\x28\xb5\x2f\xfd", "is compressed with zstd; decompress it with 'zstd -d'"},
                 {"\x04\x22\x4d\x18", "is compressed with LZ4; decompress it with 'lz4 -d'"},
                 {"\xfd\x37zX", "is compressed with xz; decompress it with 'xz -d'"},
                 {"\x1f\x8b", "is compressed with gzip; decompress it with 'gzip -d'"},
                 {"SONDE\r\n", "is a recording, not a core file; 'sonde report' reads it"}};
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
    if (!memcmp(start, formats[i].magic, strlen(formats[i].magic))) return formats[i].words;
  return "is not a core file";
}

static bool check_header(target_t *target, const Elf64_Ehdr *header, problem_t *problem) {
  if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_type != ET_CORE) {
    bool is_elf = memcmp(header->e_ident, ELFMAG, SELFMAG) == 0;
    problem_set(problem, "%s",
                is_elf ? "is a program or library, not a core file; --exe takes the program"
                       : not_a_core(header->e_ident));
    return false;
  }
  bool known = header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_ident[EI_DATA] == ELFDATA2LSB &&
               (header->e_machine == EM_X86_64 || header->e_machine == EM_AARCH64);
  if (!known) {
    problem_set(problem, "is a core file of another machine than x86_64 and aarch64");
    return false;
  }
  target->machine = header->e_machine == EM_X86_64 ? MACHINE_X86_64 : MACHINE_AARCH64;
  return true;
}

/* The count of program headers; if it exceeds 65534, it is in section header 0 (elf(5)). */
static uint64_t header_count(const core_t *core, const Elf64_Ehdr *header) {
  Elf64_Shdr first;
  if (header->e_phnum != PN_XNUM) return header->e_phnum;
  if (header->e_shoff > core->size || core->size - header->e_shoff < sizeof first) return 0;
  memcpy(&first, core->bytes + header->e_shoff, sizeof first);
  return first.sh_info;
}

static bool out_of_memory(problem_t *problem) {
  problem_set(problem, "cannot be read: out of memory");
  return false;
}

bool core_parse(target_t *target, core_t *core, const uint8_t *data, uint64_t size,
                problem_t *problem) {
  Elf64_Ehdr header;
  core->bytes = data;
  core->size = size;
  if (size < sizeof header) {
    problem_set(problem, "is not a core file");
    return false;
  }
  memcpy(&header, data, sizeof header);
  if (!check_header(target, &header, problem)) return false;
  uint64_t count = header_count(core, &header);
  uint64_t left = header.e_phoff < size ? size - header.e_phoff : 0;
  if (header.e_phentsize != sizeof(Elf64_Phdr)) count = 0;
  if (count > left / sizeof(Elf64_Phdr)) {
    count = left / sizeof(Elf64_Phdr);
    target->incomplete_core = true;
  }
  core->segments = calloc(count + 1, sizeof *core->segments);
  if (!core->segments) return out_of_memory(problem);
  notes_t notes = {.target = target, .core = core};
  for (uint64_t i = 0; i < count; i++) {
    Elf64_Phdr phdr;
    memcpy(&phdr, data + header.e_phoff + i * sizeof phdr, sizeof phdr);
    if (phdr.p_type == PT_LOAD)
      add_segment(target, core, &phdr);
    else if (phdr.p_type == PT_NOTE && !read_notes(&notes, phdr.p_offset, phdr.p_filesz))
      return out_of_memory(problem);
  }
  if (core->segment_count)
    qsort(core->segments, core->segment_count, sizeof *core->segments, by_start);
  if (!add_files(&notes) || (core->add_missing && !core->add_missing(core)) ||
      !add_anonymous(&notes))
    return out_of_memory(problem);
  if (target->thread_count > 0) return true;
  problem_set(problem, "is a core file without threads%s",
              target->incomplete_core ? "; it is truncated" : "");
  return false;
}

void core_free(core_t *core) {
  free(core->segments);
  core->segments = NULL;
}
