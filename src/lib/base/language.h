/* SPDX-License-Identifier: MIT
 *
 * The pc that stands for a function of an interpreted language: a number outside of every address
 * space that user programs have, so that stacks, tables and files need no second kind of frame.
 * Bits 63:48 name the language; the others are the language's own.
 *
 * A recording outlives the numbers that a process gives to functions, and several writers
 * contribute to it. There the bits 47:0 are a hash of the function's name, file and line, which are
 * in the recording too.
 */
#ifndef SONDE_BASE_LANGUAGE_H
#define SONDE_BASE_LANGUAGE_H

#include <stdint.h>

typedef enum language {
  LANGUAGE_NATIVE,
  LANGUAGE_PYTHON,
  LANGUAGE_RUBY,
  LANGUAGE_PHP,
  LANGUAGE_LUA,
  LANGUAGE_PERL,
  LANGUAGE_COUNT
} language_t;

/* "Py", "Rb", "Ph", "Lu" and "Pl" */
#define PYTHON_PC_TAG UINT64_C(0x5079)
#define RUBY_PC_TAG   UINT64_C(0x5262)
#define PHP_PC_TAG    UINT64_C(0x5068)
#define LUA_PC_TAG    UINT64_C(0x4c75)
#define PERL_PC_TAG   UINT64_C(0x506c)

#define LANGUAGE_PC_MASK ((UINT64_C(1) << 48) - 1)

static inline language_t language_of_pc(uint64_t pc) {
  switch (pc >> 48) {
  case PYTHON_PC_TAG: return LANGUAGE_PYTHON;
  case RUBY_PC_TAG: return LANGUAGE_RUBY;
  case PHP_PC_TAG: return LANGUAGE_PHP;
  case LUA_PC_TAG: return LANGUAGE_LUA;
  case PERL_PC_TAG: return LANGUAGE_PERL;
  default: return LANGUAGE_NATIVE;
  }
}

/* The tag of LANGUAGE, which is not native. */
static inline uint64_t language_tag(language_t language) {
  switch (language) {
  case LANGUAGE_PYTHON: return PYTHON_PC_TAG;
  case LANGUAGE_RUBY: return RUBY_PC_TAG;
  case LANGUAGE_PHP: return PHP_PC_TAG;
  case LANGUAGE_LUA: return LUA_PC_TAG;
  case LANGUAGE_PERL: return PERL_PC_TAG;
  default: return 0;
  }
}

/* FNV-1a of the function's name, its file, both with their final 0, and its line. */
static inline uint64_t language_name_hash(const char *function, const char *file, uint32_t line) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  const char *const texts[] = {function, file};
  for (int i = 0; i < 2; i++)
    for (const char *p = texts[i];; p++) {
      hash = (hash ^ (uint8_t)*p) * UINT64_C(0x100000001b3);
      if (!*p) break;
    }
  for (int i = 0; i < 4; i++, line >>= 8)
    hash = (hash ^ (line & 0xff)) * UINT64_C(0x100000001b3);
  return hash ? hash : 1;
}

/* The pc in a recording of a function of the language with TAG, whose name, file and line have
 * HASH. */
static inline uint64_t language_recorded_pc(uint64_t tag, uint64_t hash) {
  return tag << 48 | (hash & LANGUAGE_PC_MASK);
}

#endif
