/* SPDX-License-Identifier: MIT
 *
 * The ELF parser: real files of this system, made ones of every class, byte order and machine, and
 * broken ones.
 */
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "image/elf/format.h"
#include "image/image.h"
#include "image/symbols.h"
#include "sonde/status.h"

/* ---- a maker of small files ------------------------------------------------------------------ */

/* One PT_LOAD of everything, linked at BASE; a build-id; .dynsym by PT_DYNAMIC; three functions:
 *   outer  [0x1000, 0x1040)   inner [0x1010, 0x1020)   label 0x1080, without size */
#define BASE      0x10000u
#define CODE      (BASE + 0x1000)
#define MADE_SIZE 0x2000u

typedef struct made {
  uint8_t bytes[MADE_SIZE];
  elf_shape_t shape;
} made_t;

static void put(made_t *m, uint64_t at, unsigned size, uint64_t value) {
  for (unsigned i = 0; i < size; i++)
    m->bytes[at + (m->shape.is_big_endian ? size - 1 - i : i)] = (uint8_t)(value >> (8 * i));
}

static void put_phdr(made_t *m, unsigned i, uint32_t type, uint64_t at, uint64_t size,
                     uint32_t flags) {
  unsigned w = m->shape.is_64bit ? 8 : 4;
  uint64_t p = 0x40 + i * (uint64_t)elf_phdr_size(m->shape);
  put(m, p, 4, type);
  put(m, p + (w == 8 ? 4 : 24), 4, flags);
  put(m, p + (w == 8 ? 8 : 4), w, at);
  put(m, p + (w == 8 ? 16 : 8), w, BASE + at);
  put(m, p + (w == 8 ? 32 : 16), w, size);
  put(m, p + (w == 8 ? 40 : 20), w, size);
  put(m, p + (w == 8 ? 48 : 28), w, 4);
}

static void put_symbol(made_t *m, uint64_t at, uint32_t name, uint64_t value, uint64_t size,
                       unsigned type) {
  bool w = m->shape.is_64bit;
  put(m, at, 4, name);
  put(m, at + (w ? 8 : 4), w ? 8 : 4, value);
  put(m, at + (w ? 16 : 8), w ? 8 : 4, size);
  put(m, at + (w ? 4 : 12), 1, ELF_STB_GLOBAL << 4 | type);
  put(m, at + (w ? 6 : 14), 2, 1);
}

enum { NOTE = 0x180, DYNAMIC = 0x200, HASH = 0x300, SYMBOLS = 0x400, NAMES = 0x500 };

static void put_dynamic(made_t *m, bool gnu_hash) {
  unsigned w = m->shape.is_64bit ? 8 : 4;
  uint64_t entries[][2] = {{ELF_DT_SYMTAB, BASE + SYMBOLS},
                           {ELF_DT_STRTAB, BASE + NAMES},
                           {ELF_DT_STRSZ, 24},
                           {ELF_DT_SYMENT, elf_sym_size(m->shape)},
                           {gnu_hash ? ELF_DT_GNU_HASH : ELF_DT_HASH, BASE + HASH},
                           {ELF_DT_NULL, 0}};
  for (unsigned i = 0; i < 6; i++)
    for (unsigned k = 0; k < 2; k++)
      put(m, DYNAMIC + (i * 2 + k) * w, w, entries[i][k]);
}

/* Four symbols: of DT_HASH the chain count says so, of DT_GNU_HASH the end of the last chain. */
static void put_hash(made_t *m, bool gnu_hash, bool wide) {
  if (!gnu_hash) {
    put(m, HASH, wide ? 8 : 4, 1);
    put(m, HASH + (wide ? 8 : 4), wide ? 8 : 4, 4);
    return;
  }
  unsigned bloom = m->shape.is_64bit ? 8 : 4;
  put(m, HASH, 4, 2);                  /* buckets */
  put(m, HASH + 4, 4, 1);              /* the first symbol in the table */
  put(m, HASH + 8, 4, 1);              /* words of the filter */
  put(m, HASH + 16 + bloom, 4, 1);     /* bucket 0: symbol 1 … */
  put(m, HASH + 16 + bloom + 4, 4, 2); /* bucket 1: symbols 2 and 3 */
  put(m, HASH + 16 + bloom + 8, 4, 0x11);
  put(m, HASH + 16 + bloom + 12, 4, 0x20);
  put(m, HASH + 16 + bloom + 16, 4, 0x31);
}

