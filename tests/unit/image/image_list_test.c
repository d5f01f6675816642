/* SPDX-License-Identifier: MIT
 *
 * The list of images: what the loader has, and what an id means through dlopen and dlclose.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "image/list.h"
#include "image/path.h"
#include "os/os.h"

/* ---- against the loader's own answer -------------------------------------------------------- */

typedef struct seen {
  int images, program, vdso, system;
} seen_t;

static bool count_one(image_entry_t *entry, void *context) {
  seen_t *seen = context;
  seen->images++;
  seen->program += entry->is_program;
  seen->vdso += entry->is_vdso;
  seen->system += entry->is_system;
  assert_ptr_equal(image_entry(entry->id), entry);
  assert_ptr_equal(image_by_id(entry->id), &entry->image);
  assert_true(image_check(entry->id));
  return true;
}

static int compare_one(struct dl_phdr_info *info, size_t size, void *context) {
  (void)size;
  int *images = context;
  ++*images;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    if (p->p_type != PT_LOAD || !(p->p_flags & PF_X)) continue;
    const image_t *image = image_by_id(image_id_of_pc(info->dlpi_addr + p->p_vaddr));
    assert_non_null(image);
    assert_int_equal(image->slide, info->dlpi_addr);
  }
  return 0;
}

static void test_lists_what_the_loader_lists(void **state) {
  (void)state;
  seen_t seen = {0};
  int images = 0;
  image_list_each(count_one, &seen);
  dl_iterate_phdr(compare_one, &images);
  assert_int_equal(seen.images, images);
  assert_int_equal(seen.program, 1);
  assert_true(seen.system >= 2);
}

static void test_names_the_program(void **state) {
  (void)state;
  char exe[4096] = {0};
  assert_true(readlink("/proc/self/exe", exe, sizeof exe - 1) > 0);
  const image_entry_t *entry = image_entry(image_id_of_pc((uintptr_t)test_names_the_program));
  assert_non_null(entry);
  assert_true(entry->is_program);
  assert_false(entry->is_system);
  assert_string_equal(entry->path, exe);
}

static void test_no_image_holds_it(void **state) {
  (void)state;
  int local;
  void *heap = malloc(16);
  assert_int_equal(image_id_of_pc(0), 0);
  assert_int_equal(image_id_of_pc((uintptr_t)&local), 0);
  assert_int_equal(image_id_of_pc((uintptr_t)heap), 0);
  assert_int_equal(image_id_of_pc(UINT64_MAX), 0);
  assert_null(image_by_id(0));
  assert_null(image_by_id(IMAGE_ID_MAX));
  assert_false(image_check(0));
  free(heap);
}

/* ---- reloads -------------------------------------------------------------------------------- */

/* Builds DIR/NAME.so, whose which() returns NUMBER; both have the same layout. */
static void build_library(const char *dir, const char *name, int number, const char *options) {
  char command[1024];
  snprintf(command, sizeof command,
           "printf 'int which(void){return %d;}' | " SONDE_CC
           " -shared -fPIC -O1 %s -x c - -o %s/%s.so",
           number, options, dir, name);
  assert_int_equal(system(command), 0);
}

static image_id_t load(const char *dir, const char *name, void **handle, uint64_t *pc) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s.so", dir, name);
  *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  assert_non_null(*handle);
  *pc = (uintptr_t)dlsym(*handle, "which");
  return image_id_of_pc(*pc);
}

