/* SPDX-License-Identifier: MIT
 *
 * Where PHP 8.2 keeps its frames: offsets of fields in bytes, for 64-bit builds without threads.
 *
 * The structures are constant within a minor version (ZEND_MODULE_API_NO). Source of the table:
 * offsetof in the headers of Debian's php8.2-dev: zend_globals.h, zend_compile.h,
 * zend_generators.h, zend_modules.h. A build with another configuration has an executor_globals of
 * another size.
 */
#ifndef SONDE_TARGET_INTERPRETER_PHP_LAYOUT_H
#define SONDE_TARGET_INTERPRETER_PHP_LAYOUT_H

enum {
  /* the table of modules: its buckets, and how many it has; a bucket begins with the pointer to a
   * zend_module_entry */
  PHP_TABLE_BUCKETS = 16,
  PHP_TABLE_USED = 24,
  PHP_MODULE_API = 4,
  PHP_MODULE_DEBUG = 8,
  PHP_MODULE_THREADS = 9,
  PHP_MODULE_BYTES = 10,
  /* zend_executor_globals */
  PHP_GLOBALS_FRAME = 488,
  PHP_GLOBALS_BEFORE_EXCEPTION = 880,
  PHP_GLOBALS_EXCEPTION = 888,
  PHP_GLOBALS_BYTES = 1800,
  /* zend_execute_data */
  PHP_FRAME_INSTRUCTION = 0,
  PHP_FRAME_FUNCTION = 24,
  PHP_FRAME_THIS = 32,
  PHP_FRAME_FLAGS = 40,
  PHP_FRAME_CALLER = 48,
  PHP_FRAME_BYTES = 56,
  /* zend_op_array; zend_internal_function begins in the same way */
  PHP_FUNCTION_TYPE = 0,
  PHP_FUNCTION_NAME = 8,
  PHP_FUNCTION_CLASS = 16,
  PHP_CODE_COUNT = 80,
  PHP_CODE_INSTRUCTIONS = 88,
  PHP_CODE_FILE = 152,
  PHP_CODE_LAST_LINE = 164,
  PHP_CODE_BYTES = 168,
  /* zend_op */
  PHP_INSTRUCTION_DETAIL = 20,
  PHP_INSTRUCTION_LINE = 24,
  PHP_INSTRUCTION_NUMBER = 28,
  PHP_INSTRUCTION_BYTES = 32,
  /* zend_string, zend_class_entry, zend_object */
  PHP_TEXT_LENGTH = 16,
  PHP_TEXT_DATA = 24,
  PHP_CLASS_NAME = 8,
  PHP_OBJECT_CLASS = 16,
  /* zend_generator: its frame, and the generator that it delegates to */
  PHP_GENERATOR_FRAME = 56,
  PHP_GENERATOR_INNER = 152,
};

#define PHP_MODULE_API_NUMBER 20220829u
/* Instructions at PHP_GLOBALS_EXCEPTION: a frame that raises an exception is at one of them. */
#define PHP_EXCEPTION_INSTRUCTIONS 3

enum { PHP_INTERNAL = 1, PHP_USER = 2, PHP_EVAL = 4 };

/* Flags of a frame: the type of `This`, and whether the frame ends a call of the evaluator. */
#define PHP_FRAME_TYPE 0xffu
#define PHP_OBJECT     8u
#define PHP_FRAME_TOP  (1u << 17)

/* The instruction that includes a file, and what its detail says. */
#define PHP_INCLUDE             73
#define PHP_DETAIL_EVAL         1u
#define PHP_DETAIL_INCLUDE      2u
#define PHP_DETAIL_INCLUDE_ONCE 4u
#define PHP_DETAIL_REQUIRE      8u
#define PHP_DETAIL_REQUIRE_ONCE 16u

#endif
