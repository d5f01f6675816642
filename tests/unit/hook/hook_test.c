/* SPDX-License-Identifier: MIT
 *
 * Hooks on a library of our own, called through every kind of slot that linkers make. What is
 * expected follows from the fixtures (tests/fixtures/hooked.c, caller.c); the slots' bytes and the
 * page protections are compared with what they were before.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "os/os.h"
#include "skip.h"
#include "sonde/hook.h"

typedef int call_t(int);

static const char *const forms[] = {"lazy", "now", "noplt", "sysv", "gnu"};
#define FORMS ((int)(sizeof forms / sizeof *forms))

typedef struct caller {
  void *handle;
  call_t *plain, *versioned, *indirect, *within, *table;
  call_t *(*take)(void);
} caller_t;

static caller_t callers[sizeof forms / sizeof *forms], old_caller;

static void open_caller(caller_t *c, const char *form) {
  char path[512];
  snprintf(path, sizeof path, SONDE_FIXTURES "/libcaller-%s.so", form);
  c->handle = dlopen(path, RTLD_LAZY);
  if (!c->handle) fail_msg("%s", dlerror());
  *(void **)&c->plain = dlsym(c->handle, "call_plain");
  *(void **)&c->versioned = dlsym(c->handle, "call_versioned");
  *(void **)&c->indirect = dlsym(c->handle, "call_indirect");
  *(void **)&c->within = dlsym(c->handle, "call_within");
  *(void **)&c->table = dlsym(c->handle, "call_table");
  *(void **)&c->take = dlsym(c->handle, "take_plain");
}

/* ---- hooks ---------------------------------------------------------------------------------- */

static call_t *go_on[4];
static int a(int x) { return go_on[0](x) + 1000; }
static int b(int x) { return go_on[1](x) + 20000; }
static int c(int x) { return go_on[2](x) + 300000; }
static call_t *const replacements[] = {a, b, c};

static sonde_hook_t *hook(int n, const char *symbol, const char *version) {
  sonde_hook_t *h = NULL;
  sonde_hook_request_t r = {.symbol = symbol,
                            .version = version,
                            .replacement = (void *)(uintptr_t)replacements[n],
                            .original = (void **)(void *)&go_on[n]};
  assert_int_equal(sonde_hook_add(&r, 1, &h), SONDE_OK);
  assert_non_null(h);
  return h;
}

/* ---- the state of the process --------------------------------------------------------------- */

typedef struct snapshot {
  int count;
  uintptr_t address[256], value[256];
  char maps[1 << 17];
  size_t maps_size;
} snapshot_t;

static snapshot_t before, after;

static int note(const sonde_slot_t *slot, void *context) {
  snapshot_t *s = context;
  if (slot->kind == SONDE_SLOT_NONE) return 0;
  s->address[s->count] = slot->address;
  s->value[s->count++] = slot->old_value;
  return 0;
}

