/* SPDX-License-Identifier: MIT
 *
 * Names from inside, against binutils' nm: random addresses of every executable segment of real
 * libraries and of this program. nm lists the symbols; which of them names an address is worked out
 * here by a plain scan over its listing, by the rules that symbols.h states.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "image/list.h"
#include "os/os.h"
#include "skip.h"
#include "sonde/image.h"
#include "sonde/name.h"

#define ADDRESSES 10000

/* ---- the oracle ----------------------------------------------------------------------------- */

typedef struct listed {
  unsigned long address, size;
  char *name;
} listed_t;

typedef struct listing {
  listed_t *symbols;
  int count;
} listing_t;

static int by_address(const void *a, const void *b) {
  const listed_t *x = a, *y = b;
  return x->address < y->address ? -1 : x->address > y->address;
}

/* A line of nm -f sysv: Name|Value|Class|Type|Size|Line|Section. Only code counts. */
static int parse_line(char *line, listed_t *out) {
  char *field[7] = {line};
  int n = 1;
  for (char *p = line; *p && n < 7; p++)
    if (*p == '|') {
      *p = 0;
      field[n++] = p + 1;
    }
  if (n < 7) return 0;
  char type[32] = "";
  sscanf(field[3], "%31s", type);
  if (strcmp(type, "FUNC") && strcmp(type, "IFUNC") && strcmp(type, "<OS specific>:") &&
      strcmp(type, "<OS") && strcmp(type, "NOTYPE"))
    return 0;
  if (strstr(field[6], "*UND*") || strstr(field[6], "*ABS*") || field[0][0] == '$') return 0;
  *out = (listed_t){.address = strtoul(field[1], NULL, 16), .size = strtoul(field[4], NULL, 16)};
  char name[400] = "";
  sscanf(field[0], "%399s", name);
  name[strcspn(name, "@")] = 0;
  if (!name[0]) return 0;
  out->name = strdup(name);
  return 1;
}

static listing_t list_by_nm(const char *path) {
  listing_t listing = {0};
  int capacity = 0;
  static const char *const tables[] = {"", "-D"};
  for (int t = 0; t < 2; t++) {
    char command[1200], line[4096];
    snprintf(command, sizeof command, "nm %s -f sysv '%s' 2>/dev/null", tables[t], path);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
      if (listing.count == capacity) { /* AddressSanitizer copies in every realloc */
        capacity = capacity ? 2 * capacity : 1024;
        listing.symbols = realloc(listing.symbols, (size_t)capacity * sizeof *listing.symbols);
      }
      listing.count += parse_line(line, &listing.symbols[listing.count]);
    }
    pclose(f);
  }
  qsort(listing.symbols, (size_t)listing.count, sizeof *listing.symbols, by_address);
  return listing;
}

static void free_listing(listing_t listing) {
  for (int i = 0; i < listing.count; i++)
    free(listing.symbols[i].name);
  free(listing.symbols);
}

/* The start of the symbol that names ADDRESS; 0 when none does. */
static unsigned long start_by_scan(const listing_t *listing, unsigned long address) {
  unsigned long sized = 0, nearest = 0;
  for (int i = 0; i < listing->count && listing->symbols[i].address <= address; i++) {
    const listed_t *s = &listing->symbols[i];
    nearest = s->address;
    if (s->size && address - s->address < s->size) sized = s->address;
  }
  if (sized) return sized;
  for (int i = 0; i < listing->count; i++)
    if (listing->symbols[i].address == nearest && listing->symbols[i].size)
      return 0; /* beyond the end of a symbol that has one */
  return nearest;
}

/* Linkers make names with an '@' that is no version: e843419@00a4_000009ec_3a8. */
static int is_listed(const listing_t *listing, unsigned long address, const char *name) {
  size_t length = strcspn(name, "@");
  for (int i = 0; i < listing->count; i++) {
    const listed_t *s = &listing->symbols[i];
    if (s->address == address && strncmp(s->name, name, length) == 0 && !s->name[length]) return 1;
  }
  return 0;
}

/* ---- random addresses ------------------------------------------------------------------------ */

static unsigned long seed;

static unsigned long next_random(void) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return seed >> 20;
}

static uintptr_t random_code(const sonde_image_t *image) {
  for (;;) {
    const sonde_segment_t *s = &image->segments[next_random() % image->segment_count];
    if (s->flags & SONDE_SEGMENT_EXECUTE) return s->address + next_random() % s->size;
  }
}

