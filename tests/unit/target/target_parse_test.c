/* SPDX-License-Identifier: MIT
 *
 * What `target` makes of bytes it does not trust: memory maps, core files, register sets; and the
 * search for cycles of owners against a plain second way of finding them.
 */
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "target/core.h"
#include "target/maps.h"
#include "target/modules.h"
#include "target/registers.h"
#include "target/state.h"

static uint64_t seed_state;

static uint64_t random_number(void) {
  seed_state ^= seed_state << 13;
  seed_state ^= seed_state >> 7;
  seed_state ^= seed_state << 17;
  return seed_state;
}

static int seed_random(void **state) {
  const char *given = getenv("SONDE_SEED");
  (void)state;
  seed_state = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) * 2654435761u + 1;
  printf("SONDE_SEED=%llu\n", (unsigned long long)seed_state);
  return 0;
}

/* ---- maps --------------------------------------------------------------------------------- */

static const char maps_text[] =
    "55d0c0000000-55d0c0001000 r--p 00000000 fe:01 42                 /usr/bin/a b (deleted)\n"
    "55d0c0001000-55d0c0003000 r-xp 00001000 fe:01 42                 /usr/bin/a b (deleted)\n"
    "7f0000000000-7f0000021000 rw-p 00000000 00:00 0 \n"
    "nonsense\n"
    "7f0000100000-7f00000f0000 r--p 00000000 00:00 0 [backwards]\n"
    "7f0000200000-7f0000201000 r-xp 00000000 00:00 0 [vdso]\n"
    "7f0000300000-7f0000301000 r--s 00002000 00:1f 7 /tmp/new\\012line\n"
    "7ffffffff000-7fffffffffff rw-p 00000000 00:00 0";

static void maps_are_read(void **state) {
  maps_t maps;
  (void)state;
  assert_true(maps_parse(&maps, strdup(maps_text), strlen(maps_text)));
  assert_int_equal(maps.count, 6);
  const mapping_t *code = maps_find(&maps, 0x55d0c0001fff);
  assert_non_null(code);
  assert_string_equal(code->path, "/usr/bin/a b");
  assert_true(code->deleted);
  assert_int_equal(code->access, MAP_READ | MAP_EXEC);
  assert_int_equal(code->offset, 0x1000);
  assert_int_equal(code->inode, 42);
  assert_int_equal(code->dev_major, 0xfe);
  assert_string_equal(maps_find(&maps, 0x7f0000300000)->path, "/tmp/new\nline");
  assert_string_equal(maps_find(&maps, 0x7f0000000000)->path, "");
  assert_null(maps_find(&maps, 0x55d0c0003000));
  assert_null(maps_find(&maps, 0));
  assert_null(maps_find(&maps, UINT64_MAX));
  maps_free(&maps);
}

static void damaged_maps_do_no_harm(void **state) {
  (void)state;
  for (int round = 0; round < 20000; round++) {
    size_t size = random_number() % sizeof maps_text;
    char *text = malloc(size + 1);
    memcpy(text, maps_text, size);
    for (uint64_t i = random_number() % 8; i > 0 && size > 0; i--)
      text[random_number() % size] = (char)random_number();
    text[size] = 0;
    maps_t maps;
    assert_true(maps_parse(&maps, text, size));
    for (size_t i = 0; i < maps.count; i++)
      assert_true(maps.items[i].start < maps.items[i].end);
    maps_find(&maps, random_number());
    maps_free(&maps);
  }
}

/* ---- core files --------------------------------------------------------------------------- */

enum { CORE_ROOM = 8192, STACK_BYTES = 256 };
#define STACK_ADDRESS 0x7ffd00000000ull

typedef struct builder {
  uint8_t bytes[CORE_ROOM];
  size_t size;
} builder_t;

static void append(builder_t *b, const void *data, size_t size) {
  memcpy(b->bytes + b->size, data, size);
  b->size += size;
}

static void append_note(builder_t *b, uint32_t type, const void *data, uint32_t size) {
  uint32_t head[3] = {5, size, type};
  append(b, head, sizeof head);
  append(b, "CORE\0\0\0", 8);
  append(b, data, size);
  b->size = (b->size + 3) & ~(size_t)3;
}

static void append_thread(builder_t *b, int32_t tid, uint64_t pc, uint64_t sp, uint64_t number) {
  uint8_t status[336] = {0};
  uint64_t words[27] = {0};
  words[16] = pc;
  words[19] = sp;
  words[15] = number;
  words[14] = 7; /* rdi */
  memcpy(status + 32, &tid, 4);
  memcpy(status + 112, words, sizeof words);
  append_note(b, NT_PRSTATUS, status, sizeof status);
}

