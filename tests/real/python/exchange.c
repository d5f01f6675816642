/* SPDX-License-Identifier: MIT
 *
 * A library for ctypes that exchanges the content of its thread's stack, as greenlet does: on
 * another stack it overwrites the memory above its caller's stack pointer, allocates, and restores
 * the memory. Meanwhile the interpreter's state of the thread leads to words that mean nothing.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum { SAVED = 512, STACK = 65536 };

static ucontext_t outside, inside;
static uint64_t *content, saved[SAVED];
static void *volatile block;

static void exchange_content(void) {
  for (uint64_t round = 0; round < 4; round++) {
    memcpy(saved, content, sizeof saved);
    for (size_t i = 0; i < SAVED; i++)
      content[i] = round == 0 ? UINT64_C(0x4849434c4f4e0001) * (i + 1) : round - 1 + 8 * i;
    block = malloc(100 + round);
    free(block);
    memcpy(content, saved, sizeof saved);
  }
}

/* The content begins above this function's frame. It has the frames of ctypes and of the innermost
 * call of the evaluator. */
void exchange(void) {
  static char stack[STACK];
  getcontext(&inside);
  inside.uc_stack.ss_sp = stack;
  inside.uc_stack.ss_size = sizeof stack;
  inside.uc_link = &outside;
  makecontext(&inside, exchange_content, 0);
  content = (uint64_t *)__builtin_frame_address(0) + 2;
  swapcontext(&outside, &inside);
}