/* Addresses and protections of what a library is mapped from; the heap and the rest may grow. */
static void read_maps(snapshot_t *s) {
  FILE *f = fopen("/proc/self/maps", "r");
  char line[1024];
  s->maps_size = 0;
  while (f && fgets(line, sizeof line, f))
    if (strstr(line, ".so")) {
      size_t n = strlen(line);
      assert_true(s->maps_size + n < sizeof s->maps);
      memcpy(s->maps + s->maps_size, line, n + 1);
      s->maps_size += n;
    }
  if (f) fclose(f);
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void every_kind_of_slot(void **state) {
  (void)state;
  read_maps(&before);
  for (int i = 0; i < FORMS; i++)
    assert_int_equal(callers[i].indirect(1), 62); /* half the lazy ones are bound, half are not */
  sonde_hook_t *plain = hook(0, "callee_plain", NULL), *indirect = hook(1, "callee_indirect", NULL);
  for (int i = 0; i < FORMS; i++) {
    print_message("caller-%s\n", forms[i]);
    assert_int_equal(callers[i].plain(1), 2 * 1002);
    assert_int_equal(callers[i].table(1), 4 * 1002);
    assert_int_equal(callers[i].take()(1), 1002);
    assert_int_equal(callers[i].indirect(1), 2 * 20031);
    assert_int_equal(callers[i].within(1), 2 * 1102); /* the library's own call has a slot */
  }
  assert_int_equal(go_on[0](1), 2);
  assert_int_equal(sonde_hook_remove(plain), SONDE_OK);
  assert_int_equal(sonde_hook_remove(indirect), SONDE_OK);
  for (int i = 0; i < FORMS; i++) {
    assert_int_equal(callers[i].plain(1), 4);
    assert_int_equal(callers[i].table(1), 8);
    assert_int_equal(callers[i].indirect(1), 62);
  }
  read_maps(&after);
  assert_string_equal(before.maps, after.maps);
}

static void versions(void **state) {
  (void)state;
  sonde_hook_t *h = hook(0, "callee_versioned", NULL);
  assert_int_equal(callers[1].versioned(1), 2 * 1021);
  assert_int_equal(old_caller.versioned(1), 2 * 11);
  assert_int_equal(sonde_hook_remove(h), SONDE_OK);
  h = hook(0, "callee_versioned", "V1");
  assert_int_equal(callers[0].versioned(1), 2 * 21); /* lazy: bound by this call */
  assert_int_equal(callers[1].versioned(1), 2 * 21);
  assert_int_equal(old_caller.versioned(1), 2 * 1011);
  sonde_hook_t *both = hook(1, "callee_versioned", "V2");
  assert_int_equal(callers[1].versioned(1), 2 * 20021);
  assert_int_equal(old_caller.versioned(1), 2 * 1011);
  assert_int_equal(sonde_hook_remove(h), SONDE_OK);
  assert_int_equal(sonde_hook_remove(both), SONDE_OK);
  sonde_hook_request_t r = {"callee_versioned",         "V3", (void *)(uintptr_t)a,
                            (void **)(void *)&go_on[0], NULL, NULL};
  assert_int_equal(sonde_hook_add(&r, 1, NULL), SONDE_ENOTFOUND);
}

static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

static void any_order(void **state) {
  (void)state;
  for (int o = 0; o < 6; o++) {
    const int weight[] = {1000, 20000, 300000};
    sonde_hook_t *hooks[3];
    int sum = 2;
    before.count = 0;
    for (int i = 0; i < 3; i++) {
      hooks[i] = hook(i, "callee_plain", NULL);
      if (i == 0) assert_true(sonde_hook_reach(hooks[0], note, &before) > 10);
      sum += weight[i];
      assert_int_equal(callers[i].plain(1), 2 * sum);
    }
    for (int i = 0; i < 3; i++) {
      int gone = orders[o][i];
      assert_int_equal(sonde_hook_remove(hooks[gone]), SONDE_OK);
      assert_int_equal(sonde_hook_remove(hooks[gone]), SONDE_ENOTFOUND);
      sum -= weight[gone];
      for (int f = 0; f < FORMS; f++)
        assert_int_equal(callers[f].plain(1), 2 * sum);
    }
    for (int i = 0; i < before.count; i++)
      assert_int_equal(*(uintptr_t *)before.address[i], before.value[i]);
  }
}

/* The same replacement, hooked twice, keeps where to go on in the same place. The second time it
 * must not get itself, whichever of the two goes first. */
static void the_same_pair_twice(void **state) {
  (void)state;
  for (int newest_first = 0; newest_first < 2; newest_first++) {
    before.count = 0;
    sonde_hook_t *hooks[2] = {hook(0, "callee_plain", NULL)};
    assert_true(sonde_hook_reach(hooks[0], note, &before) > 10);
    call_t *function_itself = go_on[0];
    hooks[1] = hook(0, "callee_plain", NULL);
    assert_ptr_equal(go_on[0], function_itself);
    assert_int_equal(callers[0].plain(1), 2 * 1002); /* once: there is one way to go on */
    assert_int_equal(sonde_hook_remove(hooks[newest_first]), SONDE_OK);
    assert_ptr_equal(go_on[0], function_itself);
    assert_int_equal(callers[0].plain(1), 2 * 1002); /* the other one is in force */
    assert_int_equal(sonde_hook_remove(hooks[!newest_first]), SONDE_OK);
    assert_int_equal(callers[0].plain(1), 4);
    for (int i = 0; i < before.count; i++)
      assert_int_equal(*(uintptr_t *)before.address[i], before.value[i]);
  }
}

static int wants_now(const char *path, void *context) {
  (void)context;
  return strstr(path, "caller-now") != NULL;
}

static void filters(void **state) {
  (void)state;
  sonde_hook_t *few = NULL;
  sonde_hook_request_t r = {"callee_plain", NULL, (void *)(uintptr_t)a, (void **)(void *)&go_on[0],
                            wants_now,      NULL};
  assert_int_equal(sonde_hook_add(&r, 1, &few), SONDE_OK);
  assert_int_equal(callers[1].plain(1), 2 * 1002);
  assert_int_equal(callers[2].plain(1), 2 * 2);
  sonde_hook_t *all = hook(1, "callee_plain", NULL);
  assert_int_equal(callers[1].plain(1), 2 * 21002);
  assert_int_equal(callers[2].plain(1), 2 * 20002);
  assert_int_equal(sonde_hook_remove(few), SONDE_OK);
  assert_int_equal(callers[1].plain(1), 2 * 20002);
  assert_int_equal(sonde_hook_remove(all), SONDE_OK);
  assert_int_equal(callers[1].plain(1), 2 * 2);
}

typedef struct tally {
  int states[8], kinds[4];
} tally_t;

static int count(const sonde_slot_t *slot, void *context) {
  tally_t *t = context;
  t->states[slot->state]++;
  t->kinds[slot->kind]++;
  if (slot->state == SONDE_SLOT_HOOKED)
    assert_int_equal(slot->new_value, *(uintptr_t *)slot->address);
  return 0;
}

static void foreign_patch_is_kept(void **state) {
  (void)state;
  uintptr_t *slot = dlsym(callers[0].handle, "pointer_plain"), was = *slot;
  sonde_hook_t *h = hook(0, "callee_plain", NULL);
  assert_int_equal(*slot, (uintptr_t)a);
  *slot = (uintptr_t)b;
  tally_t t = {{0}, {0}};
  assert_true(sonde_hook_reach(h, count, &t) > 0);
  assert_int_equal(t.states[SONDE_SLOT_FOREIGN], 1);
  assert_true(t.kinds[SONDE_SLOT_JUMP] > 0 && t.kinds[SONDE_SLOT_GLOB_DAT] > 0 &&
              t.kinds[SONDE_SLOT_DATA] >= 2 * FORMS);
  assert_int_equal(sonde_hook_remove(h), SONDE_OK);
  assert_int_equal(*slot, (uintptr_t)b);
  *slot = was;
}

/* The library that defines it has no slot for it: a call within could not be reached. */
static void what_is_out_of_reach_is_told(void **state) {
  (void)state;
  sonde_hook_t *h = hook(0, "callee_within", NULL);
  tally_t t = {{0}, {0}};
  assert_int_equal(sonde_hook_reach(h, count, &t),
                   FORMS + 1); /* each caller, and the one of the old version */
  assert_int_equal(t.states[SONDE_SLOT_WITHIN], 1);
  assert_int_equal(sonde_hook_remove(h), SONDE_OK);
}

static void bad_arguments(void **state) {
  (void)state;
  sonde_hook_request_t r[2] = {
      {"callee_plain", NULL, (void *)(uintptr_t)a, (void **)(void *)&go_on[0], NULL, NULL},
      {"no_such_function_anywhere", NULL, (void *)(uintptr_t)b, (void **)(void *)&go_on[1], NULL,
       NULL}};
  assert_int_equal(sonde_hook_add(r, 2, NULL), SONDE_ENOTFOUND);
  assert_int_equal(callers[0].plain(1), 4); /* all or none */
  r[1].replacement = NULL;
  assert_int_equal(sonde_hook_add(r, 2, NULL), SONDE_EINVAL);
  assert_int_equal(sonde_hook_add(NULL, 1, NULL), SONDE_EINVAL);
  assert_int_equal(sonde_hook_remove(NULL), SONDE_ENOTFOUND);
  assert_int_equal(sonde_hook_remove((sonde_hook_t *)(void *)r), SONDE_ENOTFOUND);
}

/* ---- threads -------------------------------------------------------------------------------- */

static int stop;

static void *keep_calling(void *context) {
  caller_t *mine = context;
  long calls = 0;
  for (; !__atomic_load_n(&stop, __ATOMIC_RELAXED); calls++) {
    /* A call that is under way while hooks change places may meet one of them again. */
    int added = mine->plain(1) / 2 - 2;
    if (added % 1000 != 0 || added < 0) return (void *)-1L;
  }
  return (void *)calls;
}

static void threads_call_meanwhile(void **state) {
  (void)state;
  pthread_t threads[8];
  stop = 0;
  sonde_hook_t *hooks[3] = {NULL};
  for (int i = 0; i < 3; i++) /* so that go_on leads somewhere from the start */
    assert_int_equal(sonde_hook_remove(hook(i, "callee_plain", NULL)), SONDE_OK);
  for (int i = 0; i < 8; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, keep_calling, &callers[i % FORMS]), 0);
  for (int round = 0; round < (is_emulated() ? 30 : 300); round++)
    for (int i = 0; i < 3; i++) {
      if (hooks[(i + round) % 3]) sonde_hook_remove(hooks[(i + round) % 3]);
      hooks[(i + round) % 3] = hook((i + round) % 3, "callee_plain", NULL);
      if (round % 7 == i) {
        assert_int_equal(sonde_hook_remove(hooks[i]), SONDE_OK);
        hooks[i] = NULL;
      }
    }
  __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
  long calls = 0;
  for (int i = 0; i < 8; i++) {
    void *result;
    assert_int_equal(pthread_join(threads[i], &result), 0);
    assert_true((long)result >= 0);
    calls += (long)result;
  }
  print_message("%ld calls\n", calls);
  for (int i = 0; i < 3; i++)
    if (hooks[i]) assert_int_equal(sonde_hook_remove(hooks[i]), SONDE_OK);
  assert_int_equal(callers[0].plain(1), 4);
}

