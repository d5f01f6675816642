/* SPDX-License-Identifier: MIT
 *
 * Compiler hooks: what code compiled with -finstrument-functions calls, by gcc or clang, at the
 * start and end of each function, those inlined into others included.
 *
 * The stack pointer of the call of the hook tells which frame it is: the same at the start and the
 * end of a function, unless it used alloca. Where the hook stands tells apart what shares a frame.
 * An exit hook that is the last thing a function does is jumped to, and returns to the call site.
 * gcc calls the exit hook also when an exception leaves a function; clang does not.
 *
 * Weak, so that a program that has hooks of its own keeps them.
 */
#include "arch/symbol.h"
#include "sensor/trace/trace.h"

/* What is done while tracing is on, apart, so that there is next to nothing to do while it is off.
 * Both are jumped to: the return address and the stack pointer are those of the hook's call. */
static NOINLINE void entered(void *function, void *call_site, uint32_t generation) {
  trace_enter(generation, (uintptr_t)function, (uintptr_t)__builtin_dwarf_cfa(),
              (uintptr_t)call_site, (uintptr_t)__builtin_return_address(0));
}

static NOINLINE void left(void *function, void *call_site, uint32_t generation) {
  trace_exit(generation, (uintptr_t)function, (uintptr_t)__builtin_dwarf_cfa(),
             __builtin_return_address(0) == call_site);
}

__attribute__((used)) HIDDEN void trace_hook_enter(void *function, void *call_site) {
  uint32_t generation = trace_on();
  if (UNLIKELY(generation)) entered(function, call_site, generation);
}

__attribute__((used)) HIDDEN void trace_hook_exit(void *function, void *call_site) {
  uint32_t generation = trace_on();
  if (UNLIKELY(generation)) left(function, call_site, generation);
}

#if defined(__APPLE__) /* which has no aliases: a jump each */
#if defined(__aarch64__)
#define JUMP "b "
#else
#define JUMP "jmp "
#endif
#define EXPORT_AS(target, name)                                                                    \
  __asm__(".weak_definition _" #name "\n" FUNCTION_BEGIN(                                          \
      name) ".cfi_startproc\n\t" JUMP "_" #target "\n.cfi_endproc\n" FUNCTION_END(name))
EXPORT_AS(trace_hook_enter, __cyg_profile_func_enter);
EXPORT_AS(trace_hook_exit, __cyg_profile_func_exit);
#else
#define EXPORT_AS(name) __attribute__((visibility("default"), weak, alias(name)))

EXPORT_AS("trace_hook_enter") void __cyg_profile_func_enter(void *function, void *call_site);
EXPORT_AS("trace_hook_exit") void __cyg_profile_func_exit(void *function, void *call_site);
#endif
