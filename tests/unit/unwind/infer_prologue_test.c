/* SPDX-License-Identifier: MIT
 *
 * Decoded x86_64 code against the processor. The trap flag stops libc's functions at each
 * instruction: there, its length and the registers that changed must agree with x86_decode and
 * x86_written. In the frames outside, the frame register must be where insn_fp_distance says. Then
 * hand-written prologues, whose distance is known.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "skip.h"

#if defined(__x86_64__)

#include "image/list.h"
#include "trap.h"
#include "unwind/infer/decode_x86_64.h"
#include "unwind/infer/insn.h"

static volatile int zero;
static void *volatile frame;

static bool read_own(memory_t *self, uint64_t address, void *out, size_t size) {
  (void)self;
  memcpy(out, (const void *)address, size);
  return true;
}

static memory_t own_memory = {read_own};

static insn_code_t own_code(void) {
  return (insn_code_t){MACHINE_X86_64, &own_memory, walk_images()};
}

/* ---- executed code --------------------------------------------------------------------------- */

enum { OUTER_FRAMES = 4, PUSHED_MAX = 512 };

/* In the order of instructions. */
static const int saved_as[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                 REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                 REG_R12, REG_R13, REG_R14, REG_R15};

static struct executed {
  greg_t before[NGREG];
  long insns, wrong_insns, frames, wrong_frames;
  uint64_t wrong_at;
} executed;

static void fail_at(long *count, uint64_t pc) {
  if (!(*count)++) executed.wrong_at = pc;
}

static uint32_t changed(const greg_t *before, const greg_t *after) {
  uint32_t registers = 0;
  for (int n = 0; n < 16; n++)
    registers |= (uint32_t)(before[saved_as[n]] != after[saved_as[n]]) << n;
  return registers;
}

static void check_insn(const greg_t *before, const greg_t *after) {
  uint64_t pc = (uint64_t)before[REG_RIP], next = (uint64_t)after[REG_RIP];
  x86_insn_t insn;
  executed.insns++;
  if (!x86_decode((const uint8_t *)pc, X86_INSN_BYTES, &insn)) {
    fail_at(&executed.wrong_insns, pc);
    return;
  }
  /* The first instruction after a system call does not stop. */
  if (insn.map == X86_MAP_0F && insn.opcode == 0x05) return;
  /* A repeated instruction stops each time. */
  bool plain = x86_is_plain(&insn);
  uint32_t moved = plain ? 0 : 1u << X86_SP | (insn.opcode == 0xc9 ? 1u << X86_BP : 0);
  if ((plain && next != pc && next != pc + insn.length) ||
      (changed(before, after) & ~(x86_written(&insn) | moved)))
    fail_at(&executed.wrong_insns, pc);
}

/* REGS are of a frame that has called another one. */
static void check_distance(const regs_t *regs) {
  insn_code_t code = own_code();
  insn_range_t function;
  insn_fp_distance_t distance;
  cfi_row_t row;
  uint64_t slide;
  if (!insn_find_row(&code, regs->pc - 1, &slide, &row) || row.cfa_is_expression ||
      row.cfa_register != X86_64_RBP || !regs_has(regs, X86_64_RBP) ||
      !insn_function(&code, regs->pc - 1, &function) ||
      !insn_fp_distance(&code, function, regs->pc - 1, &distance))
    return;
  uint64_t pushed = regs->r[X86_64_RBP] - regs->r[X86_64_RSP] - distance.bytes;
  executed.frames++;
  if (pushed % 8 || pushed > (distance.varies ? PUSHED_MAX : 0))
    fail_at(&executed.wrong_frames, regs->pc);
}

static void on_trap(int number, siginfo_t *info, void *ucontext) {
  (void)number;
  (void)info;
  greg_t *now = ((ucontext_t *)ucontext)->uc_mcontext.gregs;
  regs_t regs = {.known = 0};
  if (executed.before[REG_RIP]) check_insn(executed.before, now);
  memcpy(executed.before, now, sizeof executed.before);
  regs.pc = arch_context_registers(ucontext, regs.r, &regs.known);
  for (int i = 0; i < OUTER_FRAMES; i++) {
    if (cfi_step(MACHINE_X86_64, &own_memory, walk_images(), &regs, i == 0) != STEP_CALLER) return;
    check_distance(&regs);
  }
}

/* Functions with a frame register, and more and more saved registers. */
#define WITH_FRAME() frame = __builtin_frame_address(0)

static NOINLINE int compare(const void *a, const void *b) {
  WITH_FRAME();
  return memcmp(a, b, sizeof(int)) - zero;
}

static NOINLINE double with_numbers(const char *text, int count) {
  double sum = zero;
  WITH_FRAME();
  for (int i = 0; i < count; i++)
    sum += strtod(text, NULL) * i;
  return sum;
}

/* The last four arguments are pushed. */
static NOINLINE int with_arguments(char *text, size_t size, int a, int b) {
  WITH_FRAME();
  int length = snprintf(text, size, "%d %d %d %d %d %d %s", a, b, a * b, a - b, a + b, a, "end");
  return length + snprintf(text, size, "%d %f", b, with_numbers("1.25e-30", a)) + a;
}

