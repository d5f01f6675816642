/* SPDX-License-Identifier: MIT
 *
 * os/: the images of the loader and its epoch, against dl_iterate_phdr, which may lock.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "os/linux/internal.h"
#include "os/os.h"
#include "skip.h"

#define LOADABLE1 SONDE_FIXTURES "/libloadable1.so"
#define LOADABLE2 SONDE_FIXTURES "/libloadable2.so"

/* ---- the images ----------------------------------------------------------------------------- */

typedef struct seen {
  os_image_t images[512];
  int count;
  int limit;
} seen_t;

static bool collect(const os_image_t *image, void *context) {
  seen_t *seen = context;
  seen->images[seen->count++] = *image;
  return seen->count < seen->limit;
}

static seen_t *all_images(void) {
  static seen_t seen;
  seen = (seen_t){.limit = 512};
  os_images(collect, &seen);
  return &seen;
}

static int check_image(struct dl_phdr_info *info, size_t size, void *context) {
  (void)size;
  const seen_t *seen = context;
  for (int i = 0; i < seen->count; i++) {
    const os_image_t *m = &seen->images[i];
    if (m->slide != info->dlpi_addr || m->phdr != (uintptr_t)info->dlpi_phdr) continue;
    assert_int_equal(m->phdr_count, info->dlpi_phnum);
    for (int p = 0; p < info->dlpi_phnum; p++) {
      const ElfW(Phdr) *h = &info->dlpi_phdr[p];
      if (h->p_type != PT_LOAD) continue;
      assert_in_range(info->dlpi_addr + h->p_vaddr, m->start, m->end - 1);
      assert_in_range(info->dlpi_addr + h->p_vaddr + h->p_memsz, m->start, m->end);
    }
    assert_memory_equal((const void *)(uintptr_t)m->header, ELFMAG, SELFMAG);
    if (m->path != NULL && m->path[0] != '\0' && info->dlpi_name[0] != '\0' &&
        m->header != getauxval(AT_SYSINFO_EHDR))
      assert_string_equal(m->path, info->dlpi_name);
    return 0;
  }
  print_error("not listed: %s\n", info->dlpi_name);
  return 1;
}

static int count_image(struct dl_phdr_info *info, size_t size, void *context) {
  (void)info;
  (void)size;
  ++*(int *)context;
  return 0;
}

/* On aarch64 segments are up to 64 KB apart; what lies between them belongs to nobody. */
static bool in_a_segment(const os_image_t *image, uint64_t pc) {
  const ElfW(Phdr) *h = (const void *)(uintptr_t)image->phdr;
  for (uint32_t i = 0; i < image->phdr_count; i++)
    if (h[i].p_type == PT_LOAD && pc - image->slide - h[i].p_vaddr < h[i].p_memsz) return true;
  return false;
}

static void check_images(void) {
  seen_t *seen = all_images();
  int count = 0;
  assert_int_equal(dl_iterate_phdr(check_image, seen), 0);
  dl_iterate_phdr(count_image, &count);
  if (getauxval(AT_SYSINFO_EHDR) != 0) {
    bool found = false;
    for (int i = 0; i < seen->count; i++)
      found |= seen->images[i].header == getauxval(AT_SYSINFO_EHDR);
    assert_true(found);
  }
  assert_in_range(seen->count, count, count + 1); /* the vDSO is not in every libc's answer */
  for (int i = 0; i < seen->count; i++) {
    const os_image_t *m = &seen->images[i];
    os_image_t found = {0};
    uint64_t pcs[] = {m->start, m->start + (m->end - m->start) / 2, m->end - 4096};
    for (int p = 0; p < 3; p++) {
      if (!in_a_segment(m, pcs[p])) continue;
      assert_true(os_image_of_pc(pcs[p], &found));
      assert_true(found.start == m->start && found.end == m->end && found.slide == m->slide &&
                  found.header == m->header && found.phdr == m->phdr &&
                  found.phdr_count == m->phdr_count);
    }
  }
  os_image_t none;
  int local;
  void *block = malloc(1);
  assert_false(os_image_of_pc((uintptr_t)&local, &none));
  assert_false(os_image_of_pc((uintptr_t)block, &none));
  free(block);
  assert_false(os_image_of_pc(0, &none));
  assert_false(os_image_of_pc(UINT64_MAX, &none));
}

