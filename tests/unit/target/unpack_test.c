/* SPDX-License-Identifier: MIT
 *
 * Files whose headers promise more than there is: looking for a compressed .debug_frame in them
 * must not cost the memory that they promise.
 */
#include <elf.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>
#include <cmocka.h>

#include "target/packed/unpack.h"

#define GIGABYTE (UINT64_C(1) << 30)

static const char frame[] = "what is in the frame";

/* The file: header, sections' headers, names, the compressed section; sparse up to the end of what
 * its headers promise. */
typedef struct packed {
  Elf64_Ehdr header;
  Elf64_Shdr sections[3];
  char names[32];
  Elf64_Chdr head;
  uint8_t bytes[128];
} packed_t;

enum { NAMES = 1, FRAME = 2 };

static packed_t packed(void) {
  packed_t p = {0};
  uLongf size = sizeof p.bytes;
  assert_int_equal(compress(p.bytes, &size, (const Bytef *)frame, sizeof frame), Z_OK);
  memcpy(p.header.e_ident, ELFMAG, SELFMAG);
  p.header.e_ident[EI_CLASS] = ELFCLASS64;
  p.header.e_ident[EI_DATA] = ELFDATA2LSB;
  p.header.e_ident[EI_VERSION] = EV_CURRENT;
  p.header.e_type = ET_DYN;
  p.header.e_machine = EM_X86_64;
  p.header.e_version = EV_CURRENT;
  p.header.e_ehsize = sizeof p.header;
  p.header.e_shoff = offsetof(packed_t, sections);
  p.header.e_shentsize = sizeof p.sections[0];
  p.header.e_shnum = 3;
  p.header.e_shstrndx = NAMES;
  memcpy(p.names, "\0.shstrtab\0.debug_frame", 24);
  p.sections[NAMES] = (Elf64_Shdr){.sh_name = 1,
                                   .sh_type = SHT_STRTAB,
                                   .sh_offset = offsetof(packed_t, names),
                                   .sh_size = sizeof p.names};
  p.sections[FRAME] = (Elf64_Shdr){.sh_name = 11,
                                   .sh_type = SHT_PROGBITS,
                                   .sh_flags = SHF_COMPRESSED,
                                   .sh_offset = offsetof(packed_t, head),
                                   .sh_size = sizeof p.head + size,
                                   .sh_addralign = 8};
  p.head = (Elf64_Chdr){.ch_type = ELFCOMPRESS_ZLIB, .ch_size = sizeof frame, .ch_addralign = 1};
  return p;
}

static long peak_mb(void) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  return used.ru_maxrss >> 10;
}

/* Whether the file P, which is as long as SIZE, has given a .debug_frame. */
static bool unpacks(const packed_t *p, uint64_t size) {
  char path[64];
  snprintf(path, sizeof path, "/tmp/sonde-unpack-test.%d", (int)getpid());
  int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, p, sizeof *p), sizeof *p);
  assert_int_equal(ftruncate(fd, (off_t)size), 0);
  module_t module = {.state = MODULE_READY, .open_path = path};
  bool done = module_unpack(&module);
  close(fd);
  unlink(path);
  if (done) {
    assert_int_equal(module.image.debug_frame.size, sizeof frame);
    assert_memory_equal(module.image.debug_frame.data, frame, sizeof frame);
  }
  module_forget_unpacked(&module);
  return done;
}

static void a_small_one_is_unpacked(void **unused) {
  (void)unused;
  packed_t p = packed();
  assert_true(unpacks(&p, sizeof p));
}

static void a_promise_of_gigabytes_is_not_taken(void **unused) {
  (void)unused;
  long before = peak_mb();
  packed_t p = packed();
  p.sections[FRAME].sh_size = GIGABYTE;
  assert_false(unpacks(&p, 2 * GIGABYTE));
  assert_in_range(peak_mb() - before, 0, 200);
  p = packed();
  memcpy(p.names, "\0.shstrtab\0.zdebug_frame", 25);
  p.sections[FRAME].sh_flags = 0;
  p.sections[FRAME].sh_size = GIGABYTE;
  assert_false(unpacks(&p, 2 * GIGABYTE));
  assert_in_range(peak_mb() - before, 0, 200);
  p = packed();
  p.head.ch_size = GIGABYTE;
  assert_false(unpacks(&p, sizeof p));
  p = packed();
  p.sections[NAMES].sh_size = GIGABYTE;
  assert_false(unpacks(&p, 2 * GIGABYTE));
  assert_in_range(peak_mb() - before, 0, 200);
}

/* As many sections as the first one's size says. */
static void sections_without_number_are_not_read(void **unused) {
  (void)unused;
  long before = peak_mb();
  packed_t p = packed();
  p.header.e_shnum = 0;
  p.sections[0].sh_size = GIGABYTE / sizeof p.sections[0];
  assert_false(unpacks(&p, 2 * GIGABYTE));
  assert_in_range(peak_mb() - before, 0, 200);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_small_one_is_unpacked),
      cmocka_unit_test(a_promise_of_gigabytes_is_not_taken),
      cmocka_unit_test(sections_without_number_are_not_read),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