/* ---- images loaded later -------------------------------------------------------------------- */

static int early_answer(void *handle) { return *(int *)dlsym(handle, "call_early"); }

static void late_images(void **state) {
  (void)state;
  uint8_t code[32];
  const void *told = (const void *)(uintptr_t)os_loader_breakpoint();
  memcpy(code, told, sizeof code);
  read_maps(&before);
  assert_int_equal(sonde_hook_late(), SONDE_EUNSUPPORTED); /* no hook, nothing in force */
  sonde_hook_t *h = hook(0, "callee_plain", NULL);
  bool by_itself = sonde_hook_late() == SONDE_OK;
  assert_true(by_itself);
  for (int round = 0; round < 20; round++) {
    caller_t late;
    open_caller(&late, round % 2 ? "late" : "noinit");
    if (by_itself)
      assert_int_equal(early_answer(late.handle), 1002);
    else
      assert_true(sonde_hook_refresh() > 0);
    assert_int_equal(late.plain(1), 2 * 1002);
    assert_int_equal(late.table(1), 4 * 1002);
    assert_int_equal(late.take()(1), 1002);
    assert_int_equal(dlclose(late.handle), 0);
  }
  assert_int_equal(sonde_hook_remove(h), SONDE_OK);
  read_maps(&after);
  if (!is_emulated()) assert_string_equal(before.maps, after.maps);
  assert_memory_equal(code, told, sizeof code); /* the loader's code is as it was */
}

