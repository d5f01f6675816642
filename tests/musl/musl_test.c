/* SPDX-License-Identifier: MIT
 *
 * What of the inside depends on the C library, in a program of musl's, dynamic and static: images,
 * the loader's epoch, threads by handle, other threads' stacks. Plain C, since cmocka comes for the
 * system's own C library. usage: musl_test [library to load]
 *
 * musl's own code has no call frame information: a stack that goes through it is torn there and
 * must say so. What lies further in, in this program, must be exact.
 */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/linux/internal.h"
#include "os/os.h"
#include "sonde/thread.h"

static int failures;
#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                       \
      failures++;                                                                                  \
    }                                                                                              \
  } while (0)

/* ---- images --------------------------------------------------------------------------------- */

typedef struct seen {
  os_image_t images[64];
  int count;
} seen_t;

static bool collect(const os_image_t *image, void *context) {
  seen_t *seen = context;
  seen->images[seen->count++] = *image;
  return seen->count < 64;
}

static int check_image(struct dl_phdr_info *info, size_t size, void *context) {
  (void)size;
  const seen_t *seen = context;
  for (int i = 0; i < seen->count; i++)
    if (seen->images[i].phdr == (uintptr_t)info->dlpi_phdr) {
      os_image_t found = {0};
      CHECK(seen->images[i].slide == info->dlpi_addr);
      CHECK(os_image_of_pc(seen->images[i].start + 64, &found));
      CHECK(found.start == seen->images[i].start && found.end == seen->images[i].end);
      return 0;
    }
  printf("not listed: %s\n", info->dlpi_name);
  failures++;
  return 0;
}

static void check_images(void) {
  seen_t seen = {.count = 0};
  os_images(collect, &seen);
  dl_iterate_phdr(check_image, &seen);
}

static void check_loading(const char *path) {
  uint64_t before = os_loader_epoch();
  os_image_t image;
  CHECK(before != 0);
  CHECK(os_loader_epoch() == before);
  CHECK(dlopen("/nonexistent.so", RTLD_NOW) == NULL);
  CHECK(os_loader_epoch() == before);
  if (path == NULL) return;
  void *library = dlopen(path, RTLD_NOW);
  CHECK(library != NULL);
  if (library == NULL) return;
  CHECK(os_loader_epoch() != before);
  CHECK(os_image_of_pc((uintptr_t)dlsym(library, "loadable_number"), &image));
  check_images();
  uint64_t loaded = os_loader_epoch();
  dlclose(library); /* musl unloads nothing */
  CHECK(os_loader_epoch() == loaded);
}

/* ---- threads -------------------------------------------------------------------------------- */

typedef struct subject {
  volatile pid_t tid;
  volatile int ready, stop;
  int ends[2];
  bool spins;
} subject_t;
static volatile int sink;

#define NOINLINE __attribute__((noinline, noclone))

NOINLINE static void innermost(subject_t *s) {
  char c;
  s->ready = 1;
  if (!s->spins) sink += (int)read(s->ends[0], &c, 1);
  while (s->spins && !s->stop)
    sink++;
  sink++;
}
NOINLINE static void middle(subject_t *s) {
  innermost(s);
  sink++;
}
NOINLINE static void *outermost(void *argument) {
  subject_t *s = argument;
  s->tid = (pid_t)syscall(SYS_gettid);
  middle(s);
  sink++;
  return NULL;
}

static bool lies_in(uintptr_t pc, const void *function) {
  return pc >= (uintptr_t)function && pc < (uintptr_t)function + 256;
}

static bool shows_chain(const sonde_capture_t *c) {
  for (int i = 0; i + 1 < c->count; i++)
    if (lies_in(c->pcs[i], (const void *)middle) && lies_in(c->pcs[i + 1], (const void *)outermost))
      return true;
  return false;
}

static const sonde_thread_options_t patiently = {.timeout_ns = UINT64_C(3600) * 1000000000};

static void check_thread(bool spins, bool is_static) {
  subject_t s = {.spins = spins};
  pthread_t thread;
  uintptr_t pcs[32];
  if (pipe(s.ends) != 0 || pthread_create(&thread, NULL, outermost, &s) != 0) abort();
  while (!s.ready)
    usleep(1000);
  for (sonde_thread_t t = {0}; !spins && t.state != 'S';)
    CHECK(sonde_thread(s.tid, &t) == 0);
  pid_t by_handle = sonde_thread_of_pthread(thread);
  CHECK(by_handle == (is_static ? SONDE_EUNSUPPORTED : s.tid));
  for (int i = 0; i < 100; i++) {
    sonde_capture_t c = {.pcs = pcs, .max = 32};
    int n = sonde_capture_thread(s.tid, &c, &patiently);
    CHECK(n > 0);
    CHECK(!!(c.flags & SONDE_FLAG_SIGNALED) == spins);
    if (spins) CHECK(lies_in(pcs[0], (const void *)innermost) && shows_chain(&c));
    /* A system call is entered through code of musl's that has no call frame information. */
    if (c.status == SONDE_STACK_COMPLETE) CHECK(shows_chain(&c));
    if (c.status == SONDE_STACK_BROKEN) CHECK(c.reason != 0);
  }
  s.stop = 1;
  (void)!write(s.ends[1], "x", 1);
  pthread_join(thread, NULL);
  close(s.ends[0]);
  close(s.ends[1]);
}

int main(int argc, char **argv) {
  const char *library = argc > 1 ? argv[1] : NULL;
  bool is_static = library == NULL;
  sonde_thread_t threads[4];
  check_images();
  linux_read_by_probe = true;
  check_images();
  linux_read_by_probe = false;
  check_loading(library);
  CHECK(sonde_threads(threads, 4) == 1);
  CHECK(threads[0].tid == getpid() && threads[0].tid == sonde_main_thread());
  CHECK(is_static || sonde_thread_of_pthread(pthread_self()) == getpid());
  check_thread(false, is_static);
  check_thread(true, is_static);
  printf("%s: %s\n", is_static ? "static" : "dynamic", failures ? "failed" : "all as expected");
  return failures != 0;
}
