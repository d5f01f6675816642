/* SPDX-License-Identifier: MIT
 *
 * A call with chosen values in every register that can hold an argument or a result, and eight
 * words of arguments on the stack. registers_call loads them and calls; registers_target records
 * what it received and returns other values. Code between the two must not change anything.
 *
 * One file of a program or library includes it; REGISTERS_ROOM is what the target begins with.
 */
#ifndef SONDE_TESTS_REGISTERS_H
#define SONDE_TESTS_REGISTERS_H

#include <stdint.h>
#include <string.h>

#define VECTORS      32
#define VECTOR_BYTES 64

typedef struct registers {
  uint64_t general[16];   /* rdi rsi rdx rcx r8 r9 rax r10; x0 to x8, x18 */
  uint64_t preserved[16]; /* rbx rbp r12 to r15; x19 to x29 */
  /* Arguments. */
  uint64_t stack[8];
  uint64_t masks[8]; /* k0 to k7 */
  /* zmm0 to 31, or as many as exist; q0 to q31. */
  uint8_t vectors[VECTORS][VECTOR_BYTES];
} registers_t;

/* The vector registers: 0 sixteen of 16 bytes, 1 sixteen of 32, 2 thirty-two of 64, and masks. */
extern int registers_level;
extern registers_t registers_seen, registers_given;

void registers_call(void *function, const registers_t *in, registers_t *out);
void registers_target(void);
void registers_load_vectors(const registers_t *from);

#ifndef REGISTERS_ROOM
#define REGISTERS_ROOM ""
#endif

int registers_level;
registers_t registers_seen, registers_given;

#define FUNCTION(name, type)                                                                       \
  ".p2align 4\n.globl " #name "\n.type " #name ", " type "\n" #name ":\n.cfi_startproc\n"
#define END(name) ".cfi_endproc\n.size " #name ", . - " #name "\n"

#if defined(__x86_64__)
/* From or to the registers_t at r11. */
#define EACH_16(what) ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n" what "\n.endr\n"
#define EACH_32(what)                                                                              \
  ".irp n, "                                                                                       \
  "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n" what   \
  "\n.endr\n"
