/* SPDX-License-Identifier: MIT
 *
 * The memory map of a process, sorted by address: from the text of /proc/PID/maps or from the
 * NT_FILE note of a core file.
 */
#ifndef SONDE_TARGET_MAPS_H
#define SONDE_TARGET_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAP_READ  1u
#define MAP_WRITE 2u
#define MAP_EXEC  4u
/* Access is unknown: a core file may not record whether the mapping is code. */
#define MAP_UNKNOWN 8u

typedef struct mapping {
  /* end is one past the last byte */
  uint64_t start, end;
  /* of `start` in the file */
  uint64_t offset;
  /* 0: no file, or unknown */
  uint64_t inode;
  uint32_t dev_major, dev_minor;
  /* MAP_… */
  uint32_t access;
  /* index into modules_t, or MODULE_NONE */
  uint32_t module;
  /* the file was deleted */
  bool deleted;
  /* "" if anonymous; "[stack]" and similar names as they are */
  const char *path;
} mapping_t;

typedef struct maps {
  mapping_t *items;
  size_t count, capacity;
  /* the memory of the paths; owned */
  char *text;
} maps_t;

/* Parses TEXT in the form of proc_pid_maps(5): SIZE bytes with a final 0. Takes ownership of TEXT,
 * also on failure, and changes it. Skips malformed lines. False when memory runs out. */
bool maps_parse(maps_t *maps, char *text, size_t size);

/* Adds a mapping. Call maps_sort after the last one. */
bool maps_add(maps_t *maps, const mapping_t *mapping);
void maps_sort(maps_t *maps);
void maps_free(maps_t *maps);

/* The mapping that contains ADDRESS, or NULL. */
mapping_t *maps_find(const maps_t *maps, uint64_t address);

#endif
