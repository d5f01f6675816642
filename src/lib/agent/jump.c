/* SPDX-License-Identifier: MIT
 *
 * Exits from calls that run no exit hook: longjmp and related functions, and the catch of an
 * exception. The call tracer could infer such exits from later stack pointers. It would then not
 * always know whether a later call is inside an abandoned call or replaces it. Here the thread's
 * next stack pointer is known in advance.
 *
 * That stack pointer is in the jmp_buf, at the same place in glibc and musl. glibc mangles it with
 * a secret of the process. To find the secret, sonde lets setjmp fill a buffer at a known stack
 * pointer. If two such attempts disagree, nothing is reported, and the tracer uses later stack
 * pointers.
 */
#include "agent/agent.h"

#include "os/os.h"
#include "sensor/trace/trace.h"

#define TARGET __attribute__((used)) HIDDEN
#define WORDS  64 /* more than any jmp_buf has */

static struct {
  void (*longjmp)(void *, int);
  void (*_longjmp)(void *, int);
  void (*siglongjmp)(void *, int);
  void (*longjmp_chk)(void *, int);
  void *(*begin_catch)(void *);
  void *(*objc_begin_catch)(void *);
} real;

/* The C library's: a sanitizer's interceptor jumps to 0 before its runtime has started. */
static uint64_t libc_setjmp;

static struct {
  bool known;
  bool plain; /* the stack pointer is not mangled */
  uint64_t value;
} secret;

#if defined(__x86_64__)
#define SP_WORD 6
static uint64_t unmix(uint64_t word) { return word >> 17 | word << 47; }
static NOINLINE uint64_t fill(uint64_t *buffer) {
  uint64_t sp;
  __asm__ volatile("subq $128, %%rsp\n\tmovq %%rsp, %%rbx\n\tandq $-16, %%rsp\n\t"
                   "movq %%rsp, %%r12\n\tcall *%2\n\tmovq %%rbx, %%rsp\n\taddq $128, %%rsp\n\t"
                   "movq %%r12, %0"
                   : "=r"(sp), "+D"(buffer)
                   : "a"(libc_setjmp)
                   : "rbx", "r12", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc");
  return sp;
}
#else
#define SP_WORD 13
static uint64_t unmix(uint64_t word) { return word; }
static NOINLINE uint64_t fill(uint64_t *buffer) {
  uint64_t sp;
  register uint64_t *x0 __asm__("x0") = buffer;
  register uint64_t x9 __asm__("x9") = libc_setjmp;
  __asm__ volatile("mov %0, sp\n\tblr x9"
                   : "=&r"(sp), "+r"(x0), "+r"(x9)
                   :
                   : "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x10", "x11", "x12", "x13",
                     "x14", "x15", "x16", "x17", "x30", "memory", "cc");
  return sp;
}
#endif

static uint64_t try_at(unsigned depth, bool *plain) {
  uint64_t buffer[WORDS] = {0};
  volatile uint8_t further[256] = {0};
  if (depth && !further[0]) return try_at(depth - 1, plain);
  uint64_t sp = fill(buffer);
  *plain = buffer[SP_WORD] == sp;
  return *plain ? 0 : unmix(buffer[SP_WORD]) ^ sp;
}

static void find_secret(void) {
  bool plain, again;
  libc_setjmp = os_libc_symbol("_setjmp");
  if (!libc_setjmp) return;
  uint64_t value = try_at(0, &plain);
  secret.known = try_at(1, &again) == value && plain == again;
  secret.plain = plain;
  secret.value = value;
}

void jump_find_real(void) {
  static const char *const names[] = {"longjmp",       "_longjmp",          "siglongjmp",
                                      "__longjmp_chk", "__cxa_begin_catch", "objc_begin_catch"};
  _Static_assert(sizeof real == sizeof(uint64_t) * ARRAY_COUNT(names), "one name a function");
  agent_real(names, (uint64_t *)&real, ARRAY_COUNT(names));
  find_secret();
}

static void will_jump(const uint64_t *buffer) {
  if (!trace_on() || !secret.known) return;
  uint64_t word = buffer[SP_WORD];
  trace_unwound(secret.plain ? word : unmix(word) ^ secret.value);
}

static _Noreturn void jump(void (*real_jump)(void *, int), void *buffer, int value) {
  will_jump(buffer);
  if (real_jump) real_jump(buffer, value);
  __builtin_trap(); /* no real function: the caller could not have been linked */
}

#define JUMP(name, field)                                                                          \
  __attribute__((visibility("default"))) _Noreturn void name(void *buffer, int value);             \
  _Noreturn void name(void *buffer, int value) {                                                   \
    agent_enter();                                                                                 \
    jump(real.field, buffer, value);                                                               \
  }

#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wunknown-warning-option"
#pragma GCC diagnostic ignored "-Wbuiltin-declaration-mismatch"
#pragma GCC diagnostic ignored "-Wincompatible-library-redeclaration"
JUMP(longjmp, longjmp)
JUMP(_longjmp, _longjmp)
JUMP(siglongjmp, siglongjmp)
JUMP(__longjmp_chk, longjmp_chk)

#define CALLER uint64_t pc, uint64_t sp, uint64_t fp

TARGET void *hook_begin_catch(void *exception, CALLER) {
  (void)pc, (void)fp;
  agent_enter();
  if (trace_on()) trace_unwound(sp);
  return real.begin_catch ? real.begin_catch(exception) : NULL;
}
ENTRY_1(__cxa_begin_catch, hook_begin_catch);

TARGET void *hook_objc_begin_catch(void *exception, CALLER) {
  (void)pc, (void)fp;
  agent_enter();
  if (trace_on()) trace_unwound(sp);
  return real.objc_begin_catch ? real.objc_begin_catch(exception) : NULL;
}
ENTRY_1(objc_begin_catch, hook_objc_begin_catch);
