/* SPDX-License-Identifier: MIT
 *
 * Symbolizes a small program with known names and lines, in all forms of debug information.
 */
#include <dlfcn.h>
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <cmocka.h>

#include "symbol/demangle.h"
#include "symbol/symbol.h"

static char scratch[] = "/tmp/sonde-symbol-XXXXXX";

static void run(const char *format, const char *a, const char *b) {
  char command[1024];
  snprintf(command, sizeof command, format, a, b);
  if (system(command) != 0) fail_msg("%s", command);
}

/* The address of SYMBOL in FILE, by nm. */
static uint64_t address_of(const char *file, const char *symbol) {
  char command[1024], line[256];
  snprintf(command, sizeof command, "nm '%s' | grep ' %s$'", file, symbol);
  FILE *pipe = popen(command, "r");
  assert_non_null(pipe);
  assert_non_null(fgets(line, sizeof line, pipe));
  pclose(pipe);
  return strtoull(line, NULL, 16);
}

typedef struct answer {
  symbolizer_t *symbolizer;
  symbol_frame_t frames[SYMBOL_FRAMES_MAX];
  symbol_reason_t reason;
  int count;
} answer_t;

static answer_t ask(const char *path, uint64_t address, const symbol_options_t *options,
                    size_t expect) {
  answer_t answer = {.symbolizer = symbolizer_new(options)};
  symbol_source_t source = {.path = path};
  symbol_module_t *module = symbolizer_module(answer.symbolizer, &source);
  assert_non_null(module);
  if (expect) symbol_expect(module, expect);
  answer.count = symbol_lookup(module, address, answer.frames, SYMBOL_FRAMES_MAX, &answer.reason);
  return answer;
}

static void assert_frame(const symbol_frame_t *frame, const char *function, uint32_t line,
                         bool inlined) {
  assert_non_null(frame->function);
  assert_string_equal(frame->function, function);
  assert_non_null(frame->file);
  assert_string_equal(strrchr(frame->file, '/'), "/names.cc");
  assert_int_equal(frame->line, line);
  assert_int_equal(frame->inlined, inlined);
  assert_int_equal(frame->has_offset, !inlined);
}

static void assert_full_answer(const char *path, uint64_t mark, size_t expect) {
  symbol_options_t options = {.no_index = true, .raw = true};
  answer_t answer = ask(path, mark, &options, expect);
  assert_int_equal(answer.count, 3);
  assert_int_equal(answer.reason, SYMBOL_NAMED);
  assert_frame(&answer.frames[0], "app::(anonymous namespace)::leaf", 14, true);
  assert_frame(&answer.frames[1], "app::branch", 20, true);
  assert_frame(&answer.frames[2], "app::Tree<int>::root(int)", 25, false);
  assert_string_equal(answer.frames[2].raw, "_ZN3app4TreeIiE4rootEi");
  symbolizer_free(answer.symbolizer);
}

static void names_every_form(void **state) {
  (void)state;
  static const char *const forms[] = {"names", "names-dwarf4", "names-compressed", "names-split"};
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", SONDE_FIXTURES, forms[i]);
    uint64_t mark = address_of(path, "mark");
    assert_full_answer(path, mark, 0);        /* directly */
    assert_full_answer(path, mark, SIZE_MAX); /* from an index */
  }
}

static void names_only(void **state) {
  (void)state;
  const char *path = SONDE_FIXTURES "/names";
  uint64_t mark = address_of(path, "mark");
  symbol_options_t no_lines = {.no_index = true, .no_lines = true};
  answer_t answer = ask(path, mark, &no_lines, 0);
  assert_int_equal(answer.count, 1);
  assert_string_equal(answer.frames[0].function, "app::Tree<int>::root(int)");
  assert_null(answer.frames[0].file);
  assert_int_equal(answer.frames[0].function_offset,
                   mark - address_of(path, "_ZN3app4TreeIiE4rootEi"));
  symbolizer_free(answer.symbolizer);

  symbol_options_t no_inlines = {.no_index = true, .no_inlines = true};
  answer = ask(path, mark, &no_inlines, 0);
  assert_int_equal(answer.count, 1);
  assert_frame(&answer.frames[0], "app::Tree<int>::root(int)", 25, false);
  symbolizer_free(answer.symbolizer);

  answer = ask(SONDE_FIXTURES "/names-bare", address_of(SONDE_FIXTURES "/names-bare", "mark"),
               &no_inlines, 0);
  assert_int_equal(answer.count, 1);
  assert_string_equal(answer.frames[0].function, "app::Tree<int>::root(int)");
  assert_null(answer.frames[0].file);
  symbolizer_free(answer.symbolizer);
}