/* Two builds in turn, at one address: each keeps its own id, and neither has the other's. */
static void reload_in_turn(const char *options) {
  char dir[] = "/tmp/sonde-image-list-XXXXXX", command[600];
  assert_non_null(mkdtemp(dir));
  build_library(dir, "one", 1, options);
  build_library(dir, "two", 2, options);
  image_id_t ids[2] = {0};
  uint64_t pcs[2] = {0};
  int same_address = 0;
  for (int round = 0; round < 8; round++) {
    int k = round & 1;
    void *handle;
    uint64_t pc;
    image_id_t id = load(dir, k ? "two" : "one", &handle, &pc);
    assert_int_not_equal(id, 0);
    if (ids[k] && pcs[k] == pc) assert_int_equal(id, ids[k]);
    assert_int_not_equal(id, ids[!k]);
    if (ids[!k]) {
      same_address += pcs[!k] == pc;
      assert_false(image_check(ids[!k]));
    }
    ids[k] = id;
    pcs[k] = pc;
    assert_true(image_check(id));
    dlclose(handle);
    assert_false(image_check(id));
    assert_int_equal(image_id_of_pc(pc), 0);
  }
  print_message("%d of 7 reloads were at the other build's address\n", same_address);
  snprintf(command, sizeof command, "rm -r %s", dir);
  assert_int_equal(system(command), 0);
}

static void test_reloads_by_build_id(void **state) {
  (void)state;
  reload_in_turn("-Wl,--build-id=sha1");
}

static void test_reloads_without_build_id(void **state) {
  (void)state;
  reload_in_turn("-Wl,--build-id=none");
}

/* ---- paths ---------------------------------------------------------------------------------- */

static void test_system_by_name(void **state) {
  (void)state;
  static const char *const system[] = {"/lib/x86_64-linux-gnu/libc.so.6",
                                       "/lib/libc-2.31.so",
                                       "/lib64/ld-linux-x86-64.so.2",
                                       "/lib/ld-musl-x86_64.so.1",
                                       "linux-vdso.so.1",
                                       "/usr/lib/libstdc++.so.6.0.30",
                                       "/opt/app/libgcc_s.so.1",
                                       "libnss_files.so.2",
                                       "/usr/lib/llvm-14/lib/libc++.so.1",
                                       "/a/libclang_rt.asan-x86_64.so",
                                       "/usr/lib/libsonde.so",
                                       "/usr/lib/libsonde-agent.so",
                                       "/usr/lib/libsonde-attached.so",
                                       "/usr/lib/libsonde-dormant.so"};
  static const char *const library[] = {"/usr/lib/libcrypto.so.3",
                                        "/usr/lib/libcurl.so.4",
                                        "/lib/libcap.so.2",
                                        "/lib/libmagic.so.1",
                                        "/x/libc.so-not/app",
                                        "/x/libcso",
                                        "libz.so.1",
                                        "/usr/lib/libpython3.11.so.1.0",
                                        "/bin/sh",
                                        "/x/libc-client.so.2007",
                                        "/x/libm-x.so",
                                        ""};
  for (unsigned i = 0; i < sizeof system / sizeof *system; i++)
    if (!path_is_system(system[i], NULL)) fail_msg("%s is system", system[i]);
  for (unsigned i = 0; i < sizeof library / sizeof *library; i++)
    if (path_is_system(library[i], NULL)) fail_msg("%s is not system", library[i]);
}

