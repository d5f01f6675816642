/* SPDX-License-Identifier: MIT
 *
 * The parts of an ELF core file, read from its bytes. See core.c.
 */
#ifndef SONDE_TARGET_CORE_H
#define SONDE_TARGET_CORE_H

#include <limits.h>

#include "target/target.h"

/* A piece of the dumped program's memory. */
typedef struct core_segment {
  uint64_t start, size;  /* addresses */
  uint64_t offset, held; /* where in the file, and how many of its bytes are there */
  uint32_t access;       /* MAP_… */
} core_segment_t;

typedef struct core core_t;
struct core {
  memory_t memory; /* first */
  target_t *target;
  const uint8_t *bytes;
  uint64_t size;
  bool is_mapped;
  core_segment_t *segments; /* by address */
  size_t segment_count;
  uint64_t vdso;   /* AT_SYSINFO_EHDR */
  uint64_t header; /* AT_PHDR: the program headers of the main executable */
  const char *exe; /* as the user gave it, made absolute; NULL */
  char exe_path[PATH_MAX];
  /* Adds mappings that the notes do not tell of; NULL when nothing more is known. */
  bool (*add_missing)(struct core *core);
};

/* Reads the core file DATA (SIZE bytes, kept by the caller) into TARGET: segments, threads, memory
 * map. False with PROBLEM when it is none. Never fails for what is merely missing. */
bool core_parse(target_t *target, core_t *core, const uint8_t *data, uint64_t size,
                problem_t *problem);

/* Reads memory that the core file itself holds. */
bool core_read_held(const core_t *core, uint64_t address, void *out, size_t size);

void core_free(core_t *core);

#endif
