/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "recorder/life.h"

#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/array.h"

_Static_assert(SHM_OWNER_DIED == FUTEX_OWNER_DIED, "the bit that the kernel sets");

static struct robust_list_head list = {
    .list = {&list.list},
    .futex_offset = (long)offsetof(shm_life_t, owner) - (long)offsetof(shm_life_t, next),
};

/* The pages in the list. The program can write to the links, so they are never followed here. */
static ARRAY(shm_life_t *) pages;

/* Links all pages again. `next` is the kernel's struct robust_list. */
static void link_all(void) {
  struct robust_list *next = &list.list;
  for (size_t i = 0; i < pages.count; i++) {
    pages.items[i]->next = (uintptr_t)next;
    next = (struct robust_list *)(void *)&pages.items[i]->next;
  }
  list.list.next = next;
}

/* Without the call, which qemu's user mode lacks, the word stays 0: unknown. */
static bool is_registered(void) {
  static enum { NEW, REGISTERED, REFUSED } state;
  if (state == NEW)
    state = syscall(SYS_set_robust_list, &list, sizeof list) == 0 ? REGISTERED : REFUSED;
  return state == REGISTERED;
}

void life_begin(shm_control_t *control) {
  shm_life_t **place = is_registered() ? ARRAY_ADD(pages) : NULL;
  if (!place) return;
  *place = &control->life;
  store_release(&control->life.owner, (uint32_t)syscall(SYS_gettid));
  link_all();
}

void life_end(shm_control_t *control) {
  for (size_t i = 0; i < pages.count; i++) {
    if (pages.items[i] != &control->life) continue;
    pages.items[i] = pages.items[--pages.count];
    link_all();
    store_release(&control->life.owner, (uint32_t)FUTEX_OWNER_DIED);
    return;
  }
}