#define MIXED_MAPS "a line of qemu-user's /proc/self/maps mixes two moments (docs/platforms.md)"

/* The pages of HANDLE that the loader has made read-only. */
typedef struct pages {
  const void *dynamic;
  uintptr_t start, end;
} pages_t;

static int find_relro(struct dl_phdr_info *info, size_t size, void *context) {
  pages_t *pages = context;
  (void)size;
  bool is_it = false;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    uintptr_t at = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) is_it = at == (uintptr_t)pages->dynamic;
    if (info->dlpi_phdr[i].p_type != PT_GNU_RELRO) continue;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    pages->start = at & -page;
    pages->end = (at + info->dlpi_phdr[i].p_memsz) & -page;
  }
  return is_it;
}

static void *protect_soon(void *context) {
  const pages_t *pages = context;
  usleep(1000);
  mprotect((void *)pages->start, pages->end - pages->start, PROT_READ);
  return NULL;
}

/* Slots that should be read-only and are not: the loader is about to protect them, in another
 * thread. They are left alone until it has, or for as long as our patience lasts. */
static void images_being_loaded(void **state) {
  (void)state;
  if (is_emulated()) SKIP_BECAUSE(MIXED_MAPS);
  struct link_map *map = callers[1].handle;
  pages_t pages = {map->l_ld, 0, 0};
  assert_int_equal(dl_iterate_phdr(find_relro, &pages), 1);
  for (int is_protected = 0; is_protected < 2; is_protected++) {
    pthread_t thread;
    assert_int_equal(mprotect((void *)pages.start, pages.end - pages.start, PROT_READ | PROT_WRITE),
                     0);
    uint64_t begin = os_monotonic_ns();
    if (is_protected) assert_int_equal(pthread_create(&thread, NULL, protect_soon, &pages), 0);
    sonde_hook_t *h = hook(0, "callee_plain", NULL);
    if (!is_protected) assert_true(os_monotonic_ns() - begin > 4000000);
    assert_int_equal(callers[1].plain(1), 2 * 1002);
    if (is_protected) assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(sonde_hook_remove(h), SONDE_OK);
    assert_int_equal(callers[1].plain(1), 4);
    mprotect((void *)pages.start, pages.end - pages.start, PROT_READ);
  }
}

static void *open_and_close(void *context) {
  (void)context;
  for (long i = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i++) {
    void *handle = dlopen(SONDE_FIXTURES "/libcaller-late.so", i % 2 ? RTLD_NOW : RTLD_LAZY);
    if (!handle) return (void *)-1L;
    call_t *plain;
    *(void **)&plain = dlsym(handle, "call_plain");
    if ((plain(1) / 2 - 2) % 1000 != 0) return (void *)-1L;
    dlclose(handle);
  }
  return NULL;
}

