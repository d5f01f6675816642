/* SPDX-License-Identifier: MIT
 *
 * Loads object files as a JIT compiler does, one after the other at one address, and registers each
 * with GDB's JIT interface while it is there. Calls the first global function of each.
 *
 * usage: registers wait OBJECT...   the function calls back: prints "ready" and waits for a signal
 *        registers spin OBJECT...   calls it for 0.7 s of CPU time; prints its name and that time
 *        registers damaged OBJECT   as `wait`; the list also has files that are damaged, and a
 * cycle
 */
#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* GDB's manual, "JIT Compilation Interface". */
struct jit_code_entry {
  struct jit_code_entry *next_entry, *prev_entry;
  const char *symfile_addr;
  uint64_t symfile_size;
};
struct jit_descriptor {
  uint32_t version, action_flag;
  struct jit_code_entry *relevant_entry, *first_entry;
};
struct jit_descriptor __jit_debug_descriptor = {1, 0, NULL, NULL};
__attribute__((noinline)) void __jit_debug_register_code(void) {
  __asm__ volatile("" ::: "memory");
}

static void add(struct jit_code_entry *entry, const char *file, uint64_t size) {
  *entry = (struct jit_code_entry){__jit_debug_descriptor.first_entry, NULL, file, size};
  if (entry->next_entry) entry->next_entry->prev_entry = entry;
  __jit_debug_descriptor.first_entry = __jit_debug_descriptor.relevant_entry = entry;
  __jit_debug_descriptor.action_flag = 1;
  __jit_debug_register_code();
}

static void remove_first(void) {
  struct jit_code_entry *entry = __jit_debug_descriptor.first_entry;
  __jit_debug_descriptor.first_entry = entry->next_entry;
  if (entry->next_entry) entry->next_entry->prev_entry = NULL;
  __jit_debug_descriptor.relevant_entry = entry;
  __jit_debug_descriptor.action_flag = 2;
  __jit_debug_register_code();
}

#define CODE_BYTES 65536

typedef struct object {
  char *file;
  size_t size;
  const char *name;
  void *function;
} object_t;

static char *read_file(const char *path, size_t *size) {
  FILE *in = fopen(path, "rb");
  if (!in) exit(2);
  char *file = malloc(1 << 20);
  *size = fread(file, 1, 1 << 20, in);
  fclose(in);
  return file;
}

static const char *names_of(const char *file) {
  const Elf64_Ehdr *header = (const Elf64_Ehdr *)file;
  const Elf64_Shdr *sections = (const Elf64_Shdr *)(file + header->e_shoff);
  return file + sections[header->e_shstrndx].sh_offset;
}

/* Applies the relocations of SECTION, which are all relative to their own place. */
static void relocate(const char *file, const Elf64_Shdr *sections, const Elf64_Shdr *section) {
  const Elf64_Rela *relocations = (const Elf64_Rela *)(file + section->sh_offset);
  const Elf64_Sym *symbols = (const Elf64_Sym *)(file + sections[section->sh_link].sh_offset);
  uint64_t target = sections[section->sh_info].sh_addr;
  for (size_t i = 0; target && i < section->sh_size / sizeof *relocations; i++) {
    const Elf64_Sym *symbol = &symbols[ELF64_R_SYM(relocations[i].r_info)];
    uint64_t at = target + relocations[i].r_offset, to = sections[symbol->st_shndx].sh_addr +
                                                         symbol->st_value +
                                                         (uint64_t)relocations[i].r_addend;
    uint32_t relative = (uint32_t)(to - at);
    memcpy((void *)at, &relative, sizeof relative);
  }
}

/* Copies the code and its unwind information to CODE, and writes where they are into the file. */
static object_t load(const char *path, char *code) {
  object_t o = {0};
  o.file = read_file(path, &o.size);
  Elf64_Ehdr *header = (Elf64_Ehdr *)o.file;
  Elf64_Shdr *sections = (Elf64_Shdr *)(o.file + header->e_shoff);
  size_t used = 0;
  for (int i = 0; i < header->e_shnum; i++) {
    Elf64_Shdr *s = &sections[i];
    int is_frames = !strcmp(names_of(o.file) + s->sh_name, ".eh_frame");
    if (!(s->sh_flags & SHF_EXECINSTR) && !is_frames) continue;
    if (used + s->sh_size > CODE_BYTES) exit(3);
    memcpy(code + used, o.file + s->sh_offset, s->sh_size);
    s->sh_addr = (uint64_t)(code + used);
    used += (s->sh_size + 63) & ~63ul;
  }
  for (int i = 0; i < header->e_shnum; i++) {
    if (sections[i].sh_type == SHT_RELA) relocate(o.file, sections, &sections[i]);
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    Elf64_Sym *symbols = (Elf64_Sym *)(o.file + sections[i].sh_offset);
    const char *names = o.file + sections[sections[i].sh_link].sh_offset;
    for (size_t k = 0; k < sections[i].sh_size / sizeof *symbols; k++)
      if (symbols[k].st_info == ELF64_ST_INFO(STB_GLOBAL, STT_FUNC)) {
        o.name = names + symbols[k].st_name;
        o.function = (void *)(sections[symbols[k].st_shndx].sh_addr + symbols[k].st_value);
      }
  }
  if (!o.function) exit(4);
  __builtin___clear_cache(code, code + used);
  return o;
}

static void wait_for_signal(long n) {
  (void)n;
  puts("ready");
  fflush(stdout);
  pause();
}

static volatile long sink;
static void count(long n) { sink += n; }

static uint64_t used_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void spin(const object_t *o) {
  uint64_t start = used_ns();
  while (used_ns() - start < 700000000)
    ((void (*)(void (*)(long), long))o->function)(count, 10000000);
  printf("%s %llu\n", o->name, (unsigned long long)(used_ns() - start));
}

/* Entries that a reader must survive: no file, no ELF file, a file that ends early, one that says
 * it has more than memory. The last one leads back to the first. */
static void add_damaged(const object_t *o) {
  static struct jit_code_entry entries[5];
  static char noise[4096], cut[4096];
  memset(noise, 0xa5, sizeof noise);
  memcpy(cut, o->file, sizeof cut < o->size ? sizeof cut : o->size);
  ((Elf64_Ehdr *)cut)->e_shoff = UINT64_MAX - 10;
  add(&entries[0], (const char *)16, 1000);
  add(&entries[1], noise, sizeof noise);
  add(&entries[2], cut, 300);
  add(&entries[3], cut, sizeof cut);
  add(&entries[4], o->file, UINT64_MAX / 2);
  entries[0].next_entry = &entries[4];
}

int main(int argc, char **argv) {
  char *code = mmap(NULL, CODE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (argc < 3 || code == MAP_FAILED) return 1;
  for (int i = 2; i < argc; i++) {
    object_t o = load(argv[i], code);
    struct jit_code_entry *entry = malloc(sizeof *entry);
    if (!strcmp(argv[1], "damaged")) add_damaged(&o);
    add(entry, o.file, o.size);
    if (!strcmp(argv[1], "spin"))
      spin(&o);
    else
      ((void (*)(void (*)(long), long))o.function)(wait_for_signal, 0);
    remove_first();
    free(entry);
    free(o.file);
  }
  return 0;
}
