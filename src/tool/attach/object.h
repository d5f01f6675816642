/* SPDX-License-Identifier: MIT
 *
 * A shared object that needs no loader: an ELF file with RELATIVE relocations and references to
 * itself only, without thread-local storage, dependencies and undefined symbols. Pure: reads a
 * file and memory of this process.
 */
#ifndef SONDE_ATTACH_OBJECT_H
#define SONDE_ATTACH_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/target.h"

#define OBJECT_SEGMENTS_MAX 12u
#define OBJECT_BUILD_ID_MAX 64u

/* A range of the object's addresses with its final access. Page-aligned at both ends. */
typedef struct object_segment {
  uint64_t start, end;
  int protection; /* PROT_… */
} object_segment_t;

typedef struct object {
  uint8_t *image;  /* `filled` bytes: the segments as in the file; owned */
  uint64_t size;   /* a multiple of the page size */
  uint64_t filled; /* a multiple of the page size; the bytes from here to `size` are 0: .bss */
  object_segment_t segments[OBJECT_SEGMENTS_MAX];
  size_t segment_count;          /* the last may make a part of an earlier one read-only */
  uint64_t init_start, init_end; /* the array of initializers, relative to the image */
  uint64_t entry;                /* of sonde_attach_run */
  uint64_t build_id_at;          /* where the image has the build-id */
  uint8_t build_id[OBJECT_BUILD_ID_MAX];
  size_t build_id_size;  /* 0: none */
  uint64_t *relocations; /* pairs of place and value relative to the image; owned */
  size_t relocation_count, relocation_capacity;
} object_t;

/* Opens the file PATH. False with PROBLEM if it is not such an object. */
bool object_open(object_t *object, const char *path, problem_t *problem);
void object_close(object_t *object);

/* Relocates the image for the address BASE. May be called again for another address. */
void object_relocate(object_t *object, uint64_t base);

#endif