/* A core file of two threads, with a stack and one mapped file. */
static void build_core(builder_t *b) {
  memset(b, 0, sizeof *b);
  Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                       .e_type = ET_CORE,
                       .e_machine = EM_X86_64,
                       .e_version = 1,
                       .e_phoff = sizeof header,
                       .e_ehsize = sizeof header,
                       .e_phentsize = sizeof(Elf64_Phdr),
                       .e_phnum = 3};
  Elf64_Phdr phdrs[3] = {{.p_type = PT_NOTE}, {.p_type = PT_LOAD}, {.p_type = PT_LOAD}};
  b->size = sizeof header + sizeof phdrs;
  phdrs[0].p_offset = b->size;
  append_thread(b, 101, 0x401010, STACK_ADDRESS, 0);
  append_thread(b, 100, 0x401020, STACK_ADDRESS + 64, UINT64_MAX);
  uint64_t files[5] = {1, 4096, 0x401000, 0x402000, 1};
  uint8_t note[64];
  memcpy(note, files, sizeof files);
  memcpy(note + sizeof files, "/bin/none", 10);
  append_note(b, NT_FILE, note, sizeof files + 10);
  phdrs[0].p_filesz = b->size - phdrs[0].p_offset;
  phdrs[1].p_vaddr = STACK_ADDRESS;
  phdrs[1].p_memsz = phdrs[1].p_filesz = STACK_BYTES;
  phdrs[1].p_offset = b->size;
  phdrs[1].p_flags = PF_R | PF_W;
  for (int i = 0; i < STACK_BYTES; i++)
    b->bytes[b->size++] = (uint8_t)i;
  phdrs[2].p_vaddr = 0x401000;
  phdrs[2].p_memsz = 4096;
  phdrs[2].p_flags = PF_R | PF_X;
  memcpy(b->bytes, &header, sizeof header);
  memcpy(b->bytes + sizeof header, phdrs, sizeof phdrs);
}

typedef struct parsed {
  target_t *target;
  core_t core;
  problem_t problem;
  bool good;
} parsed_t;

static void parse_core(parsed_t *p, const uint8_t *bytes, size_t size) {
  memset(p, 0, sizeof *p);
  p->target = target_new();
  p->good = core_parse(p->target, &p->core, bytes, size, &p->problem);
  assert_true(p->good || p->problem.text[0]);
}

static void free_core(parsed_t *p) {
  core_free(&p->core);
  target_close(p->target);
}

static void core_is_read(void **state) {
  builder_t b;
  parsed_t p;
  uint8_t byte;
  (void)state;
  build_core(&b);
  parse_core(&p, b.bytes, b.size);
  assert_true(p.good);
  assert_false(p.target->incomplete_core);
  assert_int_equal(p.target->thread_count, 2);
  assert_int_equal(p.target->threads[0].tid, 101);
  assert_int_equal(p.target->threads[0].regs.pc, 0x401010);
  assert_int_equal(p.target->threads[0].wait.number, 0);
  assert_int_equal(p.target->threads[0].wait.args[0], 7);
  assert_int_equal(p.target->threads[1].wait.number, -1);
  assert_int_equal(p.target->threads[1].regs.r[X86_64_RSP], STACK_ADDRESS + 64);
  assert_true(core_read_held(&p.core, STACK_ADDRESS + 65, &byte, 1));
  assert_int_equal(byte, 65);
  assert_false(core_read_held(&p.core, STACK_ADDRESS + STACK_BYTES, &byte, 1));
  assert_false(core_read_held(&p.core, 0x401000, &byte, 1)); /* left to the file */
  const mapping_t *code = maps_find(&p.target->maps, 0x401800);
  assert_string_equal(code->path, "/bin/none");
  assert_int_equal(code->offset, 4096);
  assert_int_equal(code->access, MAP_READ | MAP_EXEC);
  free_core(&p);
}

static void core_cut_anywhere(void **state) {
  builder_t b;
  parsed_t p;
  (void)state;
  build_core(&b);
  for (size_t size = 0; size < b.size; size++) {
    uint8_t *exact = malloc(size ? size : 1); /* so that a sanitizer sees one byte too many */
    memcpy(exact, b.bytes, size);
    parse_core(&p, exact, size);
    if (p.good) assert_true(p.target->incomplete_core);
    free_core(&p);
    free(exact);
  }
}