static void make(made_t *m, bool is_64bit, bool is_big_endian, unsigned machine, bool gnu_hash) {
  memset(m, 0, sizeof *m);
  m->shape = (elf_shape_t){is_64bit, is_big_endian};
  memcpy(m->bytes,
         "\x7f"
         "ELF",
         4);
  m->bytes[4] = is_64bit ? 2 : 1;
  m->bytes[5] = is_big_endian ? 2 : 1;
  m->bytes[6] = 1;
  unsigned w = is_64bit ? 8 : 4, tail = is_64bit ? 54 : 42, symbol = elf_sym_size(m->shape);
  put(m, 16, 2, ELF_ET_DYN);
  put(m, 18, 2, machine);
  put(m, is_64bit ? 32 : 28, w, 0x40);
  put(m, tail, 2, elf_phdr_size(m->shape));
  put(m, tail + 2, 2, 3);
  put_phdr(m, 0, ELF_PT_LOAD, 0, MADE_SIZE, ELF_PF_R | ELF_PF_X);
  put_phdr(m, 1, ELF_PT_NOTE, NOTE, 32, ELF_PF_R);
  put_phdr(m, 2, ELF_PT_DYNAMIC, DYNAMIC, 12 * w, ELF_PF_R);
  put(m, NOTE, 4, 4);
  put(m, NOTE + 4, 4, 8);
  put(m, NOTE + 8, 4, ELF_NT_GNU_BUILD_ID);
  memcpy(m->bytes + NOTE + 12, "GNU\0\1\2\3\4\5\6\7\10", 12);
  put_dynamic(m, gnu_hash);
  put_hash(m, gnu_hash, is_64bit && machine == ELF_EM_S390);
  memcpy(m->bytes + NAMES, "\0outer\0inner\0label", 19);
  put_symbol(m, SYMBOLS + symbol, 1, CODE + (machine == ELF_EM_ARM ? 1 : 0), 0x40, ELF_STT_FUNC);
  put_symbol(m, SYMBOLS + 2 * symbol, 7, CODE + 0x10, 0x10, ELF_STT_FUNC);
  put_symbol(m, SYMBOLS + 3 * symbol, 13, CODE + 0x80, 0, ELF_STT_NOTYPE);
}

static void expect_name(const symbols_t *symbols, uint64_t address, const char *want) {
  image_symbol_t symbol;
  bool found = symbols_find(symbols, address, &symbol);
  if (found != (want != NULL) || (found && strcmp(symbol.name, want) != 0))
    fail_msg("%#lx is %s, not %s", (long)address, found ? symbol.name : "nothing",
             want ? want : "nothing");
}

static void check_made(bool is_64bit, bool is_big_endian, unsigned machine, bool gnu_hash,
                       image_machine_t want) {
  made_t made;
  image_t image;
  symbols_t *symbols;
  make(&made, is_64bit, is_big_endian, machine, gnu_hash);
  assert_int_equal(image_parse_bytes(&image, made.bytes, sizeof made.bytes), 0);
  assert_int_equal(image.machine, want);
  assert_int_equal(image.is_64bit, is_64bit);
  assert_int_equal(image.is_big_endian, is_big_endian);
  assert_int_equal(image.build_id_size, 8);
  assert_memory_equal(image.build_id, "\1\2\3\4\5\6\7\10", 8);
  assert_int_equal(image.build_id_address, BASE + NOTE + 16);
  assert_int_equal(image.start, BASE);
  assert_int_equal(image.end, BASE + MADE_SIZE);
  assert_ptr_equal(image.dynsym.data, made.bytes + SYMBOLS);
  assert_int_equal(image.dynsym.size, 4 * elf_sym_size(made.shape));
  assert_int_equal(symbols_build(&image, 1 << 20, &symbols), 0);
  expect_name(symbols, CODE - 1, NULL);
  expect_name(symbols, CODE, "outer");
  expect_name(symbols, CODE + 0xf, "outer");
  expect_name(symbols, CODE + 0x10, "inner");
  expect_name(symbols, CODE + 0x1f, "inner");
  expect_name(symbols, CODE + 0x20, "outer"); /* behind what is nested in it */
  expect_name(symbols, CODE + 0x3f, "outer");
  expect_name(symbols, CODE + 0x40, NULL); /* beyond its size */
  expect_name(symbols, CODE + 0x80, "label");
  expect_name(symbols, BASE + MADE_SIZE - 1, "label");
  expect_name(symbols, BASE + MADE_SIZE, NULL); /* beyond the segment */
  symbols_free(symbols);
}

