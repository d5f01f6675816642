/* SPDX-License-Identifier: MIT
 *
 * Functions that a trampoline cannot wrap, by name.
 */
#include "base/bits.h"
#include "base/glob.h"
#include "sensor/trace/imports.h"

#include "sensor/audit/policy.h"

/* They do not follow the psABI's calling convention, are called by the compiler's rules or by the
 * kernel, or belong to sonde. */
static const char *const never[] = {
    "__tls_get_addr",
    "___tls_get_addr",
    "__tls_get_offset",
    "_mcount",
    "mcount",
    "__fentry__",
    "__morestack*",
    "__cyg_profile_func_*",
    "__*_personality_v0",
    "rust_eh_personality",
    "_start",
    "__libc_start_main",
    "__libc_csu_*",
    "_dl_runtime_resolve*",
    "_dl_tlsdesc_*",
    "__restore_rt",
    "_ITM_*",
    "__gmon_start__",
    "__aarch64_*",
    "__xray_*",
    /* Apple: they preserve more registers than the convention requires; callers rely on it */
    "_tlv_bootstrap",
    "dyld_stub_binder",
    "__chkstk_darwin",
    "objc_retain_x*",
    "objc_release_x*",
    "swift_retain*",
    "swift_release*",
    "swift_bridgeObject*",
};

static const char *const twice[] = {
    "setjmp", "_setjmp", "sigsetjmp",  "__sigsetjmp",  "savectx",
    "vfork",  "__vfork", "getcontext", "__getcontext",
};

/* Each may return twice, or never returns, or inspects its caller. */
static const char *const called[] = {
    /* may return twice */
    "swapcontext",
    "syscall",
    "clone",
    "__clone",
    "clone3",
    /* never return */
    "longjmp",
    "_longjmp",
    "siglongjmp",
    "__longjmp_chk",
    "setcontext",
    "pthread_exit",
    "thrd_exit",
    "exit",
    "_exit",
    "_Exit",
    "quick_exit",
    "abort",
    "execl*",
    "execv*",
    "fexecve",
    "sigreturn",
    "__assert*",
    "__stack_chk_fail*",
    "__chk_fail",
    "__fortify_fail",
    "__cxa_throw",
    "__cxa_rethrow",
    "__cxa_throw_bad_array*",
    "__pthread_unwind*",
    "objc_exception_throw",
    /* inspect the caller */
    "dlopen",
    "dlmopen",
    "dlsym",
    "dlvsym",
    "dl_iterate_phdr",
    "_Unwind_*",
    "unw_*",
    "_ULx86_64_*",
    "_Ux86_64_*",
    "_ULaarch64_*",
    "_Uaarch64_*",
    "backtrace",
    "objc_autoreleaseReturnValue",
    "objc_retainAutoreleaseReturnValue",
    "objc_retainAutoreleasedReturnValue",
    "objc_unsafeClaimAutoreleasedReturnValue",
    "__asan_*",
    "__tsan_*",
    "__ubsan_*",
    "__msan_*",
};

static bool is_in(const char *const *globs, uint32_t count, const char *name) {
  for (uint32_t i = 0; i < count; i++)
    if (glob_matches(globs[i], name)) return true;
  return false;
}

bool imports_returns_twice(const char *name) { return is_in(twice, ARRAY_COUNT(twice), name); }

imports_verdict_t imports_verdict(const char *name) {
  if (is_in(never, ARRAY_COUNT(never), name)) return IMPORTS_NEVER;
  if (imports_returns_twice(name)) return IMPORTS_CALLED;
  return is_in(called, ARRAY_COUNT(called), name) ? IMPORTS_CALLED : IMPORTS_TIMED;
}