__asm__(
    ".pushsection .text\n"
    ".hidden registers_level, registers_seen, registers_given\n"
    ".type registers_load, @function\nregisters_load:\n"
    "cmpl $1, registers_level(%rip)\nje 1f\njb 2f\n" EACH_32(
        "vmovdqu64 384 + 64 * \\n(%r11), %zmm\\n") ".irp n, 0,1,2,3,4,5,6,7\nkmovq 320 + 8 * "
                                                   "\\n(%r11), %k\\n\n.endr\nret\n"
                                                   "1:" EACH_16(
                                                       "vmovdqu 384 + 64 * \\n(%r11), "
                                                       "%ymm\\n") "ret\n"
                                                                  "2:" EACH_16(
                                                                      "movdqu 384 + "
                                                                      "64 * "
                                                                      "\\n(%r11), "
                                                                      "%xmm\\n") "ret"
                                                                                 "\n"
                                                                                 ".typ"
                                                                                 "e "
                                                                                 "regi"
                                                                                 "ster"
                                                                                 "s_"
                                                                                 "stor"
                                                                                 "e, "
                                                                                 "@fun"
                                                                                 "ctio"
                                                                                 "n\nr"
                                                                                 "egis"
                                                                                 "ters"
                                                                                 "_sto"
                                                                                 "re:"
                                                                                 "\n"
                                                                                 "cmpl"
                                                                                 " $1,"
                                                                                 " reg"
                                                                                 "iste"
                                                                                 "rs_"
                                                                                 "leve"
                                                                                 "l(%"
                                                                                 "rip)"
                                                                                 "\nje"
                                                                                 " 1f"
                                                                                 "\njb"
                                                                                 " 2f"
                                                                                 "\n" EACH_32(
                                                                                     "vmovdqu64"
                                                                                     " %zmm\\n,"
                                                                                     " 384 + "
                                                                                     "64 * "
                                                                                     "\\n(%"
                                                                                     "r11)") "."
                                                                                             "i"
                                                                                             "r"
                                                                                             "p"
                                                                                             " "
                                                                                             "n"
                                                                                             ","
                                                                                             " "
                                                                                             "0"
                                                                                             ","
                                                                                             "1"
                                                                                             ","
                                                                                             "2"
                                                                                             ","
                                                                                             "3"
                                                                                             ","
                                                                                             "4"
                                                                                             ","
                                                                                             "5"
                                                                                             ","
                                                                                             "6"
                                                                                             ","
                                                                                             "7"
                                                                                             "\nkmo"
                                                                                             "vq "
                                                                                             "%k\\n"
                                                                                             ", "
                                                                                             "320 "
                                                                                             "+ 8 "
                                                                                             "* "
                                                                                             "\\n(%"
                                                                                             "r11)"
                                                                                             "\n."
                                                                                             "endr"
                                                                                             "\nret"
                                                                                             "\n"
                                                                                             "1"
                                                                                             ":" EACH_16(
                                                                                                 "v"
                                                                                                 "m"
                                                                                                 "o"
                                                                                                 "v"
                                                                                                 "d"
                                                                                                 "q"
                                                                                                 "u"
                                                                                                 " "
                                                                                                 "%"
                                                                                                 "y"
                                                                                                 "m"
                                                                                                 "m"
                                                                                                 "\\n, 384 + 64 * \\n(%r11)") "ret\n"
                                                                                                                              "2:" EACH_16(
                                                                                                                                  "movdqu %xmm\\n, 384 + 64 * \\n(%r11)") "ret\n"

    FUNCTION(registers_load_vectors,
             "@function") "movq %rdi, %r11\njmp registers_load\n" END(registers_load_vectors)

        FUNCTION(registers_call,
                 "@function") ".irp r, rbp, rbx, r12, r13, r14, r15\npushq "
                              "%\\r\n.cfi_adjust_cfa_offset 8\n.endr\n"
                              "subq $88, %rsp\n.cfi_adjust_cfa_offset 88\n"
                              "movq %rdx, 64(%rsp)\nmovq %rdi, 72(%rsp)\nmovq %rsi, %r11\n"
                              ".irp n, 0,1,2,3,4,5,6,7\nmovq 256 + 8 * \\n(%r11), %rax\nmovq %rax, "
                              "8 * \\n(%rsp)\n.endr\n"
                              "call registers_load\n"
                              "movq 128(%r11), %rbx\nmovq 136(%r11), %rbp\nmovq 144(%r11), %r12\n"
                              "movq 152(%r11), %r13\nmovq 160(%r11), %r14\nmovq 168(%r11), %r15\n"
                              "movq (%r11), %rdi\nmovq 8(%r11), %rsi\nmovq 16(%r11), %rdx\nmovq "
                              "24(%r11), %rcx\n"
                              "movq 32(%r11), %r8\nmovq 40(%r11), %r9\nmovq 48(%r11), %rax\nmovq "
                              "56(%r11), %r10\n"
                              "call *72(%rsp)\n"
                              "movq 64(%rsp), %r11\n"
                              "movq %rdx, 16(%r11)\nmovq %rcx, 24(%r11)\nmovq %r8, 32(%r11)\nmovq "
                              "%rax, 48(%r11)\n"
                              "movq %rbx, 128(%r11)\nmovq %rbp, 136(%r11)\nmovq %r12, 144(%r11)\n"
                              "movq %r13, 152(%r11)\nmovq %r14, 160(%r11)\nmovq %r15, 168(%r11)\n"
                              ".irp n, 0,1,2,3,4,5,6,7\nmovq 8 * \\n(%rsp), %rax\nmovq %rax, 256 + "
                              "8 * \\n(%r11)\n.endr\n"
                              "call registers_store\n"
                              "cmpl $0, registers_level(%rip)\nje 3f\nvzeroupper\n3:\n"
                              "addq $88, %rsp\n.cfi_adjust_cfa_offset -88\n"
                              ".irp r, r15, r14, r13, r12, rbx, rbp\npopq "
                              "%\\r\n.cfi_adjust_cfa_offset -8\n.endr\nret\n" END(registers_call)

                                  FUNCTION(registers_target, "@function") REGISTERS_ROOM
    "leaq registers_seen(%rip), %r11\n"
    "movq %rdi, (%r11)\nmovq %rsi, 8(%r11)\nmovq %rdx, 16(%r11)\nmovq %rcx, 24(%r11)\n"
    "movq %r8, 32(%r11)\nmovq %r9, 40(%r11)\nmovq %rax, 48(%r11)\nmovq %r10, 56(%r11)\n"
    ".irp n, 0,1,2,3,4,5,6,7\nmovq 8 + 8 * \\n(%rsp), %rax\nmovq %rax, 256 + 8 * "
    "\\n(%r11)\n.endr\n"
    "call registers_store\n"
    "leaq registers_given(%rip), %r11\n"
    "call registers_load\n"
    "movq 16(%r11), %rdx\nmovq 24(%r11), %rcx\nmovq 32(%r11), %r8\nmovq 48(%r11), %rax\n"
    "ret\n" END(registers_target) ".popsection\n");