static void test_every_shape(void **state) {
  (void)state;
  for (int gnu_hash = 0; gnu_hash < 2; gnu_hash++) {
    check_made(true, false, ELF_EM_X86_64, gnu_hash, IMAGE_X86_64);
    check_made(true, false, ELF_EM_AARCH64, gnu_hash, IMAGE_AARCH64);
    check_made(true, true, ELF_EM_AARCH64, gnu_hash, IMAGE_AARCH64);
    check_made(false, false, ELF_EM_386, gnu_hash, IMAGE_I386);
    check_made(false, false, ELF_EM_ARM, gnu_hash, IMAGE_ARMV7);
    check_made(false, true, ELF_EM_ARM, gnu_hash, IMAGE_ARMV7);
    check_made(false, false, ELF_EM_X86_64, gnu_hash, IMAGE_OTHER); /* x32 */
    check_made(true, true, ELF_EM_S390, gnu_hash, IMAGE_OTHER);
    check_made(false, true, 20 /* EM_PPC */, gnu_hash, IMAGE_OTHER);
  }
}

/* A label without a size, as hand-written assembly has them, does not cut a function in two. */
static void test_label_inside_function(void **state) {
  (void)state;
  made_t m;
  image_t image;
  symbols_t *symbols;
  make(&m, true, false, ELF_EM_X86_64, true);
  put_symbol(&m, SYMBOLS + 3 * 24, 13, CODE + 0x28, 0, ELF_STT_NOTYPE);
  assert_int_equal(image_parse_bytes(&image, m.bytes, sizeof m.bytes), 0);
  assert_int_equal(symbols_build(&image, 1 << 20, &symbols), 0);
  expect_name(symbols, CODE + 0x27, "outer");
  expect_name(symbols, CODE + 0x28, "outer");
  expect_name(symbols, CODE + 0x3f, "outer");
  expect_name(symbols, CODE + 0x40, NULL);
  symbols_free(symbols);
}

/* ---- what real linkers make for other machines ---------------------------------------------- */

/* Compiles and links for another machine with TOOLS (%s: the object or the library). False when
 * these tools are not there. */
static bool link_for(const char *tools, const char *path) {
  char command[1500];
  snprintf(command, sizeof command,
           "printf 'int one(int x){return x+1;}int two(int x){return one(x)*2;}"
           "static int three(void){return 3;}void*p=three;' > %s.c && (%s) 2>/dev/null",
           path, tools);
  for (char *at; (at = strchr(command, '@'));) { /* every @ is the path */
    char rest[1500];
    strcpy(rest, at + 1);
    snprintf(at, sizeof command - (size_t)(at - command), "%s%s", path, rest);
  }
  return system(command) == 0;
}

/* Every function that readelf lists is found, at its first and its last byte. */
static int compare_with_readelf(const char *path) {
  image_t image;
  symbols_t *symbols;
  char command[600], line[1000];
  int functions = 0;
  assert_int_equal(image_open(&image, path), 0);
  assert_int_equal(symbols_build(&image, 1 << 20, &symbols), 0);
  snprintf(command, sizeof command, "readelf -sW %s", path);
  FILE *f = popen(command, "r");
  while (fgets(line, sizeof line, f)) {
    unsigned long value, size;
    char type[20], name[200];
    if (sscanf(line, " %*d: %lx %lu %19s %*s %*s %*s %199s", &value, &size, type, name) != 4 ||
        strcmp(type, "FUNC") != 0 || size == 0)
      continue;
    if (image.machine == IMAGE_ARMV7) value &= ~1ul;
    expect_name(symbols, value, name);
    expect_name(symbols, value + size - 1, name);
    functions++;
  }
  pclose(f);
  symbols_free(symbols);
  image_close(&image);
  return functions;
}

