/* SPDX-License-Identifier: MIT
 *
 * The memory map of a process: what lies where, from which file. Made from the text of
 * /proc/PID/maps or from the NT_FILE note of a core file; sorted by address.
 */
#ifndef SONDE_TARGET_MAPS_H
#define SONDE_TARGET_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAP_READ    1u
#define MAP_WRITE   2u
#define MAP_EXEC    4u
#define MAP_UNKNOWN 8u /* a core file does not say whether it is code */

typedef struct mapping {
  uint64_t start, end; /* end is one past the last byte */
  uint64_t offset;     /* of START in the file */
  uint64_t inode;      /* 0 when no file stands behind it, or it is not known */
  uint32_t dev_major, dev_minor;
  uint32_t access;  /* MAP_… */
  uint32_t module;  /* index into modules_t, MODULE_NONE when it belongs to none */
  bool deleted;     /* the file has no name any more */
  const char *path; /* "" when anonymous; "[stack]" and the like are kept */
} mapping_t;

typedef struct maps {
  mapping_t *items;
  size_t count, room;
  char *text; /* what the paths point into; owned */
} maps_t;

/* Parses TEXT, SIZE bytes that end with a 0 and are changed in place, in the form of
 * proc_pid_maps(5). Takes TEXT over, also on failure. Lines that do not parse are left out. Returns
 * false when memory is short. */
bool maps_parse(maps_t *maps, char *text, size_t size);

/* Adds one mapping; maps_sort when all are there. */
bool maps_add(maps_t *maps, const mapping_t *mapping);
void maps_sort(maps_t *maps);
void maps_free(maps_t *maps);

/* The mapping that holds ADDRESS, or NULL. */
mapping_t *maps_find(const maps_t *maps, uint64_t address);

#endif