static const int arguments_of[] = {0, 1, 2, 3, 4, 5, 6, 7}, results_of[] = {2, 3, 4, 6};
#define PRESERVED 6

static inline void registers_find_level(void) {
  registers_level = __builtin_cpu_supports("avx512bw") ? 2 : __builtin_cpu_supports("avx") ? 1 : 0;
}
#else
/* From or to the registers_t at x17. */
#define EACH_PAIR(what) ".irp n, 0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30\n" what "\n.endr\n"
#define EACH_32(what)                                                                              \
  ".irp n, "                                                                                       \
  "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n" what   \
  "\n.endr\n"
__asm__(
    ".pushsection .text\n"
    ".hidden registers_seen, registers_given\n"
    ".type registers_load, %function\nregisters_load:\n" EACH_32(
        "ldr q\\n, [x17, #384 + 64 * \\n]") "ret\n"
                                            ".type registers_store, "
                                            "%function\nregisters_store:\n" EACH_32(
                                                "str q\\n, [x17, #384 + 64 * \\n]") "ret\n"

    FUNCTION(registers_load_vectors,
             "%function") "mov x17, x0\nb registers_load\n" END(registers_load_vectors)

        FUNCTION(registers_call,
                 "%function") "stp x29, x30, [sp, #-256]!\n.cfi_def_cfa_offset 256\n.cfi_offset "
                              "29, -256\n.cfi_offset 30, -248\n"
                              "stp x19, x20, [sp, #96]\nstp x21, x22, [sp, #112]\nstp x23, x24, "
                              "[sp, #128]\n"
                              "stp x25, x26, [sp, #144]\nstp x27, x28, [sp, #160]\n"
                              "stp d8, d9, [sp, #176]\nstp d10, d11, [sp, #192]\nstp d12, d13, "
                              "[sp, #208]\n"
                              "stp d14, d15, [sp, #224]\nstp x0, x2, [sp, #80]\n"
                              "sub sp, sp, #64\n.cfi_def_cfa_offset 320\n"
                              "mov x17, x1\nbl registers_load\n"
                              ".irp n, 0,1,2,3,4,5,6,7\nldr x9, [x17, #256 + 8 * \\n]\nstr x9, "
                              "[sp, #8 * \\n]\n.endr\n"
                              "ldp x19, x20, [x17, #128]\nldp x21, x22, [x17, #144]\nldp x23, x24, "
                              "[x17, #160]\n"
                              "ldp x25, x26, [x17, #176]\nldp x27, x28, [x17, #192]\nldr x29, "
                              "[x17, #208]\n"
                              "ldp x0, x1, [x17]\nldp x2, x3, [x17, #16]\nldp x4, x5, [x17, "
                              "#32]\nldp x6, x7, [x17, #48]\n"
                              "ldp x8, x18, [x17, #64]\n"
                              "ldr x16, [sp, #144]\nblr x16\n"
                              "ldr x17, [sp, #152]\n"
                              "stp x0, x1, [x17]\nstp x2, x3, [x17, #16]\nstp x4, x5, [x17, "
                              "#32]\nstp x6, x7, [x17, #48]\n"
                              "str x8, [x17, #64]\n"
                              "stp x19, x20, [x17, #128]\nstp x21, x22, [x17, #144]\nstp x23, x24, "
                              "[x17, #160]\n"
                              "stp x25, x26, [x17, #176]\nstp x27, x28, [x17, #192]\nstr x29, "
                              "[x17, #208]\n"
                              ".irp n, 0,1,2,3,4,5,6,7\nldr x9, [sp, #8 * \\n]\nstr x9, [x17, #256 "
                              "+ 8 * \\n]\n.endr\n"
                              "bl registers_store\n"
                              "add sp, sp, #64\n.cfi_def_cfa_offset 256\n"
                              "ldp x19, x20, [sp, #96]\nldp x21, x22, [sp, #112]\nldp x23, x24, "
                              "[sp, #128]\n"
                              "ldp x25, x26, [sp, #144]\nldp x27, x28, [sp, #160]\n"
                              "ldp d8, d9, [sp, #176]\nldp d10, d11, [sp, #192]\nldp d12, d13, "
                              "[sp, #208]\n"
                              "ldp d14, d15, [sp, #224]\n"
                              "ldp x29, x30, [sp], #256\n.cfi_def_cfa_offset 0\nret\n" END(
                                  registers_call)

                                  FUNCTION(registers_target, "%function") REGISTERS_ROOM
    "str x30, [sp, #-16]!\n.cfi_def_cfa_offset 16\n.cfi_offset 30, -16\n"
    "adrp x17, registers_seen\nadd x17, x17, :lo12:registers_seen\n"
    "stp x0, x1, [x17]\nstp x2, x3, [x17, #16]\nstp x4, x5, [x17, #32]\nstp x6, x7, [x17, #48]\n"
    "stp x8, x18, [x17, #64]\n"
    ".irp n, 0,1,2,3,4,5,6,7\nldr x9, [sp, #16 + 8 * \\n]\nstr x9, [x17, #256 + 8 * \\n]\n.endr\n"
    "bl registers_store\n"
    "adrp x17, registers_given\nadd x17, x17, :lo12:registers_given\n"
    "bl registers_load\n"
    "ldp x0, x1, [x17]\nldp x2, x3, [x17, #16]\nldp x4, x5, [x17, #32]\nldp x6, x7, [x17, #48]\n"
    "ldr x8, [x17, #64]\n"
    "ldr x30, [sp], #16\n.cfi_def_cfa_offset 0\nret\n" END(registers_target) ".popsection\n");