static void compare_image(uintptr_t inside, const char *what) {
  sonde_image_t image;
  assert_int_equal(sonde_image_of_pc(inside, &image), 0);
  listing_t listing = list_by_nm(image.path);
  int named = 0;
  int count = is_sanitized() ? ADDRESSES / 10 : ADDRESSES;
  for (int i = 0; i < count; i++) {
    uintptr_t pc = random_code(&image);
    sonde_name_t name;
    int status = sonde_name(pc, SONDE_NAME_EXACT, &name);
    unsigned long linked = pc - image.slide, want = start_by_scan(&listing, linked);
    assert_int_equal(name.image_offset, linked);
    assert_string_equal(name.image, image.path);
    if (!want && status != SONDE_ESTRIPPED)
      fail_msg("%s: %#lx is %s, nm has nothing there", what, linked, name.symbol);
    if (!want) continue;
    if (status != 0) fail_msg("%s: %#lx has no name, nm has a symbol at %#lx", what, linked, want);
    if (linked - name.symbol_offset != want || !is_listed(&listing, want, name.symbol))
      fail_msg("%s: %#lx is %s+%#lx, nm has a symbol at %#lx", what, linked, name.symbol,
               name.symbol_offset, want);
    named++;
  }
  print_message("%s: %d symbols, %d of %d addresses named\n", what, listing.count, named, count);
  free_listing(listing);
}

static void test_equals_nm(void **state) {
  (void)state;
  static const char *const libraries[][2] = {{"libc.so.6", "qsort"},
                                             {"libstdc++.so.6", "__cxa_throw"},
                                             {"libcrypto.so.3", "EVP_sha256"},
                                             {"libpython3.11.so.1.0", "Py_Initialize"},
                                             {"libsqlite3.so.0", "sqlite3_open"},
                                             {"libm.so.6", "sin"},
                                             {"libz.so.1", "deflate"},
                                             {"libzstd.so.1", "ZSTD_compress"},
                                             {"libelf.so.1", "elf_begin"},
                                             {"libcmocka.so.0", "_cmocka_run_group_tests"}};
  int compared = 1;
  compare_image((uintptr_t)test_equals_nm, "this program");
  for (unsigned i = 0; i < sizeof libraries / sizeof *libraries && compared < 6; i++) {
    void *handle = dlopen(libraries[i][0], RTLD_NOW);
    if (!handle) continue;
    compare_image((uintptr_t)dlsym(handle, libraries[i][1]), libraries[i][0]);
    compared++;
  }
  assert_true(compared >=
              (is_emulated() ? 2 : 5)); /* few libraries of the other machine are here */
}

/* ---- a library of our own making ------------------------------------------------------------- */

static char folder[] = "/tmp/sonde-names-XXXXXX";

static void run(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void run(const char *format, ...) {
  char command[2048];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(command, sizeof command, format, arguments);
  va_end(arguments);
  if (system(command) != 0) fail_msg("failed: %s", command);
}

/* NAME.so: exported() calls hidden(), which is in .symtab alone. Every library is another build. */
static void build_library(const char *name, const char *options) {
  static int number;
  run("printf 'static __attribute__((noinline)) int hidden(int x)"
      "{return x+%d;}\\nvoid *p=hidden;int exported(int x){return hidden(x)+2;}' | " SONDE_CC
      " -shared -fPIC -O1 -x c - -o %s/%s.so %s",
      ++number, folder, name, options);
}

static void *load(const char *name) {
  char path[600];
  snprintf(path, sizeof path, "%s/%s.so", folder, name);
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!handle) fail_msg("%s", dlerror());
  return handle;
}

static sonde_name_t name_of(uintptr_t pc) {
  sonde_name_t name;
  (void)sonde_name(pc, SONDE_NAME_EXACT, &name);
  return name;
}

static uintptr_t hidden_of(void *handle) { return *(uintptr_t *)dlsym(handle, "p"); }

/* Names of a library of which .symtab can NOT be had, for the reason KNOWN. */
static void only_exported_names(void *handle, sonde_known_t known) {
  sonde_name_t name = name_of((uintptr_t)dlsym(handle, "exported"));
  assert_string_equal(name.symbol, "exported");
  assert_int_equal(name.symbol_offset, 0);
  assert_int_equal(name.known, known);
  name = name_of(hidden_of(handle));
  assert_null(name.symbol);
  assert_int_equal(name.known, known);
}