static void test_other_machines(void **state) {
  (void)state;
  static const struct {
    const char *what, *tools;
    image_machine_t machine;
    bool is_64bit, is_big_endian;
  } cases[] = {
      {"i386", "gcc -m32 -fno-pic -O1 -fno-inline -shared -nostdlib @.c -o @ -Wl,-z,notext",
       IMAGE_I386, false, false},
      {"armv7, Thumb",
       "clang --target=armv7-linux-gnueabihf -mthumb -fPIC -O1 -fno-inline -c @.c "
       "-o @.o && ld.lld -shared @.o -o @",
       IMAGE_ARMV7, false, false},
      {"aarch64, big-endian",
       "clang --target=aarch64_be-linux-gnu -fPIC -O1 -fno-inline -c @.c -o "
       "@.o && aarch64-linux-gnu-ld -EB -maarch64linuxb -shared @.o -o @",
       IMAGE_AARCH64, true, true},
      {"ppc, big-endian",
       "clang --target=powerpc-linux-gnu -fPIC -O1 -fno-inline -c @.c -o @.o && "
       "ld.lld -shared @.o -o @",
       IMAGE_OTHER, false, true},
  };
  char path[] = "/tmp/sonde-elf-XXXXXX", command[200];
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  close(fd);
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    image_t image;
    if (!link_for(cases[i].tools, path)) {
      print_message("skipped: no tools for %s\n", cases[i].what);
      continue;
    }
    assert_int_equal(image_open(&image, path), 0);
    assert_int_equal(image.machine, cases[i].machine);
    assert_int_equal(image.is_64bit, cases[i].is_64bit);
    assert_int_equal(image.is_big_endian, cases[i].is_big_endian);
    assert_non_null(image.dynsym.data);
    image_close(&image);
    int functions = compare_with_readelf(path);
    print_message("%s: %d functions\n", cases[i].what, functions);
    assert_true(functions >= 5); /* one and two in both tables, three in .symtab */
  }
  snprintf(command, sizeof command, "rm -f %s %s.c %s.o", path, path, path);
  assert_int_equal(system(command), 0);
}

/* ---- one address, several names -------------------------------------------------------------- */

typedef struct alias {
  const char *name;
  unsigned type, binding;
  uint64_t size;
} alias_t;

/* The name that the first of two symbols at one address loses to, whichever comes first. */
static void expect_preferred(alias_t worse, alias_t better) {
  for (int order = 0; order < 2; order++) {
    made_t m;
    image_t image;
    symbols_t *symbols;
    make(&m, true, false, ELF_EM_X86_64, true);
    memset(m.bytes + SYMBOLS + 24, 0, 3 * 24);
    const alias_t *a[2] = {&worse, &better};
    memset(m.bytes + NAMES, 0, 64);
    put(&m, DYNAMIC + 2 * 16 + 8, 8, 64);
    for (int i = 0; i < 2; i++) {
      const alias_t *s = a[i ^ order];
      uint64_t at = SYMBOLS + 24u * (unsigned)(i + 1), name = 1 + 24 * (unsigned)i;
      memcpy(m.bytes + NAMES + name, s->name, strlen(s->name));
      put_symbol(&m, at, (uint32_t)name, CODE, s->size, s->type);
      m.bytes[at + 4] = (uint8_t)(s->binding << 4 | s->type);
    }
    assert_int_equal(image_parse_bytes(&image, m.bytes, sizeof m.bytes), 0);
    assert_int_equal(symbols_build(&image, 1 << 20, &symbols), 0);
    expect_name(symbols, CODE, better.name);
    symbols_free(symbols);
  }
}

static void test_aliases(void **state) {
  (void)state;
  enum { F = ELF_STT_FUNC, I = ELF_STT_GNU_IFUNC, N = ELF_STT_NOTYPE };
  enum { L = ELF_STB_LOCAL, G = ELF_STB_GLOBAL, W = ELF_STB_WEAK };
  expect_preferred((alias_t){"weak", F, W, 8}, (alias_t){"__global", F, G, 8});
  expect_preferred((alias_t){"local", F, L, 8}, (alias_t){"__weak", F, W, 8});
  expect_preferred((alias_t){"unsized", F, G, 0}, (alias_t){"__sized", N, L, 8});
  expect_preferred((alias_t){"label", N, G, 8}, (alias_t){"__function", F, L, 8});
  expect_preferred((alias_t){"indirect", I, G, 8}, (alias_t){"__direct", F, L, 8});
  expect_preferred((alias_t){"__libc_malloc", F, G, 8}, (alias_t){"malloc", F, G, 8});
  expect_preferred((alias_t){"old@VERS_1", F, G, 8}, (alias_t){"__plain", F, G, 8});
}

/* ---- real files ------------------------------------------------------------------------------ */

static uint8_t *slurp(const char *path, size_t *size) {
  struct stat st;
  FILE *f = stat(path, &st) == 0 && S_ISREG(st.st_mode) ? fopen(path, "rb") : NULL;
  if (!f) return NULL;
  uint8_t *bytes = st.st_size > 0 ? malloc((size_t)st.st_size) : NULL;
  *size = bytes ? fread(bytes, 1, (size_t)st.st_size, f) : 0;
  fclose(f);
  return bytes;
}

