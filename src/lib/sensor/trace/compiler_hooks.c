/* SPDX-License-Identifier: MIT
 *
 * The compiler hooks: code compiled with -finstrument-functions, by gcc or clang, calls them at the
 * start and end of each function, including functions inlined into others.
 *
 * The stack pointer at the hook's call identifies the frame: it is equal at start and end of a
 * function, unless the function uses alloca. The address of the hook's call distinguishes functions
 * that share a frame. An exit hook may be called by a tail call; it then returns to the call site.
 * gcc also calls the exit hook when an exception leaves a function; clang does not.
 *
 * The hooks are weak, so a program that defines its own keeps them.
 */
#include "arch/symbol.h"
#include "sensor/trace/trace.h"

/* The part that runs while tracing is on is separate, so that tracing that is off costs little.
 * Both functions are tail-called: return address and stack pointer are those of the hook's call. */
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

#if defined(__APPLE__) /* it has no aliases: a jump each */
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