static NOINLINE void use_libc(void) {
  char text[200];
  int numbers[] = {5, 3, 9, 1, 7, 2, 8};
  HAS_FRAME_POINTER();
  trace_on(TRAP_FLAG);
  __asm__ volatile("mov $1, %%ah\n mov %%ah, %%ch\n xchg %%dh, %%ah\n add %%ch, %%bh\n"
                   "sete %%dh\n xadd %%ch, %%dh\n mov $2, %%bh\n neg %%ch\n"
                   :
                   :
                   : "eax", "ebx", "ecx", "edx", "cc");
  with_arguments(text, sizeof text, 3, 4 + zero);
  qsort(numbers, 7, sizeof *numbers, compare);
  free(realloc(malloc(100), 100000));
  trace_off();
}

static void libc_functions(void **state) {
  (void)state;
  struct sigaction sa = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
  assert_int_equal(sigaction(SIGTRAP, &sa, NULL), 0);
  use_libc();
  if (executed.wrong_insns || executed.wrong_frames)
    fail_msg("%ld of %ld instructions and %ld of %ld distances are wrong, the first at %#lx",
             executed.wrong_insns, executed.insns, executed.wrong_frames, executed.frames,
             (long)executed.wrong_at);
  assert_true(executed.insns > 5000 && executed.frames > 2000);
}

/* ---- hand-written prologues ------------------------------------------------------------------ */

/* A function that is never executed: PROLOGUE, a call, and BODY. */
#define FUNCTION(name, prologue, body)                                                             \
  __asm__(".text\n" #name ": .cfi_startproc\n"                                                     \
          "push %rbp\n .cfi_def_cfa_offset 16\n .cfi_offset %rbp, -16\n"                           \
          "mov %rsp, %rbp\n .cfi_def_cfa_register %rbp\n" prologue "call *%rdi\n" #name            \
          "_called: " body " .cfi_endproc\n");                                                     \
  extern HIDDEN char name##_called[]

#define PUSH_RBX " push %rbx\n .cfi_offset %rbx, -24\n "
#define LEAVE    " leave\n .cfi_def_cfa %rsp, 8\n ret\n "

/* Displacements that are the bytes of sub $n,%rsp, mov %rsp,%rbp and mov %rax,%rsp. */
FUNCTION(displacement, "sub $32, %rsp\n",
         "lea 0x00ec8148(%rip), %rax\n mov 0x00e58948(%rdi), %rax\n"
         "add 0x00c48948(%rdi), %rax\n" LEAVE);
/* An immediate of 16 bits, and operands of 8 bits that are no part of the frame register. */
FUNCTION(lowered,
         PUSH_RBX "cmp $0x97ff, %dx\n add $-128, %rsp\n xchg %ah, %ch\n mov $1, %ah\n"
                  "sub $24, %rsp\n",
         LEAVE);
FUNCTION(raised, PUSH_RBX "sub $-128, %rsp\n sub $24, %rsp\n", LEAVE);
/* A push after the saved registers is an argument. */
FUNCTION(argument, PUSH_RBX "sub $8, %rsp\n push %rax\n push $7\n", "add $16, %rsp\n" LEAVE);
/* mov saves a register; an argument is pushed. */
FUNCTION(moved, "sub $16, %rsp\n mov %rbx, -8(%rbp)\n .cfi_offset %rbx, -24\n push %rax\n", LEAVE);
/* Room whose size is known at run time. */
FUNCTION(room, "sub $16, %rsp\n", "sub %rax, %rsp\n" LEAVE);
FUNCTION(aligned, "and $-32, %rsp\n", LEAVE);
FUNCTION(again, "sub $16, %rsp\n", "mov %rsp, %rbp\n" LEAVE);
FUNCTION(narrow, "sub $16, %rsp\n", "mov %eax, %esp\n" LEAVE);
/* Data, and half an instruction. */
FUNCTION(unknown, "sub $16, %rsp\n", LEAVE ".byte 6, 6, 6\n");
FUNCTION(cut, "sub $16, %rsp\n", LEAVE ".byte 0x48, 0x81\n");

/* Returns the distance, with 1 added if it varies; -1 if it is not fixed. */
static int distance_of(const char *called) {
  insn_code_t code = own_code();
  insn_range_t function;
  insn_fp_distance_t distance;
  assert_true(insn_function(&code, (uintptr_t)called - 1, &function));
  if (!insn_fp_distance(&code, function, (uintptr_t)called - 1, &distance)) return -1;
  return (int)distance.bytes + distance.varies;
}

static void prologues(void **state) {
  (void)state;
  assert_int_equal(distance_of(displacement_called), 32);
  assert_int_equal(distance_of(lowered_called), 8 + 128 + 24);
  assert_int_equal(distance_of(raised_called), -1);
  assert_int_equal(distance_of(argument_called), 8 + 8 + 1);
  assert_int_equal(distance_of(moved_called), -1);
  assert_int_equal(distance_of(room_called), -1);
  assert_int_equal(distance_of(aligned_called), -1);
  assert_int_equal(distance_of(again_called), -1);
  assert_int_equal(distance_of(narrow_called), -1);
  assert_int_equal(distance_of(unknown_called), -1);
  assert_int_equal(distance_of(cut_called), -1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(libc_functions),
      cmocka_unit_test(prologues),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) {
  printf("skipped: this machine has no trap flag that a program may set\n");
  return 77;
}

#endif