static bool inside(const section_t *s, const uint8_t *bytes, size_t size) {
  return !s->data ||
         (s->data >= bytes && s->size <= size && (size_t)(s->data - bytes) <= size - s->size);
}

static bool all_inside(const image_t *i, const uint8_t *bytes, size_t size) {
  return inside(&i->eh_frame_hdr, bytes, size) && inside(&i->eh_frame, bytes, size) &&
         inside(&i->debug_frame, bytes, size) && inside(&i->symtab, bytes, size) &&
         inside(&i->symtab_names, bytes, size) && inside(&i->dynsym, bytes, size) &&
         inside(&i->dynsym_names, bytes, size);
}

static bool defines_nothing(const section_t *symbols) {
  const uint8_t *symbol = symbols->data;
  for (; symbol + 24 <= symbols->data + symbols->size; symbol += 24)
    if ((symbol[6] || symbol[7]) && (symbol[4] & 15) != 3) return false; /* st_shndx; STT_SECTION */
  return true;
}

/* What program headers tell must be what section headers tell: two sources of the same facts. */
static bool same_without_section_headers(const char *path) {
  size_t size;
  uint8_t *bytes = slurp(path, &size);
  image_t with, without;
  if (!bytes || size < 64 ||
      memcmp(bytes,
             "\x7f"
             "ELF\2\1",
             6) != 0 ||
      image_parse_bytes(&with, bytes, size) != 0 || with.segment_count == 0 ||
      !with.dynamic_address || !with.dynsym.data) {
    free(bytes);
    return false;
  }
  assert_true(all_inside(&with, bytes, size));
  memset(bytes + 40, 0, 8); /* e_shoff */
  memset(bytes + 60, 0, 4); /* e_shnum, e_shstrndx */
  assert_int_equal(image_parse_bytes(&without, bytes, size), 0);
  /* Where no symbol is defined, the hash table holds none, and does not tell how many there are. */
  bool same_size = with.dynsym.size == without.dynsym.size ||
                   (without.dynsym.size == 24 && defines_nothing(&with.dynsym));
  if (with.dynsym.data != without.dynsym.data || !same_size)
    fail_msg("%s: .dynsym %#lx bytes, by PT_DYNAMIC %#lx", path, (long)with.dynsym.size,
             (long)without.dynsym.size);
  assert_ptr_equal(with.dynsym_names.data, without.dynsym_names.data);
  assert_int_equal(with.dynsym_names.size, without.dynsym_names.size);
  assert_int_equal(with.build_id_size, without.build_id_size);
  assert_memory_equal(with.build_id, without.build_id, sizeof with.build_id);
  if (without.eh_frame_hdr.data) {
    assert_ptr_equal(with.eh_frame_hdr.data, without.eh_frame_hdr.data);
    assert_ptr_equal(with.eh_frame.data, without.eh_frame.data);
    assert_true(without.eh_frame.size >= with.eh_frame.size);
  }
  assert_true(all_inside(&without, bytes, size));
  assert_null(without.symtab.data);
  free(bytes);
  return true;
}

static void test_program_headers_suffice(void **state) {
  (void)state;
  static const char *const places[] = {"/usr/bin/*", "/usr/lib/*/*.so*", "/lib64/*.so*"};
  int files = 0;
  for (unsigned p = 0; p < sizeof places / sizeof *places; p++) {
    glob_t found;
    if (glob(places[p], 0, NULL, &found) != 0) continue;
    for (size_t i = 0; i < found.gl_pathc && files < 400; i++)
      files += same_without_section_headers(found.gl_pathv[i]);
    globfree(&found);
  }
  print_message("%d files\n", files);
  assert_true(files >= 20);
}

static void test_sections(void **state) {
  (void)state;
  image_t image;
  section_t section;
  assert_int_equal(image_open(&image, "/proc/self/exe"), 0);
  assert_true(image.is_executable);
  assert_true(image_section(&image, ".text", &section));
  assert_true(section.address > 0 && section.size > 1000);
  assert_true(image_section(&image, ".symtab", &section));
  assert_ptr_equal(section.data, image.symtab.data);
  assert_int_equal(section.size, image.symtab.size);
  assert_false(image_section(&image, ".bss", &section));
  assert_false(image_section(&image, ".tex", &section));
  assert_false(image_section(&image, "", &section));
  image_close(&image);
  assert_null(image.file);
}