static void test_system_of_apple(void **state) {
  (void)state;
#define RUNTIME                                                                                    \
  "/Library/Developer/CoreSimulator/Volumes/iOS_21A/Library/Developer/CoreSimulator/Profiles/"     \
  "Runtimes/iOS 17.0.simruntime/Contents/Resources/RuntimeRoot"
#define XCODE "/Applications/Xcode.app/Contents/Developer"
  static const char device[] = "/private/var/containers/Bundle/Application/A1/Shop.app/Shop",
                    extension[] = "/Applications/Shop.app/PlugIns/Widget.appex/Widget",
                    tool[] = "/Users/me/bin/tool", test[] = XCODE "/usr/bin/xctest";
  static const struct {
    const char *path, *exe;
    bool is_system;
  } cases[] = {
      {"/System/Library/Frameworks/UIKit.framework/UIKit", device, true},
      {"/usr/lib/libobjc.A.dylib", tool, true},
      {"/private/preboot/Cryptexes/OS/usr/lib/libobjc.A.dylib", tool, true},
      {RUNTIME "/System/Library/Frameworks/UIKit.framework/UIKit", NULL, true},
      {RUNTIME "/usr/lib/libSystem.B.dylib", tool, true},
      {"/Developer/Library/PrivateFrameworks/DTDDISupport.framework/x.dylib", tool, true},
      {XCODE "/Platforms/MacOSX.platform/Developer/Library/Frameworks/XCTest.framework/XCTest",
       test, true},
      {"/Users/me/Tests.xctest/Contents/MacOS/Tests", test, false},
      {"/private/var/containers/Bundle/Application/A1/Shop.app/Frameworks/Cart.framework/Cart",
       device, false},
      {"/private/var/containers/Bundle/Application/A1/Shop.app/Frameworks/libswiftCore.dylib",
       device, true},
      {"/private/var/containers/Bundle/Application/A2/Shop.app/Shop", device, true},
      {"/usr/local/lib/tweak.dylib", device, true},
      {"/Applications/Shop.app/Contents/Frameworks/Cart.framework/Cart", extension, false},
      {"/opt/homebrew/lib/libz.dylib", tool, false},
      {"/opt/homebrew/lib/libz.dylib", NULL, false},
      {"/usr/lib/libcurl.so.4", "/srv/x.app/bin/server", false}}; /* not an app of Apple's */
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
    if (path_is_system(cases[i].path, cases[i].exe) != cases[i].is_system)
      fail_msg("%s of %s", cases[i].path, cases[i].exe ? cases[i].exe : "an unknown program");
}

static void test_path_of_mapping(void **state) {
  (void)state;
  char exe[4096] = {0};
  int local;
  assert_true(readlink("/proc/self/exe", exe, sizeof exe - 1) > 0);
  assert_string_equal(path_of_mapping((uintptr_t)test_path_of_mapping), exe);
  assert_null(path_of_mapping((uintptr_t)&local));
  assert_null(path_of_mapping(1));
}

/* A library opened by a path that is relative, and one from memory alone. */
static void test_paths_the_loader_does_not_know(void **state) {
  (void)state;
  char dir[] = "/tmp/sonde-image-list-XXXXXX", cwd[4096], path[600], command[700];
  void *handle;
  assert_non_null(mkdtemp(dir));
  assert_non_null(getcwd(cwd, sizeof cwd));
  build_library(dir, "here", 3, "");
  assert_int_equal(chdir(dir), 0);
  handle = dlopen("./here.so", RTLD_NOW);
  assert_non_null(handle);
  const image_entry_t *entry = image_entry(image_id_of_pc((uintptr_t)dlsym(handle, "which")));
  snprintf(path, sizeof path, "%s/here.so", dir);
  assert_string_equal(entry->path, path);
  dlclose(handle);
  assert_int_equal(chdir(cwd), 0);

  int fd = memfd_create("sonde test", 0);
  build_library(dir, "here", 4, ""); /* the same build would be the image of the other path again */
  snprintf(command, sizeof command, "cat %s/here.so > /proc/%d/fd/%d", dir, getpid(), fd);
  assert_int_equal(system(command), 0);
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  handle = dlopen(path, RTLD_NOW);
  assert_non_null(handle);
  entry = image_entry(image_id_of_pc((uintptr_t)dlsym(handle, "which")));
  assert_string_equal(entry->path, "/memfd:sonde test");
  dlclose(handle);
  close(fd);
  snprintf(command, sizeof command, "rm -r %s", dir);
  assert_int_equal(system(command), 0);
}

static int start(void **state) {
  (void)state;
  os_loader_init();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lists_what_the_loader_lists),
      cmocka_unit_test(test_names_the_program),
      cmocka_unit_test(test_no_image_holds_it),
      cmocka_unit_test(test_reloads_by_build_id),
      cmocka_unit_test(test_reloads_without_build_id),
      cmocka_unit_test(test_system_by_name),
      cmocka_unit_test(test_system_of_apple),
      cmocka_unit_test(test_path_of_mapping),
      cmocka_unit_test(test_paths_the_loader_does_not_know),
  };
  return cmocka_run_group_tests(tests, start, NULL);
}
