/* SPDX-License-Identifier: MIT
 *
 * The processor's trap flag, which raises SIGTRAP after each instruction (Intel SDM, volume 3,
 * "Single-Step Exception Condition").
 */
#pragma once
#include <stdint.h>

#include "oracle.h"

#define TRAP_FLAG 0x100

/* The following code moves the stack pointer, so the function must have a frame pointer. */
#define HAS_FRAME_POINTER() *(volatile char *)__builtin_alloca(16 + (size_t)zero) = 0

static ALWAYS_INLINE void trace_on(uint64_t flag) {
  __asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\torq %0, (%%rsp)\n\tpopfq\n\t"
                   "lea 128(%%rsp), %%rsp"
                   :
                   : "r"(flag)
                   : "memory", "cc");
}
static ALWAYS_INLINE void trace_off(void) {
  __asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq\n\t"
                   "lea 128(%%rsp), %%rsp"
                   :
                   :
                   : "memory", "cc");
}