static void damaged_cores_do_no_harm(void **state) {
  builder_t good;
  parsed_t p;
  (void)state;
  build_core(&good);
  for (int round = 0; round < 20000; round++) {
    uint8_t *bytes = malloc(good.size);
    memcpy(bytes, good.bytes, good.size);
    for (uint64_t i = 1 + random_number() % 6; i > 0; i--) {
      uint64_t value = random_number() % 3 ? random_number() : UINT64_MAX - random_number() % 64;
      size_t at = (size_t)(random_number() % (good.size - 8));
      memcpy(bytes + at, &value, random_number() % 2 ? 8 : 1);
    }
    parse_core(&p, bytes, good.size);
    uint8_t word[8];
    if (p.good)
      for (size_t i = 0; i < p.target->thread_count; i++)
        core_read_held(&p.core, p.target->threads[i].regs.r[X86_64_RSP], word, sizeof word);
    free_core(&p);
    free(bytes);
  }
}

/* ---- registers and system calls ----------------------------------------------------------------
 */

static void registers_of_both_machines(void **state) {
  uint64_t words[34];
  regs_t regs;
  (void)state;
  for (uint64_t i = 0; i < 34; i++)
    words[i] = 1000 + i;
  assert_true(registers_read(MACHINE_X86_64, words, 27 * 8, &regs));
  assert_int_equal(regs.pc, 1016);
  assert_int_equal(regs.r[X86_64_RSP], 1019);
  assert_int_equal(regs.r[X86_64_RBP], 1004);
  assert_int_equal(regs.r[0], 1010);
  assert_true(registers_read(MACHINE_AARCH64, words, 34 * 8, &regs));
  assert_int_equal(regs.pc, 1032);
  assert_int_equal(regs.r[AARCH64_SP], 1031);
  assert_int_equal(regs.r[AARCH64_FP], 1029);
  assert_false(registers_read(MACHINE_X86_64, words, 17 * 4, &regs)); /* i386 */
}

static void system_calls_have_names(void **state) {
  (void)state;
#if defined(__x86_64__)
  assert_string_equal(syscall_name(MACHINE_X86_64, 0), "read");
  assert_string_equal(syscall_name(MACHINE_X86_64, 202), "futex");
  assert_string_equal(syscall_name(MACHINE_X86_64, 232), "epoll_wait");
  assert_null(syscall_name(MACHINE_AARCH64, 0));
#elif defined(__aarch64__)
  assert_string_equal(syscall_name(MACHINE_AARCH64, 63), "read");
  assert_string_equal(syscall_name(MACHINE_AARCH64, 98), "futex");
#endif
  assert_null(syscall_name(MACHINE_X86_64, -1));
  assert_null(syscall_name(MACHINE_X86_64, 99999));
  assert_int_equal(syscall_fd_argument("epoll_wait"), 0);
  assert_int_equal(syscall_fd_argument("futex"), -1);
}

/* ---- deadlocks ---------------------------------------------------------------------------- */

/* In a cycle: one comes back to it by following owners. */
static bool comes_back(const thread_t *threads, size_t count, size_t start) {
  size_t at = start;
  for (size_t i = 0; i < count; i++) {
    pid_t owner = threads[at].wait.owner;
    size_t next = count;
    for (size_t k = 0; k < count && owner; k++)
      if (threads[k].tid == owner) next = k;
    if (next == count) return false;
    at = next;
    if (at == start) return true;
  }
  return false;
}

static void cycles_of_owners(void **state) {
  thread_t threads[12];
  (void)state;
  for (int round = 0; round < 20000; round++) {
    size_t count = random_number() % 12;
    memset(threads, 0, sizeof threads);
    for (size_t i = 0; i < count; i++) {
      threads[i].tid = (pid_t)(10 + 3 * i);
      if (random_number() % 3 && count)
        threads[i].wait.owner = (pid_t)(10 + 3 * (random_number() % (count + 1)));
    }
    uint32_t cycles = state_deadlocks(threads, count), highest = 0;
    for (size_t i = 0; i < count; i++) {
      assert_int_equal(threads[i].deadlock != 0, comes_back(threads, count, i));
      if (threads[i].deadlock > highest) highest = threads[i].deadlock;
      if (!threads[i].deadlock) continue;
      for (size_t k = 0; k < count; k++) /* the owner is in the same cycle */
        if (threads[k].tid == threads[i].wait.owner)
          assert_int_equal(threads[k].deadlock, threads[i].deadlock);
    }
    assert_int_equal(highest, cycles);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(maps_are_read),
      cmocka_unit_test(damaged_maps_do_no_harm),
      cmocka_unit_test(core_is_read),
      cmocka_unit_test(core_cut_anywhere),
      cmocka_unit_test(damaged_cores_do_no_harm),
      cmocka_unit_test(registers_of_both_machines),
      cmocka_unit_test(system_calls_have_names),
      cmocka_unit_test(cycles_of_owners),
  };
  return cmocka_run_group_tests(tests, seed_random, NULL);
}