static void images_are_those_of_the_loader(void **state) {
  (void)state;
  void *library = dlopen(LOADABLE1, RTLD_NOW);
  assert_non_null(library);
  check_images();
  linux_by_list = true;
  check_images();
  linux_by_list = false;
  linux_read_by_probe = true;
  check_images();
  linux_read_by_probe = false;
  linux_loader_still(true);
  check_images();
  linux_loader_still(false);
  dlclose(library);
  check_images();
}

/* The list is full of pointers to nothing: the probe finds them, and the process goes on. */
static void a_probed_read_ends_where_memory_ends(void **state) {
  (void)state;
  long page = sysconf(_SC_PAGESIZE);
  char *map =
      mmap(NULL, 2 * (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char out[16];
  assert_true(map != MAP_FAILED && munmap(map + page, (size_t)page) == 0);
  uint64_t end = (uintptr_t)map + (uint64_t)page;
  memset(map + page - 8, 7, 8);
  assert_int_equal(linux_read_probed(end - 8, out, sizeof out), 8);
  assert_int_equal(out[7], 7);
  assert_int_equal(linux_read_probed(end, out, sizeof out), -EFAULT);
  assert_int_equal(linux_read_probed(0, out, sizeof out), -EFAULT);
  munmap(map, (size_t)page);
}

static void a_visitor_may_stop(void **state) {
  (void)state;
  seen_t seen = {.limit = 2};
  os_images(collect, &seen);
  assert_int_equal(seen.count, 2);
}

static void the_program_comes_first(void **state) {
  (void)state;
  seen_t *seen = all_images();
  assert_in_range((uintptr_t)&the_program_comes_first, seen->images[0].start, seen->images[0].end);
}

/* ---- the epoch ------------------------------------------------------------------------------ */

static __thread uint64_t epoch_before;
static __thread int calls;
static __thread bool epoch_was_new, image_was_known;

static void called_by_library(const char *when, void *here) {
  os_image_t image;
  calls++;
  image_was_known = os_image_of_pc((uintptr_t)here, &image);
  if (strcmp(when, "loaded") == 0) epoch_was_new = os_loader_epoch() != epoch_before;
}

static bool has_epoch(void) {
  if (os_loader_epoch() != 0) return true;
  print_message("SKIP: no epoch is known with this loader\n");
  return false;
}

static void load_and_unload(const char *path) {
  epoch_before = os_loader_epoch();
  calls = 0;
  epoch_was_new = image_was_known = false;
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  assert_non_null(library);
  uint64_t loaded = os_loader_epoch();
  assert_true(loaded != epoch_before);
  assert_int_equal(calls, 1);
  assert_true(epoch_was_new);
  assert_true(image_was_known);
  dlclose(library);
#ifdef __GLIBC__
  assert_int_equal(calls, 2);
  assert_true(os_loader_epoch() != loaded);
  assert_true(os_loader_epoch() != epoch_before);
#endif
}

static void epoch_changes_with_every_load(void **state) {
  (void)state;
  if (!has_epoch()) return;
  uint64_t still = os_loader_epoch();
  for (int i = 0; i < 100; i++)
    assert_true(os_loader_epoch() == still);
  for (int i = 0; i < 50; i++)
    load_and_unload(i % 2 == 0 ? LOADABLE1 : LOADABLE2);
}

#ifdef __GLIBC__
static void epoch_changes_in_other_namespaces(void **state) {
  (void)state;
  if (!has_epoch()) return;
  for (int i = 0; i < 3; i++) {
    uint64_t before = os_loader_epoch();
    void *library = dlmopen(LM_ID_NEWLM, LOADABLE1, RTLD_NOW);
    if (library == NULL) {
      print_message("SKIP: dlmopen: %s\n", dlerror());
      return;
    }
    uint64_t loaded = os_loader_epoch();
    assert_true(loaded != before);
    os_image_t image;
    assert_true(os_image_of_pc((uintptr_t)dlsym(library, "loadable_number"), &image));
    seen_t *seen = all_images();
    bool listed = false;
    for (int n = 0; n < seen->count; n++)
      listed |= seen->images[n].start == image.start;
    assert_true(listed);
    dlclose(library);
    assert_true(os_loader_epoch() != loaded);
  }
}
#endif

static void *load_often(void *path) {
  for (int i = 0; i < 300; i++)
    load_and_unload(path);
  return NULL;
}

static void epoch_changes_with_two_threads(void **state) {
  (void)state;
  if (!has_epoch()) return;
#ifndef __GLIBC__
  return; /* a second dlopen in musl loads nothing */
#endif
  pthread_t threads[2];
  pthread_create(&threads[0], NULL, load_often, (void *)LOADABLE1);
  pthread_create(&threads[1], NULL, load_often, (void *)LOADABLE2);
  pthread_join(threads[0], NULL);
  pthread_join(threads[1], NULL);
}

/* While two threads load and unload, every listed image is real and every look-up bounded. */
static volatile bool stop_loading;
static void *load_until_stopped(void *path) {
  while (!stop_loading) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library != NULL) dlclose(library);
  }
  return NULL;
}