static const int arguments_of[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
                 results_of[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
#define PRESERVED 11

static inline void registers_find_level(void) { registers_level = 0; }
#endif

static inline int registers_vectors(void) {
#if defined(__x86_64__)
  return registers_level == 2 ? 32 : 16;
#else
  return 32;
#endif
}

static inline void registers_random(registers_t *r, uint64_t *seed) {
  uint64_t word;
  for (size_t i = 0; i < sizeof *r; i += 8) {
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    word = *seed ^ *seed >> 29;
    memcpy((uint8_t *)r + i, &word, 8);
  }
}

/* Returns the name of the first register in which FOUND differs from EXPECTED, followed by its
 * number; NULL if all are equal. THOSE selects the general registers. */
static inline const char *registers_differ(const registers_t *found, const registers_t *expected,
                                           const int *those, size_t count, int *number) {
  for (size_t i = 0; i < count; i++)
    if (found->general[ *number = those[i]] != expected->general[those[i]]) return "general";
  for (*number = 0; *number < registers_vectors(); ++*number)
    if (memcmp(found->vectors[*number], expected->vectors[*number], (size_t)16 << registers_level))
      return "vector";
  for (*number = 0; registers_level == 2 && *number < 8; ++*number)
    if (found->masks[*number] != expected->masks[*number]) return "mask";
  for (*number = 0; *number < 8; ++*number)
    if (found->stack[*number] != expected->stack[*number]) return "stack";
  return NULL;
}

/* Calls FUNCTION, which leads to the target; the target records at SEEN and returns GIVEN. Returns
 * the first difference, or NULL. */
static inline const char *registers_check(void *function, registers_t *seen, registers_t *given,
                                          uint64_t *seed, int *number) {
  static registers_t in, out;
  registers_random(&in, seed);
  registers_random(given, seed);
  registers_call(function, &in, &out);
  const char *bad =
      registers_differ(seen, &in, arguments_of, sizeof arguments_of / sizeof *arguments_of, number);
  if (bad) return bad;
  /* The caller's own register, which no code may change. */
  memcpy(given->stack, in.stack, sizeof in.stack);
  bad = registers_differ(&out, given, results_of, sizeof results_of / sizeof *results_of, number);
  if (bad) return bad;
  for (*number = 0; *number < PRESERVED; ++*number)
    if (out.preserved[*number] != in.preserved[*number]) return "preserved";
  return NULL;
}

#endif