static void test_not_a_file(void **state) {
  (void)state;
  image_t image;
  assert_int_equal(image_open(&image, "/nonexistent"), SONDE_EIO);
  assert_int_equal(image_open(&image, "/tmp"), SONDE_EIO);
  assert_int_equal(image_open(&image, "/dev/null"), SONDE_EIO);
  assert_int_equal(image_open(&image, "/etc/passwd"), SONDE_EFORMAT);
  assert_int_equal(image_parse_bytes(&image, (const uint8_t *)"", 0), SONDE_EFORMAT);
  assert_int_equal(image_parse_live(&image, 0, 0), SONDE_EINVAL);
  assert_int_equal(image_parse_live(&image, 4096, 0), SONDE_EFAULT);
  assert_int_equal(image_parse_live(&image, (uintptr_t)state, 0), SONDE_EFORMAT);
}

/* ---- broken files ---------------------------------------------------------------------------- */

/* Parses SIZE bytes that end where the heap block ends, so that a sanitizer sees a step too far. */
static void parse_exact(const uint8_t *bytes, size_t size) {
  uint8_t *copy = malloc(size ? size : 1);
  memcpy(copy, bytes, size);
  image_t image;
  section_t section;
  if (image_parse_bytes(&image, copy, size) == 0) {
    symbols_t *symbols;
    assert_true(all_inside(&image, copy, size));
    if (image_section(&image, ".debug_info", &section)) assert_true(inside(&section, copy, size));
    if (symbols_build(&image, 16 << 20, &symbols) == 0) {
      image_symbol_t symbol;
      for (uint32_t i = 0; i < symbols_count(symbols); i++)
        assert_non_null(symbols_at(symbols, i).name);
      for (uint64_t a = image.start; a < image.end && a < image.start + 65536; a += 61)
        (void)symbols_find(symbols, a, &symbol);
      symbols_free(symbols);
    }
  }
  free(copy);
}

static void test_truncated(void **state) {
  (void)state;
  made_t made;
  make(&made, true, false, ELF_EM_X86_64, true);
  for (size_t size = 0; size < 0x800; size++)
    parse_exact(made.bytes, size);
}

/* Bytes that matter are set to values that hurt. */
static void test_random_damage(void **state) {
  (void)state;
  const char *given = getenv("SONDE_SEED");
  unsigned seed = given ? (unsigned)strtoul(given, NULL, 0) : (unsigned)time(NULL);
  print_message("SONDE_SEED=%u\n", seed);
  srandom(seed);
  static const uint64_t values[] = {0,
                                    1,
                                    0xff,
                                    0xffff,
                                    0x7fffffff,
                                    0xffffffff,
                                    UINT64_MAX,
                                    UINT64_MAX - 7,
                                    0x8000000000000000,
                                    0x1000};
  size_t size;
  uint8_t *real = slurp("/proc/self/exe", &size);
  if (size > 1 << 20) size = 1 << 20;
  for (int round = 0; round < 4000; round++) {
    made_t made;
    make(&made, round & 1, round & 2, round & 4 ? ELF_EM_X86_64 : ELF_EM_S390, round & 8);
    bool use_real = round % 16 == 0;
    uint8_t *bytes = use_real ? real : made.bytes, saved[8][8];
    size_t at[8], reach = use_real ? 0x400 : 0x600;
    int damages = 1 + (int)(random() % 8);
    for (int i = 0; i < damages; i++) {
      at[i] = (size_t)random() % (reach - 8);
      memcpy(saved[i], bytes + at[i], 8);
      uint64_t v = values[(size_t)random() % (sizeof values / sizeof *values)];
      memcpy(bytes + at[i], &v, (size_t)1 << (random() % 4));
    }
    parse_exact(bytes, use_real ? size : MADE_SIZE);
    for (int i = damages - 1; i >= 0; i--)
      memcpy(bytes + at[i], saved[i], 8);
  }
  free(real);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_shape),
      cmocka_unit_test(test_label_inside_function),
      cmocka_unit_test(test_other_machines),
      cmocka_unit_test(test_aliases),
      cmocka_unit_test(test_program_headers_suffice),
      cmocka_unit_test(test_sections),
      cmocka_unit_test(test_not_a_file),
      cmocka_unit_test(test_truncated),
      cmocka_unit_test(test_random_damage),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