static void all_names(void *handle) {
  sonde_name_t name = name_of(hidden_of(handle) + 1);
  assert_string_equal(name.symbol, "hidden");
  assert_int_equal(name.symbol_offset, 1);
  assert_int_equal(name.known, SONDE_KNOWN_ALL);
}

static void test_symtab(void **state) {
  (void)state;
  build_library("plain", "");
  void *handle = load("plain");
  all_names(handle);
  dlclose(handle);
}

static void test_stripped(void **state) {
  (void)state;
  build_library("stripped", "-s");
  void *handle = load("stripped");
  only_exported_names(handle, SONDE_KNOWN_STRIPPED);
  dlclose(handle);
}

static void test_deleted(void **state) {
  (void)state;
  build_library("deleted", "");
  void *handle = load("deleted");
  run("rm %s/deleted.so", folder);
  only_exported_names(handle, SONDE_KNOWN_NO_FILE);
  dlclose(handle);
}

/* The file at that path is now another build: its symbols are not this image's. */
static void test_replaced(void **state) {
  (void)state;
  build_library("replaced", "");
  void *handle = load("replaced");
  run("rm %s/replaced.so", folder);
  build_library("replaced", "-D hidden=other -D exported=different");
  only_exported_names(handle, SONDE_KNOWN_NO_FILE);
  dlclose(handle);
}

static void test_without_build_id(void **state) {
  (void)state;
  build_library("unidentified", "-Wl,--build-id=none");
  void *handle = load("unidentified");
  all_names(handle);
  dlclose(handle);
  build_library("unidentified2", "-Wl,--build-id=none");
  handle = load("unidentified2");
  run("rm %s/unidentified2.so", folder);
  build_library("unidentified2", "-Wl,--build-id=none");
  only_exported_names(handle, SONDE_KNOWN_NO_FILE);
  dlclose(handle);
}

/* e_shoff, e_shnum and e_shstrndx are 0, as sstrip leaves them. */
static void test_without_section_headers(void **state) {
  (void)state;
  build_library("bare", "");
  run("cd %s && printf '\\0\\0\\0\\0\\0\\0\\0\\0' | dd of=bare.so bs=1 seek=40 conv=notrunc "
      "2>/dev/null"
      " && printf '\\0\\0\\0\\0' | dd of=bare.so bs=1 seek=60 conv=notrunc 2>/dev/null",
      folder);
  void *handle = load("bare");
  only_exported_names(handle, SONDE_KNOWN_STRIPPED);
  dlclose(handle);
}

static void test_memfd(void **state) {
  (void)state;
  char path[100];
  build_library("source", "");
  int fd = memfd_create("names test", 0);
  run("cat %s/source.so > /proc/%d/fd/%d", folder, getpid(), fd);
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  void *handle = dlopen(path, RTLD_NOW);
  assert_non_null(handle);
  all_names(handle);
  assert_string_equal(name_of(hidden_of(handle)).image, "/memfd:names test");
  dlclose(handle);
  close(fd);

  build_library("source", "");
  fd = memfd_create("names test", 0);
  run("cat %s/source.so > /proc/%d/fd/%d", folder, getpid(), fd);
  handle = dlopen(path, RTLD_NOW);
  close(fd);
  only_exported_names(handle, SONDE_KNOWN_NO_FILE);
  dlclose(handle);
}

static void test_keeps_the_names_of_what_is_gone(void **state) {
  (void)state;
  build_library("leaves", "");
  void *handle = load("leaves");
  sonde_name_t name = name_of(hidden_of(handle));
  dlclose(handle);
  assert_string_equal(name.symbol, "hidden");
  assert_non_null(strstr(name.image, "/leaves.so"));
}

/* ---- the rest -------------------------------------------------------------------------------- */

static void test_vdso(void **state) {
  (void)state;
  uintptr_t header = getauxval(AT_SYSINFO_EHDR);
  if (!header) skip();
  sonde_image_t image;
  assert_int_equal(sonde_image_of_pc(header, &image), 0);
  assert_int_equal(image.flags, SONDE_IMAGE_VDSO | SONDE_IMAGE_SYSTEM);
  void *vdso = dlopen("linux-vdso.so.1", RTLD_NOW | RTLD_NOLOAD);
  uintptr_t function = vdso ? (uintptr_t)dlsym(vdso, "__vdso_clock_gettime") : 0;
  if (!function) skip();
  assert_string_equal(name_of(function).symbol, "__vdso_clock_gettime");
}

