/* SPDX-License-Identifier: MIT
 *
 * infer_return against unwind rows. The processor's trap flag stops libc's functions at each
 * instruction. There, and in the frames outside, infer_return must find what the rows say, or
 * nothing. Then hand-written assembly without rows, whose caller is known.
 */
#define _GNU_SOURCE
#include <regex.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "skip.h"

#if defined(__x86_64__)

#include "image/list.h"
#include "trap.h"
#include "unwind/infer/infer.h"

static volatile int zero;

/* Without a system call where it is safe. */
static bool read_own(memory_t *self, uint64_t address, void *out, size_t size) {
  uintptr_t here = (uintptr_t)&size;
  if (address - here > (64u << 10) && !image_id_of_pc(address))
    return oracle_read(self, address, out, size);
  memcpy(out, (const void *)address, size);
  return true;
}

static memory_t own_memory = {read_own};

/* ---- code with rows -------------------------------------------------------------------------- */

enum { OUTER_FRAMES = 4, SEEN = 1 << 16 };

static struct comparison {
  uint64_t seen[SEEN];
  long frames, found, wrong, registers;
  regs_t first, by_row, by_code;
} comparison;

static bool is_seen(uint64_t pc) {
  uint64_t *at = comparison.seen + (pc * 0x9e3779b97f4a7c15u >> 48);
  if (*at == pc) return true;
  *at = pc;
  return false;
}

static bool differ(const regs_t *a, const regs_t *b, int n) {
  return regs_has(a, n) && regs_has(b, n) && a->r[n] != b->r[n];
}

static void compare(const regs_t *before, const regs_t *by_row, bool exact) {
  regs_t by_code = *before;
  comparison.frames++;
  rule_t rule;
  if (infer_return(MACHINE_X86_64, &own_memory, walk_images(), &by_code, exact, &rule) !=
      STEP_CALLER)
    return;
  comparison.found++;
  bool wrong = by_code.pc != by_row->pc || differ(&by_code, by_row, X86_64_RSP);
  for (int n = 0; n < X86_64_RA; n++)
    wrong |= differ(&by_code, by_row, n);
  if (!wrong) return;
  if (comparison.wrong++) return;
  comparison.first = *before;
  comparison.by_row = *by_row;
  comparison.by_code = by_code;
}

static void on_trap(int number, siginfo_t *info, void *ucontext) {
  (void)number;
  (void)info;
  regs_t regs = {.known = 0};
  bool exact = true;
  regs.pc = arch_context_registers(ucontext, regs.r, &regs.known);
  if (is_seen(regs.pc)) return;
  for (int i = 0; i < OUTER_FRAMES; i++) {
    regs_t before = regs;
    if (cfi_step(MACHINE_X86_64, &own_memory, walk_images(), &regs, exact) != STEP_CALLER) return;
    /* glibc's arithmetic has rows that forget a push. */
    if (!insn_is_executable(walk_images(), regs.pc)) return;
    compare(&before, &regs, exact);
    exact = false;
  }
}

