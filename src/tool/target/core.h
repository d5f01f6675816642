/* SPDX-License-Identifier: MIT
 *
 * Parses an ELF core file: memory segments, threads, memory map. core.c makes a target of it.
 */
#ifndef SONDE_TARGET_CORE_H
#define SONDE_TARGET_CORE_H

#include <limits.h>

#include "target/target.h"

/* A segment of the dumped program's memory. */
typedef struct core_segment {
  /* addresses */
  uint64_t start, size;
  /* place in the file, and how many of its bytes the file has */
  uint64_t offset, held;
  /* MAP_… */
  uint32_t access;
} core_segment_t;

typedef struct core core_t;
struct core {
  /* must be first */
  memory_t memory;
  target_t *target;
  const uint8_t *bytes;
  uint64_t size;
  bool is_mapped;
  /* sorted by address */
  core_segment_t *segments;
  size_t segment_count;
  /* AT_SYSINFO_EHDR */
  uint64_t vdso;
  /* AT_PHDR: the program headers of the main executable */
  uint64_t header;
  /* the absolute path of the executable that the user named; NULL: none */
  const char *exe;
  char exe_path[PATH_MAX];
  /* folders that have the files of the dumped program's machine, up to a NULL; NULL: none */
  const char *const *sysroots;
  /* Adds mappings that the notes do not list; NULL if there are none. */
  bool (*add_missing)(struct core *core);
};

/* Reads the core file DATA into TARGET: segments, threads, memory map. The SIZE bytes must stay
 * valid. False with PROBLEM if it is not a core file. Missing parts are not a failure. */
bool core_parse(target_t *target, core_t *core, const uint8_t *data, uint64_t size,
                problem_t *problem);

/* Reads memory that the core file contains. */
bool core_read_held(const core_t *core, uint64_t address, void *out, size_t size);

void core_free(core_t *core);

#endif