static void look_ups_while_images_come_and_go(void **state) {
  (void)state;
  if (is_emulated())
    SKIP_BECAUSE("without process_vm_readv, which qemu-user lacks, a read races with munmap");
  pthread_t threads[2];
  void *library = dlopen(LOADABLE1, RTLD_NOW);
  assert_non_null(library);
  uint64_t pc = (uintptr_t)dlsym(library, "loadable_number");
  dlclose(library);
  stop_loading = false;
  pthread_create(&threads[0], NULL, load_until_stopped, (void *)LOADABLE1);
  pthread_create(&threads[1], NULL, load_until_stopped, (void *)LOADABLE2);
  int found = 0;
  for (int i = 0; i < 20000; i++) {
    os_image_t image;
    linux_by_list = i % 4 == 0;
    if (os_image_of_pc(pc, &image)) {
      found++;
      assert_in_range(pc, image.start, image.end - 1);
    }
    assert_true(os_image_of_pc((uintptr_t)&look_ups_while_images_come_and_go, &image));
    if (i % 64 == 0) {
      seen_t seen = {.limit = 512};
      os_images(collect, &seen);
      assert_in_range(seen.count, 1, 511);
    }
  }
  linux_by_list = false;
  stop_loading = true;
  pthread_join(threads[0], NULL);
  pthread_join(threads[1], NULL);
  print_message("the coming and going library was found %d times of 20000\n", found);
}

static void a_child_knows_its_images(void **state) {
  (void)state;
  pid_t child = fork();
  if (child == 0) {
    os_image_t image;
    _exit(os_image_of_pc((uintptr_t)&a_child_knows_its_images, &image) ? 0 : 1);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

int main(void) {
  char text[32];
  snprintf(text, sizeof text, "%lx", (unsigned long)(uintptr_t)&called_by_library);
  setenv("LOADABLE_CALLS", text, 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_program_comes_first),
      cmocka_unit_test(a_visitor_may_stop),
      cmocka_unit_test(images_are_those_of_the_loader),
      cmocka_unit_test(a_probed_read_ends_where_memory_ends),
      cmocka_unit_test(epoch_changes_with_every_load),
#ifdef __GLIBC__
      cmocka_unit_test(epoch_changes_in_other_namespaces),
#endif
      cmocka_unit_test(epoch_changes_with_two_threads),
      cmocka_unit_test(look_ups_while_images_come_and_go),
      cmocka_unit_test(a_child_knows_its_images),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