/* A call that does not return is the last instruction of its function. */
static void test_return_address(void **state) {
  (void)state;
  sonde_name_t exact, returning;
  uintptr_t start = (uintptr_t)test_return_address;
  assert_int_equal(sonde_name(start, SONDE_NAME_EXACT, &exact), 0);
  assert_string_equal(exact.symbol, "test_return_address");
  sonde_name(start, 0, &returning);
  assert_true(!returning.symbol || strcmp(returning.symbol, exact.symbol) != 0);
  sonde_name(start + 1, 0, &returning);
  assert_string_equal(returning.symbol, "test_return_address");
  assert_int_equal(returning.symbol_offset, 1);
}

static void test_bad_arguments(void **state) {
  (void)state;
  sonde_name_t name;
  sonde_image_t image;
  uintptr_t pc = 0;
  assert_int_equal(sonde_name((uintptr_t)test_vdso, 0, NULL), SONDE_EINVAL);
  assert_int_equal(sonde_name((uintptr_t)test_vdso, 2, &name), SONDE_EINVAL);
  assert_int_equal(sonde_name(0, 0, &name), SONDE_ENOTFOUND);
  assert_int_equal(name.image_id, 0);
  assert_int_equal(sonde_image_of_pc(1, &image), SONDE_ENOTFOUND);
  assert_int_equal(sonde_image_of_pc(1, NULL), SONDE_EINVAL);
  assert_int_equal(sonde_images(NULL, NULL), SONDE_EINVAL);
  assert_int_equal(sonde_stack_print(1, NULL, 1, 0), SONDE_EINVAL);
  assert_int_equal(sonde_stack_print(1, &pc, -1, 0), SONDE_EINVAL);
  assert_int_equal(sonde_stack_print(1, &pc, 1, 64), SONDE_EINVAL);
  assert_int_equal(sonde_stack_print(-1, &pc, 1, 0), SONDE_EIO);
}

static void test_lines(void **state) {
  (void)state;
  int ends[2];
  char text[4096] = {0}, want[200];
  uintptr_t pcs[] = {(uintptr_t)test_lines + 4, (uintptr_t)qsort + 4, 0x10};
  assert_int_equal(pipe(ends), 0);
  assert_int_equal(sonde_stack_print(ends[1], pcs, 3, 0), 3);
  assert_true(read(ends[0], text, sizeof text - 1) > 0);
  sonde_name_t name = name_of(pcs[0]);
  snprintf(want, sizeof want, "#0   0x%016lx  test_lines+0x4  (%.100s+0x%lx)\n", pcs[0], name.image,
           name.image_offset);
  assert_memory_equal(text, want, strlen(want));
  assert_non_null(strstr(text, "\n#2   0x0000000000000010  ??  (no image)\n"));
  memset(text, 0, sizeof text);
  assert_int_equal(sonde_stack_print(ends[1], pcs, 3, SONDE_NAME_APP_ONLY), 2);
  assert_true(read(ends[0], text, sizeof text - 1) > 0);
  assert_null(strstr(text, "#1 "));
  close(ends[0]);
  close(ends[1]);
}

static int start(void **state) {
  (void)state;
  const char *given = getenv("SONDE_SEED");
  seed = given ? strtoul(given, NULL, 0) : (unsigned long)time(NULL) ^ (unsigned long)getpid();
  print_message("SONDE_SEED=%lu\n", seed);
  return mkdtemp(folder) == NULL;
}

static int end(void **state) {
  (void)state;
  run("rm -r %s", folder);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_equals_nm),
      cmocka_unit_test(test_symtab),
      cmocka_unit_test(test_stripped),
      cmocka_unit_test(test_deleted),
      cmocka_unit_test(test_replaced),
      cmocka_unit_test(test_without_build_id),
      cmocka_unit_test(test_without_section_headers),
      cmocka_unit_test(test_memfd),
      cmocka_unit_test(test_keeps_the_names_of_what_is_gone),
      cmocka_unit_test(test_vdso),
      cmocka_unit_test(test_return_address),
      cmocka_unit_test(test_bad_arguments),
      cmocka_unit_test(test_lines),
  };
  return cmocka_run_group_tests(tests, start, end);
}
