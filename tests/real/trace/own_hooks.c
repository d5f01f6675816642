/* SPDX-License-Identifier: MIT
 *
 * A program with hooks of its own, which says what they see: own_hooks [LIBRARY]. Compiled with
 * -DEARLY it is a library that sets one in its constructor, with -DLATE one that is loaded later.
 * Nothing it prints may depend on who else has hooks in the process.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sonde/sonde.h"

typedef pid_t getppid_t(void);
typedef long strtol_t(const char *, char **, int);

static inline sonde_hook_t *hook(const char *symbol, void *replacement, void *original) {
  sonde_hook_t *h = NULL;
  sonde_hook_request_t r = {
      .symbol = symbol, .replacement = replacement, .original = (void **)original};
  return sonde_hook_add(&r, 1, &h) == SONDE_OK ? h : NULL;
}

#if defined(EARLY) /* ---- a library with a hook before main ------------------------------------  \
                    */

int early_calls;
static getppid_t *early_original;
static sonde_hook_t *early;

static pid_t early_getppid(void) {
  early_calls++;
  return early_original();
}

__attribute__((constructor)) static void set_early(void) {
  early = hook("getppid", (void *)(uintptr_t)early_getppid, &early_original);
}

int early_remove(void) { return sonde_hook_remove(early); }

#elif defined(LATE) /* ---- a library that is loaded later --------------------------------------  \
                     */

int late_early; /* what its constructor saw */

long late_number(void) { return strtol("100", NULL, 10); }
__attribute__((constructor)) static void begin(void) { late_early = (int)late_number(); }

#else /* ---- the program -----------------------------------------------------------------------  \
       */

#ifdef WITH_EARLY
extern int early_calls;
int early_remove(void);
#else
static int early_calls;
static int early_remove(void) { return 0; }
#endif

static int calls[2]; /* of the hooks below */
static getppid_t *parent_original[2];
static strtol_t *number_original;

static pid_t parent_0(void) {
  calls[0]++;
  return parent_original[0]();
}
static pid_t parent_1(void) {
  calls[1]++;
  return parent_original[1]();
}
static long number(const char *text, char **end, int base) {
  return number_original(text, end, base) + 1000;
}

static getppid_t *the_function; /* not by a slot */

/* ---- the program's own slots, which -z now puts into its RELRO ---------------------------------
 */

static unsigned char before[1 << 16];
static size_t slots_size;
static const unsigned char *slots;

static int find_slots(struct dl_phdr_info *info, size_t size, void *unused) {
  (void)size, (void)unused;
  for (int i = 0; i < info->dlpi_phnum; i++)
    if (info->dlpi_phdr[i].p_type == PT_GNU_RELRO) {
      slots = (const unsigned char *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
      slots_size = info->dlpi_phdr[i].p_memsz;
    }
  return 1; /* the first image is the program */
}

static void say_slots(const char *when) {
  printf("%s: the slots are %s\n", when,
         memcmp(before, slots, slots_size) == 0 ? "as before" : "changed");
}

/* ---- what is said -----------------------------------------------------------------------------
 */

static int states[16], of_getppid;

static int note(const sonde_slot_t *slot, void *context) {
  (void)context;
  if (slot->path[0] == 0) { /* of the program */
    states[slot->state]++;
    of_getppid += slot->old_value == (uintptr_t)the_function;
  }
  return 0;
}

static void say_reach(const char *name, const sonde_hook_t *h) {
  memset(states, 0, sizeof states);
  of_getppid = 0;
  (void)sonde_hook_reach(h, note, NULL);
  for (int i = 0; i < 8; i++)
    if (states[i])
      printf("%s: %d slots: %s\n", name, states[i], sonde_slot_state_text((sonde_slot_state_t)i));
  printf("%s: %d led to the function itself\n", name, of_getppid);
}

static void call(const char *when) {
  calls[0] = calls[1] = early_calls = 0;
  int right = getppid() == the_function();
  getppid_t *found = (getppid_t *)(uintptr_t)dlsym(RTLD_DEFAULT, "getppid");
  right &= found() == getppid();
  printf("%s: %d %d %d calls, %s\n", when, calls[0], calls[1], early_calls,
         right ? "right" : "wrong");
}

/* Hooks are set and taken away, the older one first or last. */
static void come_and_go(int older_first) {
  sonde_hook_t *h[2];
  h[0] = hook("getppid", (void *)(uintptr_t)parent_0, &parent_original[0]);
  call("one hook");
  say_reach("one hook", h[0]);
  h[1] = hook("getppid", (void *)(uintptr_t)parent_1, &parent_original[1]);
  call("two hooks");
  say_reach("two hooks, the older", h[0]);
  printf("removed: %d\n", sonde_hook_remove(h[!older_first]));
  call("one is left");
  printf("removed: %d\n", sonde_hook_remove(h[older_first]));
  call("none is left");
  say_slots("none is left");
}

static void load_late(const char *path) {
  sonde_hook_t *h = hook("strtol", (void *)(uintptr_t)number, &number_original);
  printf("late images: %s\n", sonde_strerror(sonde_hook_late()));
  for (int i = 0; i < 2; i++) {
    void *library = dlopen(path, RTLD_NOW);
    long (*late)(void) = (long (*)(void))(uintptr_t)dlsym(library, "late_number");
    printf("late library: %d, %ld\n", *(int *)dlsym(library, "late_early"), late());
    if (i == 1) printf("removed: %d\n", sonde_hook_remove(h));
    printf("late library: %ld\n", late());
    dlclose(library);
  }
  printf("number: %ld\n", strtol("7", NULL, 10));
}

int main(int argc, char **argv) {
  dl_iterate_phdr(find_slots, NULL);
  if (slots_size > sizeof before) return 2;
  memcpy(before, slots, slots_size);
  the_function = (getppid_t *)(uintptr_t)dlsym(RTLD_NEXT, "getppid");
  call("no hook in main");
  come_and_go(1);
  come_and_go(0);
  if (argc > 1) load_late(argv[1]);
  printf("early removed: %d\n", early_remove());
  call("at the end");
  sonde_hook_t *again = hook("getppid", (void *)(uintptr_t)parent_0, &parent_original[0]);
  call("set again");
  printf("removed: %d\n", sonde_hook_remove(again));
  return 0;
}
#endif
