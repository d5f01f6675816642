/* SPDX-License-Identifier: MIT
 *
 * Where Ruby 3.1 keeps its frames: offsets of fields in bytes, on Linux for x86_64.
 *
 * The structures are private to Ruby, and their layout is constant within a minor version. Source
 * of the table: offsetof in the headers vm_core.h, ractor_core.h, iseq.h and method.h of Ruby
 * 3.1.2, with the configuration of Debian's ruby3.1-dev. Some of these structures contain locks of
 * the C library, so other processors have other offsets.
 */
#ifndef SONDE_TARGET_INTERPRETER_RUBY_LAYOUT_H
#define SONDE_TARGET_INTERPRETER_RUBY_LAYOUT_H

enum {
  /* rb_vm_t: the list of ractors, the array of arrays of marked objects */
  RUBY_VM_RACTORS = 8,
  RUBY_VM_MARKED = 328,
  /* rb_ractor_t: the list of threads, the node in the list of ractors */
  RUBY_RACTOR_THREADS = 304,
  RUBY_RACTOR_NODE = 568,
  /* rb_thread_t, which begins with the node in the list of threads */
  RUBY_THREAD_CONTEXT = 40,
  RUBY_THREAD_HANDLE = 80,
  /* rb_execution_context_t: vm_stack, vm_stack_size, cfp */
  RUBY_CONTEXT_BYTES = 24,
  /* rb_control_frame_t */
  RUBY_FRAME_PC = 0,
  RUBY_FRAME_CODE = 16,
  RUBY_FRAME_ENVIRONMENT = 32,
  RUBY_FRAME_BYTES = 64,
  /* rb_iseq_t, and its struct rb_iseq_constant_body */
  RUBY_CODE_BODY = 16,
  RUBY_BODY_SIZE = 4,
  RUBY_BODY_INSTRUCTIONS = 8,
  RUBY_BODY_PATH = 64,
  RUBY_BODY_LABEL = 80,
  RUBY_BODY_FIRST_LINE = 88,
  RUBY_BODY_LINES = 120,
  RUBY_BODY_LINES_COUNT = 136,
  RUBY_BODY_LINES_INDEX = 144,
  RUBY_BODY_COMPILED = 280,
  RUBY_BODY_BYTES = 288,
  /* struct iseq_insn_info_entry, which begins with the line */
  RUBY_LINE_BYTES = 12,
  /* struct vm_svar, rb_method_entry_t and rb_method_definition_t */
  RUBY_VARIABLES_METHOD = 8,
  RUBY_METHOD_DEFINITION = 16,
  RUBY_DEFINITION_NAME = 32,
};

/* Words before the flags of an environment: that of the method. */
#define RUBY_ENVIRONMENT_METHOD 2

/* Values up to this one in RUBY_BODY_COMPILED are states of the JIT compiler, not code. */
#define RUBY_COMPILED_NOT 16

/* Types of frames, and flags. */
#define RUBY_FRAME_TYPE     UINT64_C(0x7fff0001)
#define RUBY_FRAME_CFUNC    UINT64_C(0x55550001)
#define RUBY_FRAME_DUMMY    UINT64_C(0x79990001)
#define RUBY_FRAME_FINISHES UINT64_C(0x20)
#define RUBY_FRAME_IS_C     UINT64_C(0x80)

/* Objects: the word of flags has the type in its lowest bits. */
#define RUBY_TYPE               UINT64_C(0x1f)
#define RUBY_STRING             5
#define RUBY_ARRAY              7
#define RUBY_INTERNAL           26
#define RUBY_INTERNAL_OF(flags) ((flags) >> 12 & 0xf)
#define RUBY_IS_VARIABLES       2
#define RUBY_IS_METHOD          6
/* of a string: its bytes are elsewhere; of an array: its items are in the object */
#define RUBY_FLAG_1 (UINT64_C(1) << 13)

/* Identifiers: those of operators, the lowest ones, are numbers of symbols; of the others the lower
 * bits are the kind. The table of symbols has arrays of pairs, of which the first is the name. */
#define RUBY_LAST_OPERATOR   169
#define RUBY_IDENTIFIER_KIND 4
#define RUBY_SYMBOLS_IN_ONE  512
#define RUBY_SYMBOL_WORDS    2

#endif