/* A stripped image is reported as such. With its debug file in a debug folder, or beside it by
 * debuglink, it is symbolized in full. */
static void finds_separate_debug_files(void **state) {
  (void)state;
  const char *path = SONDE_FIXTURES "/names";
  uint64_t mark = address_of(path, "mark");
  char stripped[128], debug[160], folder[128];
  snprintf(stripped, sizeof stripped, "%s/bare", scratch);
  snprintf(folder, sizeof folder, "%s/debug", scratch);
  run("strip -o '%s' '%s'", stripped, path);
  symbol_options_t options = {.no_index = true};
  answer_t answer = ask(stripped, mark, &options, 0);
  assert_int_equal(answer.count, 0);
  assert_int_equal(answer.reason, SYMBOL_STRIPPED);
  symbolizer_free(answer.symbolizer);

  run("id=$(readelf -n '%s' | sed -n 's/.*Build ID: //p'); first=$(echo $id | cut -c1-2); "
      "mkdir -p '%s'/.build-id/$first; ",
      path, folder);
  char command[1024];
  snprintf(command, sizeof command,
           "id=$(readelf -n '%s' | sed -n 's/.*Build ID: //p'); objcopy --only-keep-debug '%s' "
           "'%s'/.build-id/$(echo $id | cut -c1-2)/$(echo $id | cut -c3-).debug",
           path, path, folder);
  assert_int_equal(system(command), 0);
  const char *dirs[] = {folder, NULL};
  symbol_options_t with_dir = {.no_index = true, .debug_dirs = dirs};
  answer = ask(stripped, mark, &with_dir, 0);
  assert_int_equal(answer.count, 3);
  assert_frame(&answer.frames[2], "app::Tree<int>::root(int)", 25, false);
  symbolizer_free(answer.symbolizer);

  snprintf(debug, sizeof debug, "%s/names.debug", scratch);
  run("objcopy --only-keep-debug '%s' '%s'", path, debug);
  run("cd '%s' && objcopy --add-gnu-debuglink=names.debug '%s'", scratch, stripped);
  answer = ask(stripped, mark, &options, 0);
  assert_int_equal(answer.count, 3);
  assert_frame(&answer.frames[0], "app::(anonymous namespace)::leaf", 14, true);
  symbolizer_free(answer.symbolizer);
}

static void rejects_another_build(void **state) {
  (void)state;
  static const uint8_t other[20] = {1, 2, 3};
  symbol_options_t options = {.no_index = true};
  symbolizer_t *symbolizer = symbolizer_new(&options);
  symbol_source_t source = {
      .path = SONDE_FIXTURES "/names", .build_id = other, .build_id_size = sizeof other};
  symbol_frame_t frames[4];
  symbol_reason_t reason;
  symbol_module_t *module = symbolizer_module(symbolizer, &source);
  assert_ptr_equal(symbolizer_module(symbolizer, &source), module);
  assert_int_equal(symbol_lookup(module, 0x1000, frames, 4, &reason), 0);
  assert_int_equal(reason, SYMBOL_REPLACED);
  symbolizer_free(symbolizer);
}

static void names_stubs(void **state) {
  (void)state;
  const char *path = SONDE_FIXTURES "/names-bare";
  char line[256];
  FILE *pipe = popen("objdump -d --no-show-raw-insn '" SONDE_FIXTURES
                     "/names-bare' | grep '<printf@plt>:$' | tail -1",
                     "r");
  assert_non_null(pipe);
  assert_non_null(fgets(line, sizeof line, pipe));
  pclose(pipe);
  symbol_options_t options = {.no_index = true};
  answer_t answer = ask(path, strtoull(line, NULL, 16), &options, 0);
  assert_int_equal(answer.count, 1);
  assert_string_equal(answer.frames[0].function, "printf@plt");
  symbolizer_free(answer.symbolizer);
}