static int by_value(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static NOINLINE void use_libc(void) {
  char text[200];
  int numbers[] = {5, 3, 9, 1, 7, 2, 8};
  regex_t regex;
  HAS_FRAME_POINTER();
  FILE *file = fopen("/dev/null", "w");
  trace_on(TRAP_FLAG);
  snprintf(text, sizeof text, "%d %-20s %.17g %ls %p", 12, "text", 0.1, L"wide", (void *)text);
  qsort(numbers, 7, sizeof *numbers, by_value);
  free(realloc(malloc(100), 100000));
  strtod("1.25e-300", NULL);
  if (regcomp(&regex, "a*(b|c[d-f])+$", REG_EXTENDED) == 0) {
    regexec(&regex, "aabbcdce", 0, NULL, 0);
    regfree(&regex);
  }
  fprintf(file, "%s", text);
  fclose(file);
  trace_off();
}

static void libc_functions(void **state) {
  (void)state;
  struct sigaction sa = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
  assert_int_equal(sigaction(SIGTRAP, &sa, NULL), 0);
  use_libc();
  if (comparison.wrong)
    fail_msg("%ld of %ld are wrong, the first at %#lx: caller %#lx, not %#lx", comparison.wrong,
             comparison.found, (long)comparison.first.pc, (long)comparison.by_code.pc,
             (long)comparison.by_row.pc);
  assert_true(comparison.found * 100 > comparison.frames * 80);
}

/* ---- code without rows ----------------------------------------------------------------------- */

/* Each function is a form that assembly of codecs and cryptography has. They use the frame register
 * for something else. */
__asm__(".text\n"
        "asm_start:\n"
        "asm_leaf: mov $3, %ecx\n"
        "1: dec %ecx\n"
        "jg 1b\n"
        "ret\n"
        /* Saved registers, room, and a call of code that needs no convention. */
        "asm_pushes: push %rbx; push %rbp; push %r12; push %r13; sub $40, %rsp\n"
        "mov %rdi, %rbp; xor %ebx, %ebx; movd %ebx, %xmm4\n"
        "call asm_inner\n"
        "movaps %xmm4, %xmm12; mov %rbx, 16(%rsp)\n"
        "add $40, %rsp; pop %r13; pop %r12; pop %rbp; pop %rbx; ret\n"
        "asm_inner: sub $136, %rsp; movd %xmm4, %ebx; sub $-128, %rsp; pop %rbp; push %rbp\n"
        "add $8, %rsp; ret\n"
        /* A realigned stack, whose old pointer is kept in memory. */
        "asm_aligned: push %rbp; mov %rsp, %rax; sub $72, %rsp; and $-32, %rsp\n"
        "mov %rax, 64(%rsp); mov $7, %eax; pxor %xmm0, %xmm0; mov %rdi, %rbp\n"
        "1: movaps %xmm0, (%rsp); dec %eax; jne 1b\n"
        "mov 64(%rsp), %rsp; pop %rbp; ret\n"
        /* In a register. */
        "asm_in_register: mov %rsp, %r10; sub $64, %rsp; and $-64, %rsp\n"
        "pxor %xmm10, %xmm10; movq %xmm10, %r11; movdqa asm_start(%rip), %xmm10\n"
        "pextrw $1, %xmm10, %eax; mov %r10, %rsp; ret\n"
        /* The end of two functions, before them. */
        ".Lend: add $24, %rsp; pop %rbp; ret\n"
        "asm_shared: push %rbp; sub $24, %rsp; xor %ebp, %ebp; jmp .Lend\n"
        "asm_jumps_on: sub $8, %rsp; add $8, %rsp; jmp asm_leaf\n"
        /* A switch; the other way leads on. */
        "asm_switch: push %rbp; mov $5, %ebp; cmp $3, %ebp; ja 1f\n"
        "lea asm_start(%rip), %rax; movslq (%rax,%rbp,4), %rcx; add %rax, %rcx; jmp *%rcx\n"
        "1: pop %rbp; ret\n"
        /* A generated function, which drops as many arguments as its callee says. */
        "asm_drops: push %rbp; mov %rsp, %rbp; call *%rdi\n"
        "asm_dropping: leave; pop %rcx; lea (%rsp,%rax,8), %rsp; push %rcx; ret\n"
        "asm_end:\n"
        ".p2align 4\n");

typedef void function_t(uint64_t);
extern HIDDEN function_t asm_start, asm_end, asm_leaf, asm_pushes, asm_inner, asm_aligned;
extern HIDDEN function_t asm_in_register, asm_shared, asm_jumps_on, asm_switch;
extern HIDDEN function_t asm_drops, asm_dropping;

enum { STACK = 64 };

static struct expected {
  function_t *function;
  /* Read at the function's first instruction. */
  uintptr_t return_address;
  /* The stack of the caller of FUNCTION. */
  uintptr_t pcs[STACK];
  int count;
  long steps;
} expected;

static bool is_assembly(uintptr_t pc) {
  return pc >= (uintptr_t)&asm_start && pc < (uintptr_t)&asm_end;
}

static void on_assembly_trap(int number, siginfo_t *info, void *ucontext) {
  (void)number;
  (void)info;
  uintptr_t pcs[STACK];
  sonde_capture_t c = {.pcs = pcs, .max = STACK, .ucontext = ucontext};
  const greg_t *registers = ((ucontext_t *)ucontext)->uc_mcontext.gregs;
  uintptr_t pc = (uintptr_t)registers[REG_RIP];
  if (!is_assembly(pc)) return;
  if (pc == (uintptr_t)expected.function)
    expected.return_address = *(uintptr_t *)registers[REG_RSP];
  int count = sonde_capture(&c), inner = 1;
  while (inner < count && is_assembly(pcs[inner]))
    inner++;
  expected.steps++;
  bool called = pc >= (uintptr_t)&asm_inner && pc < (uintptr_t)&asm_aligned;
  if (inner == 1 + called && c.status == SONDE_STACK_COMPLETE && c.flags == SONDE_FLAG_HEURISTIC &&
      count == inner + expected.count && pcs[inner] == expected.return_address &&
      memcmp(pcs + inner + 1, expected.pcs + 1, ((size_t)expected.count - 1) * sizeof *pcs) == 0)
    return;
  oracle_print("captured", pcs, count);
  oracle_print("expected", expected.pcs, expected.count);
  oracle_fail("assembly+%#lx: not the true stack", (long)(pc - (uintptr_t)&asm_start));
}

static NOINLINE void call_traced(function_t *function) {
  HAS_FRAME_POINTER();
  expected.function = function;
  expected.count = sonde_stack(expected.pcs, STACK);
  trace_on(TRAP_FLAG);
  function((uint64_t)&expected);
  trace_off();
}

static void assembly(void **state) {
  (void)state;
  static function_t *const functions[] = {&asm_leaf,        &asm_pushes, &asm_aligned,
                                          &asm_in_register, &asm_shared, &asm_jumps_on,
                                          &asm_switch};
  struct sigaction sa = {.sa_sigaction = on_assembly_trap, .sa_flags = SA_SIGINFO};
  assert_int_equal(sigaction(SIGTRAP, &sa, NULL), 0);
  for (volatile size_t i = 0; i < sizeof functions / sizeof *functions; i++)
    for (volatile int again = 0; again < 2; again++)
      call_traced(functions[i]);
  assert_in_range(expected.steps, 150, 1000);
}

static uint64_t capture_caller(void) {
  uintptr_t pcs[STACK];
  int count = sonde_stack(pcs, STACK), called = 0;
  while (called < count && pcs[called] != (uintptr_t)&asm_dropping)
    called++;
  assert_in_range(called, 1, count - 2);
  return 0;
}

/* The stack pointer depends on a register that no walk knows, so the frame pointer leads on. Later
 * walks must not execute the code again. */
static void code_that_leads_nowhere(void **state) {
  (void)state;
  asm_drops((uint64_t)capture_caller);
  rule_t rule = frame_table_find((uint64_t)&asm_dropping, false, walk_epoch()).rule;
  assert_int_equal(rule_kind(rule), RULE_INFERRED);
  asm_drops((uint64_t)capture_caller);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(libc_functions),
      cmocka_unit_test(assembly),
      cmocka_unit_test(code_that_leads_nowhere),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) {
  printf("skipped: this machine has no trap flag that a program may set\n");
  return 77;
}

#endif
