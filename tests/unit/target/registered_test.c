/* SPDX-License-Identifier: MIT
 *
 * Code registered with GDB's JIT interface, in a program that changes its list while it is read.
 */
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "target/jit/registered.h"

/* An object file with one function. */
typedef struct object {
  Elf64_Ehdr header;
  Elf64_Shdr sections[4];
  Elf64_Sym symbols[2];
  char names[32];
} object_t;

enum { TEXT = 1, SYMBOLS, NAMES, SECTIONS };

static object_t object(uint64_t address, const char *name) {
  object_t o = {
      .header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB},
                 .e_type = ET_REL,
                 .e_shoff = offsetof(object_t, sections),
                 .e_shentsize = sizeof(Elf64_Shdr),
                 .e_shnum = SECTIONS},
      .sections[TEXT] = {.sh_addr = address, .sh_size = 64, .sh_flags = SHF_EXECINSTR},
      .sections[SYMBOLS] = {.sh_type = SHT_SYMTAB,
                            .sh_link = NAMES,
                            .sh_offset = offsetof(object_t, symbols),
                            .sh_size = 2 * sizeof(Elf64_Sym)},
      .sections[NAMES] = {.sh_offset = offsetof(object_t, names), .sh_size = 32},
      .symbols[1] = {.st_name = 1,
                     .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                     .st_shndx = TEXT,
                     .st_value = 16,
                     .st_size = 32},
  };
  strcpy(o.names + 1, name);
  return o;
}

typedef struct entry {
  uint64_t next, previous, address, size;
} entry_t;

/* The program: what it does when its memory is read for the N-th time. */
typedef struct program {
  /* must be first */
  memory_t memory;
  struct {
    uint32_t version, action;
    uint64_t acted, first;
  } descriptor;
  entry_t entries[2];
  object_t objects[2];
  int reads, removes_at;
} program_t;

static bool read_program(memory_t *self, uint64_t address, void *out, size_t size) {
  program_t *p = (program_t *)self;
  if (++p->reads == p->removes_at)
    p->descriptor.first = p->descriptor.first ? p->entries[0].next : 0;
  memcpy(out, (const void *)(uintptr_t)address, size);
  return true;
}

static uint64_t address_of(const void *p) { return (uint64_t)(uintptr_t)p; }

static void set_up(program_t *p) {
  *p = (program_t){.memory.read = read_program, .descriptor = {.version = 1}};
  p->objects[0] = object(0x1000, "first");
  p->objects[1] = object(0x2000, "second");
  p->descriptor.first = address_of(&p->entries[0]);
  p->entries[0].next = address_of(&p->entries[1]);
  for (int i = 0; i < 2; i++) {
    p->entries[i].address = address_of(&p->objects[i]);
    p->entries[i].size = sizeof p->objects[i];
  }
}

static const char *name_at(jit_t *jit, uint64_t address) {
  const jit_symbol_t *symbol = jit_find(jit, address);
  return symbol ? symbol->name : "";
}

static jit_registered_t list_of(const program_t *p) {
  return (jit_registered_t){.lists = {address_of(&p->descriptor)}, .list_count = 1};
}

static void functions_are_named(void **state) {
  program_t p;
  jit_t *jit = jit_new();
  (void)state;
  set_up(&p);
  jit_registered_t registered = list_of(&p);
  assert_true(jit_registered_add(&registered, &p.memory, 0, jit));
  assert_string_equal(name_at(jit, 0x100f), "");
  assert_string_equal(name_at(jit, 0x1010), "first");
  assert_string_equal(name_at(jit, 0x102f), "first");
  assert_string_equal(name_at(jit, 0x1030), "");
  assert_string_equal(name_at(jit, 0x2010), "second");
  jit_registered_free(&registered);
  jit_close(jit);
}

/* Another file may be at the place of one that was removed. */
static void only_new_files_are_added(void **state) {
  program_t p;
  jit_t *jit = jit_new();
  (void)state;
  set_up(&p);
  jit_registered_t registered = list_of(&p);
  jit_registered_add(&registered, &p.memory, 0, jit);
  jit_registered_add(&registered, &p.memory, 1, jit);
  assert_int_equal(jit_count(jit), 2);
  p.objects[0] = object(0x1000, "other");
  jit_registered_add(&registered, &p.memory, 1, jit);
  assert_int_equal(jit_count(jit), 3);
  assert_string_equal(name_at(jit, 0x1010), "other");
  jit_registered_free(&registered);
  jit_close(jit);
}

/* The file may be anything when its entry is removed: it is used only if the list still has it. A
 * reading takes 8 reads: the list of 3, two files, and the list again. */
static void a_file_removed_meanwhile_is_not_used(void **state) {
  (void)state;
  for (int at = 1; at <= 8; at++) {
    program_t p;
    jit_t *jit = jit_new();
    set_up(&p);
    p.removes_at = at;
    jit_registered_t registered = list_of(&p);
    jit_registered_add(&registered, &p.memory, 0, jit);
    bool was_there = at > 6; /* when the list was read again */
    assert_string_equal(name_at(jit, 0x1010), was_there ? "first" : "");
    assert_string_equal(name_at(jit, 0x2010), "second");
    jit_registered_free(&registered);
    jit_close(jit);
  }
}

static void damage_is_skipped(void **state) {
  program_t p;
  jit_t *jit = jit_new();
  (void)state;
  set_up(&p);
  p.entries[1].next = p.descriptor.first; /* a cycle */
  p.objects[0].symbols[1].st_size = 64;   /* behind its section */
  p.objects[1].sections[SYMBOLS].sh_size = UINT64_MAX;
  jit_registered_t registered = list_of(&p);
  jit_registered_add(&registered, &p.memory, 0, jit);
  assert_string_equal(name_at(jit, 0x1010), "");
  assert_string_equal(name_at(jit, 0x2010), "second");
  assert_true(p.reads < 100);
  p.descriptor.version = 2;
  assert_false(jit_registered_add(&registered, &p.memory, 0, jit));
  jit_registered_free(&registered);
  jit_close(jit);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(functions_are_named),
      cmocka_unit_test(only_new_files_are_added),
      cmocka_unit_test(a_file_removed_meanwhile_is_not_used),
      cmocka_unit_test(damage_is_skipped),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