/* libc calls its functions with several variants through slots without a symbol. objdump gives such
 * a stub and the address of its resolver; readelf gives the names at that address. */
static void names_stubs_of_resolved_functions(void **state) {
  (void)state;
  Dl_info libc;
  char command[1024];
  unsigned long stub = 0, resolver = 0;
  assert_true(dladdr((void *)(uintptr_t)dlsym(RTLD_DEFAULT, "gnu_get_libc_version"), &libc));
  (void)snprintf(command, sizeof command,
                 "objdump -d --no-show-raw-insn '%s' | "
                 "sed -n 's/^0*\\([0-9a-f]*\\) <\\*ABS\\*+0x\\([0-9a-f]*\\)@plt>:$/\\1 \\2/p'",
                 libc.dli_fname);
  FILE *stubs = popen(command, "r");
  assert_non_null(stubs);
  int count = 0, named = 0;
  symbol_options_t options = {.no_index = true};
  while (count < 12 && fscanf(stubs, "%lx %lx", &stub, &resolver) == 2) {
    answer_t answer = ask(libc.dli_fname, stub, &options, 0);
    assert_int_equal(answer.count, 1);
    const char *at = strstr(answer.frames[0].function, "@plt");
    assert_non_null(at);
    (void)snprintf(
        command, sizeof command, "readelf -sW '%s' | grep -q ' 0*%lx .* IFUNC .* %.*s\\(@\\|$\\)'",
        libc.dli_fname, resolver, (int)(at - answer.frames[0].function), answer.frames[0].function);
    named += system(command) == 0;
    count++;
    symbolizer_free(answer.symbolizer);
  }
  (void)pclose(stubs);
  if (count == 0) skip();
  assert_int_equal(named, count);
}

/* The vDSO, which has no file. */
static void names_bytes_in_memory(void **state) {
  (void)state;
  const uint8_t *vdso = (const uint8_t *)getauxval(AT_SYSINFO_EHDR);
  if (!vdso) skip();
  size_t size = 0;
  const Elf64_Ehdr *header = (const Elf64_Ehdr *)vdso;
  size = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
  symbolizer_t *symbolizer = symbolizer_new(NULL);
  symbol_source_t source = {.path = "[vdso]", .bytes = vdso, .size = size};
  symbol_module_t *module = symbolizer_module(symbolizer, &source);
  uint64_t base;
  assert_true(symbol_link_base(module, &base));
  uint64_t wanted = 0; /* address of the exported clock_gettime as linked, from the symbol table */
  const Elf64_Shdr *sections = (const Elf64_Shdr *)(vdso + header->e_shoff);
  for (int i = 0; i < header->e_shnum; i++) {
    if (sections[i].sh_type != SHT_DYNSYM) continue;
    const Elf64_Sym *symbols = (const Elf64_Sym *)(vdso + sections[i].sh_offset);
    const char *names = (const char *)vdso + sections[sections[i].sh_link].sh_offset;
    for (size_t k = 0; k < sections[i].sh_size / sizeof *symbols; k++)
      if (strstr(names + symbols[k].st_name, "clock_gettime") && symbols[k].st_size)
        wanted = symbols[k].st_value;
  }
  assert_int_not_equal(wanted, 0);
  symbol_frame_t frame;
  symbol_reason_t reason;
  assert_int_equal(symbol_lookup(module, wanted + 1, &frame, 1, &reason), 1);
  assert_non_null(strstr(frame.function, "clock_gettime"));
  assert_int_equal(frame.function_offset, 1);
  symbolizer_free(symbolizer);
}

/* A program runs without section headers; some packers remove them. */
static void names_without_section_headers(void **state) {
  (void)state;
  char path[128];
  snprintf(path, sizeof path, "%s/sectionless", scratch);
  run("gcc -shared -fPIC -o '%s' -x c - <<'E'\nint exported(int x) { return x * 3; }\nE\n%s", path,
      "");
  uint64_t exported = address_of(path, "exported");
  FILE *file = fopen(path, "r+");
  assert_non_null(file);
  const char zeros[8] = {0};
  fseek(file, offsetof(Elf64_Ehdr, e_shoff), SEEK_SET);
  fwrite(zeros, 8, 1, file);
  fseek(file, offsetof(Elf64_Ehdr, e_shnum), SEEK_SET);
  fwrite(zeros, 4, 1, file); /* e_shnum and e_shstrndx */
  fclose(file);
  symbol_options_t options = {.no_index = true};
  answer_t answer = ask(path, exported + 1, &options, 0);
  assert_int_equal(answer.count, 1);
  assert_string_equal(answer.frames[0].function, "exported");
  symbolizer_free(answer.symbolizer);
}