/* dlopen and dlclose in four threads, hooks that come and go in this one. */
static void races_with_dlclose(void **state) {
  (void)state;
  if (is_emulated()) SKIP_BECAUSE(MIXED_MAPS);
  pthread_t threads[4];
  stop = 0;
  for (int i = 0; i < 4; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, open_and_close, NULL), 0);
  for (int round = 0; round < 300; round++) {
    sonde_hook_t *h = hook(round % 3, "callee_plain", NULL);
    assert_true(sonde_hook_refresh() >= 0);
    assert_int_equal(sonde_hook_remove(h), SONDE_OK);
  }
  __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
  for (int i = 0; i < 4; i++) {
    void *result;
    assert_int_equal(pthread_join(threads[i], &result), 0);
    assert_null(result);
  }
}

static void dlsym_gives_the_hook(void **state) {
  (void)state;
  void *callee = dlopen(SONDE_FIXTURES "/libhooked.so", RTLD_NOW), *handle = callers[0].handle;
  uintptr_t plain = (uintptr_t)dlsym(callee, "callee_plain"),
            next = (uintptr_t)dlsym(RTLD_NEXT, "read");
  uintptr_t old = (uintptr_t)dlvsym(callee, "callee_versioned", "V1");
  sonde_hook_t *h = hook(0, "callee_plain", NULL), *v = hook(1, "callee_versioned", "V1");
  sonde_hook_t *r = hook(2, "read", NULL);
  assert_int_equal((uintptr_t)dlsym(handle, "callee_plain"), (uintptr_t)a);
  assert_int_equal((uintptr_t)dlvsym(callee, "callee_versioned", "V1"), (uintptr_t)b);
  assert_int_not_equal((uintptr_t)dlvsym(callee, "callee_versioned", "V2"), (uintptr_t)b);
  assert_int_equal((uintptr_t)dlsym(RTLD_DEFAULT, "read"), (uintptr_t)c);
  assert_int_equal((uintptr_t)dlsym(RTLD_NEXT, "read"), next); /* a wrapper asks: not the hook */
  assert_null(dlsym(handle, "no_such_function_anywhere"));
  assert_non_null(strstr(dlerror(), "no_such_function_anywhere"));
  assert_int_equal(sonde_hook_remove(h), SONDE_OK);
  assert_int_equal((uintptr_t)dlsym(handle, "callee_plain"), plain);
  assert_int_equal(sonde_hook_remove(r), SONDE_OK);
  assert_int_equal(sonde_hook_remove(v), SONDE_OK);
  assert_int_equal((uintptr_t)dlvsym(callee, "callee_versioned", "V1"), old);
  dlclose(callee);
}

/* Another namespace has its own copy of the function: left alone, and reported. */
static void other_namespaces(void **state) {
  (void)state;
  sonde_hook_t *h = hook(0, "callee_plain", NULL);
  void *handle = dlmopen(LM_ID_NEWLM, SONDE_FIXTURES "/libcaller-now.so", RTLD_NOW);
  assert_non_null(handle);
  call_t *plain;
  *(void **)&plain = dlsym(handle, "call_plain");
  assert_int_equal(plain(1), 4);
  tally_t t = {{0}, {0}};
  assert_true(sonde_hook_reach(h, count, &t) > 0);
  assert_true(t.states[SONDE_SLOT_ELSEWHERE] >= 3);
  dlclose(handle);
  assert_int_equal(sonde_hook_remove(h), SONDE_OK);
}

static int open_all(void **state) {
  (void)state;
  for (int i = 0; i < FORMS; i++)
    open_caller(&callers[i], forms[i]);
  open_caller(&old_caller, "old");
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_kind_of_slot),
      cmocka_unit_test(versions),
      cmocka_unit_test(any_order),
      cmocka_unit_test(the_same_pair_twice),
      cmocka_unit_test(filters),
      cmocka_unit_test(foreign_patch_is_kept),
      cmocka_unit_test(bad_arguments),
      cmocka_unit_test(what_is_out_of_reach_is_told),
      cmocka_unit_test(threads_call_meanwhile),
      cmocka_unit_test(late_images),
      cmocka_unit_test(images_being_loaded),
      cmocka_unit_test(races_with_dlclose),
      cmocka_unit_test(other_namespaces),
      cmocka_unit_test(dlsym_gives_the_hook),
  };
  return cmocka_run_group_tests(tests, open_all, NULL);
}
