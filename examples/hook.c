/* SPDX-License-Identifier: MIT
 *
 * Calls of a function reach a replacement, in every library that is loaded, and then the function
 * again (sonde/hook.h).
 *
 *   cc hook.c -lsonde && ./a.out
 */
#include <stdio.h>
#include <stdlib.h>

#include <sonde/hook.h>

static char *(*next_getenv)(const char *name);

static char *my_getenv(const char *name) {
  printf("getenv(\"%s\")\n", name);
  return next_getenv(name);
}

static int print_slot(const sonde_slot_t *slot, void *count) {
  ++*(int *)count;
  if (slot->state != SONDE_SLOT_HOOKED)
    printf("  %s: %s\n", slot->path, sonde_slot_state_text(slot->state));
  return 0;
}

int main(void) {
  sonde_hook_t *hook;
  sonde_hook_request_t request = {
      .symbol = "getenv", .replacement = (void *)my_getenv, .original = (void **)&next_getenv};
  int status = sonde_hook_add(&request, 1, &hook);
  if (status < 0) {
    fprintf(stderr, "cannot hook: %s\n", sonde_strerror(status));
    return 2;
  }
  (void)!getenv("HOME");
  int slots = 0;
  printf("hooked: %s\n", sonde_hook_reach(hook, print_slot, &slots) > 0 ? "yes" : "no");
  sonde_hook_remove(hook);
  (void)!getenv("PATH"); /* not printed */
  return 0;
}
