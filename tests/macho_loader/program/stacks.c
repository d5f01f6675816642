/* SPDX-License-Identifier: MIT
 *
 * The calling thread's stack, its id, its text.
 */
#include <string.h>

#include "check.h"
#include "sonde/image.h"
#include "sonde/name.h"
#include "sonde/stack.h"

static sonde_capture_t capture;
static uintptr_t pcs[64];
static uint32_t id_one, id_two;

/* Locals in every frame, so that sp and fp differ. */
__attribute__((noinline)) static int own_inner(volatile int *deep) {
  volatile int local[4] = {*deep, 2, 3, 4};
  capture = (sonde_capture_t){.pcs = pcs, .max = 64};
  int count = sonde_capture(&capture);
  return count + local[1] - 2;
}

__attribute__((noinline)) static int own_middle(int deep) {
  volatile int local[8] = {deep};
  return own_inner(local) + local[7];
}

__attribute__((noinline)) static int own_outer(int deep) {
  volatile int local[16] = {deep};
  int count = own_middle(local[0]);
  return count + local[15];
}

__attribute__((noinline)) static void take_id(uint32_t *id) {
  volatile int local[4] = {1};
  (void)sonde_stack_id(id);
  local[1] = local[0];
}

static void check_text(uint32_t id) {
  static char text[4096];
  int length = sonde_stack_text(id, 0, text, sizeof text);
  check(length > 0 && strstr(text, "take_id+0x") && strstr(text, "main+0x") &&
            strstr(text, "/stacks.c") == NULL,
        "the text of a stack names its functions");
}

__attribute__((noinline)) static void check_ids(void) {
  uint32_t again = 0;
  for (int i = 0; i < 2; i++)
    take_id(i ? &again : &id_one);
  take_id(&id_two);
  check(id_one && id_one == again, "equal stacks have one id");
  check(id_two && id_two != id_one, "different stacks have different ids");
  static const char *const chain[] = {"take_id", "check_ids", "check_stacks", "main", NULL};
  int count = sonde_stack_of_id(id_one, pcs, 64);
  check(count > 4 && has_chain(pcs, count, chain), "the frames of an id");
  check_text(id_one);
}

static void check_guard(void) {
  sonde_capture_t bad = {.pcs = pcs, .max = 64, .pc = 4096, .sp = 64, .fp = 128};
  check(sonde_capture(&bad) >= 0 && bad.status != SONDE_STACK_COMPLETE,
        "a stack that is not there is marked, and nothing crashes");
}

void check_stacks(void) {
  static const char *const chain[] = {"own_inner",    "own_middle", "own_outer",
                                      "check_stacks", "main",       NULL};
  int count = own_outer(0);
  check(count > 5 && has_chain(pcs, count, chain), "the own stack by name");
  check(capture.status == SONDE_STACK_COMPLETE, "the own stack is complete");
  sonde_name_t name;
  check(sonde_name(pcs[0], 0, &name) == 0 && name.image && strstr(name.image, "subject"),
        "the image of a frame");
  check(name.known == SONDE_KNOWN_ALL, "its symbol table is found");
  check_ids();
  check_guard();
}