static void bad_files_have_a_reason(void **state) {
  (void)state;
  symbol_options_t options = {.no_index = true};
  static const struct {
    const char *path;
    symbol_reason_t reason;
  } cases[] = {{"/nonexistent", SYMBOL_NO_FILE},
               {"/etc/passwd", SYMBOL_BAD_FILE},
               {"/tmp", SYMBOL_NO_FILE},
               {"/dev/zero", SYMBOL_NO_FILE}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    answer_t answer = ask(cases[i].path, 0x1000, &options, 0);
    assert_int_equal(answer.count, 0);
    assert_int_equal(answer.reason, cases[i].reason);
    symbolizer_free(answer.symbolizer);
  }
  answer_t answer = ask(SONDE_FIXTURES "/names", 0x7fffffff0000, &options, 0);
  assert_int_equal(answer.count, 0);
  assert_int_equal(answer.reason, SYMBOL_NOT_CODE);
  symbolizer_free(answer.symbolizer);
}

static void demangles(void **state) {
  (void)state;
  static const struct {
    const char *raw, *demangled;
  } cases[] = {
      {"_ZN3app4TreeIiE4rootEi", "app::Tree<int>::root(int)"},
      {"_ZNSt6vectorIiSaIiEE9push_backEOi",
       "std::vector<int, std::allocator<int> >::push_back(int&&)"},
      {"_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"},
      {"_ZN50_$LT$T$u20$as$u20$core..convert..From$LT$U$GT$$GT$4from17h0123456789abcdefE",
       "<T as core::convert::From<U>>::from"},
      {"_RNvCskwGfYPst2Cb_3foo3bar", "foo::bar"},
      {"_ZN3app4TreeIiE4rootEi@plt", "app::Tree<int>::root(int)@plt"},
      {"main", NULL},
      {"-[NSString length]", NULL},
      {"_start", NULL},
      {"_Z", NULL},
      {"_R", NULL},
  };
  char text[DEMANGLE_MAX];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    bool is_mangled = demangle(cases[i].raw, text, sizeof text);
    assert_int_equal(is_mangled, cases[i].demangled != NULL);
    if (is_mangled) assert_string_equal(text, cases[i].demangled);
  }
}

/* A name whose every argument contains the one before twice: 2^60 parts in the demangled form. */
static void demangling_is_bounded(void **state) {
  (void)state;
  char raw[1024] = "_Z1fI1aE", text[DEMANGLE_MAX];
  char *at = raw + strlen("_Z1f");
  at += sprintf(at, "1pI1aS0_E");
  for (int i = 0; i < 60; i++)
    at += sprintf(at, "1pIS%d_S%d_E", i + 1, i + 1);
  demangle(raw, text, sizeof text); /* only has to return */
  memset(raw, 'P', sizeof raw - 1);
  memcpy(raw, "_Z1f", 4);
  raw[sizeof raw - 1] = 0;
  assert_false(demangle(raw, text, sizeof text));
}

static int make_shm(void **state) {
  (void)state;
  return mkdtemp(scratch) ? 0 : -1;
}

static int remove_scratch(void **state) {
  (void)state;
  run("rm -rf '%s'%s", scratch, "");
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_every_form),
      cmocka_unit_test(names_only),
      cmocka_unit_test(finds_separate_debug_files),
      cmocka_unit_test(rejects_another_build),
      cmocka_unit_test(names_bytes_in_memory),
      cmocka_unit_test(names_without_section_headers),
      cmocka_unit_test(names_stubs),
      cmocka_unit_test(names_stubs_of_resolved_functions),
      cmocka_unit_test(bad_files_have_a_reason),
      cmocka_unit_test(demangles),
      cmocka_unit_test(demangling_is_bounded),
  };
  return cmocka_run_group_tests(tests, make_shm, remove_scratch);
}
