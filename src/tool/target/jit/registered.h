/* SPDX-License-Identifier: MIT
 *
 * Code that a program has registered with GDB's JIT interface: it keeps a list of symbol files in
 * its memory, whose head is the variable __jit_debug_descriptor. LLVM, LuaJIT and others do so, if
 * they are built or told to.
 *
 * The program runs meanwhile. So the list is read again after its files were copied, and a file is
 * used only if it is in both lists: the files in the list do not change. A file that was used
 * before is used again only if its content is another one. One thread uses a jit_registered_t.
 */
#ifndef SONDE_TARGET_JIT_REGISTERED_H
#define SONDE_TARGET_JIT_REGISTERED_H

#include "base/array.h"
#include "target/jit/jit.h"

/* Lists: each library with a JIT compiler may have one. */
#define JIT_LISTS_MAX 8

/* An entry of a list: where it is, and its symbol file. */
typedef struct jit_file_place {
  uint64_t entry, address, size;
  /* of its content; 0: it was not used */
  uint64_t hash;
} jit_file_place_t;

typedef ARRAY(jit_file_place_t) jit_file_places_t;

typedef struct jit_registered {
  /* the addresses of the descriptors */
  uint64_t lists[JIT_LISTS_MAX];
  size_t list_count;
  /* what the last reading found, sorted */
  jit_file_places_t files;
  /* symbol files that were too large, or too many */
  uint64_t lost;
} jit_registered_t;

/* The memory of a target. A live process is read without the window of the walk: lists are all over
 * its memory. */
typedef struct jit_reader {
  /* must be first */
  memory_t memory;
  target_t *target;
} jit_reader_t;
jit_reader_t jit_reader(target_t *target);

/* Finds the descriptors in the images of TARGET. Opens all of them. */
void jit_registered_find(jit_registered_t *registered, target_t *target);

/* Calls VISIT for the files that are new since the last call. Returns whether there is any file. */
typedef void jit_file_visit_t(void *context, const uint8_t *data, size_t size);
bool jit_registered_read(jit_registered_t *registered, memory_t *memory, jit_file_visit_t *visit,
                         void *context);

/* Adds their functions to JIT. The last call began at EARLIEST_NS of CLOCK_MONOTONIC; 0: there was
 * none. */
bool jit_registered_add(jit_registered_t *registered, memory_t *memory, uint64_t earliest_ns,
                        jit_t *jit);

void jit_registered_free(jit_registered_t *registered);

#endif
