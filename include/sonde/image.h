/* SPDX-License-Identifier: MIT
 *
 * The images of this process: the program, its libraries, the vDSO.
 *
 * All functions here may be called by any thread, in a signal handler, inside malloc and after
 * fork. They do not call malloc or functions of the dynamic loader, take no lock and do not change
 * errno.
 */
#ifndef SONDE_IMAGE_H
#define SONDE_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "sonde/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of images; a set of bits. */
#define SONDE_IMAGE_PROGRAM 1u /* the main executable */
#define SONDE_IMAGE_VDSO    2u /* mapped by the kernel, without a file */
/* The dynamic loader, libc and its family, C++ and compiler runtimes, the vDSO, sonde; never the
 * program itself. */
#define SONDE_IMAGE_SYSTEM 4u

/* Permissions of a segment; a set of bits. */
#define SONDE_SEGMENT_EXECUTE 1u
#define SONDE_SEGMENT_WRITE   2u
#define SONDE_SEGMENT_READ    4u

#define SONDE_SEGMENTS_MAX 16

typedef struct sonde_segment {
  uintptr_t address; /* where it is mapped */
  size_t size;       /* bytes in memory */
  unsigned flags;    /* SONDE_SEGMENT_… */
} sonde_segment_t;

/* One image. The memory that it points to stays valid and unchanged as long as the process lives,
 * also after dlclose. */
typedef struct sonde_image {
  /* 1 to 32767. A build that is loaded again at the same address keeps its id; another build at
   * that address has another id. */
  uint32_t id;
  unsigned flags;   /* SONDE_IMAGE_… */
  const char *path; /* NULL: unknown. For a deleted file, its former path */
  const uint8_t *build_id;
  size_t build_id_size; /* bytes; 0: none */
  uintptr_t slide;      /* address in memory minus address as linked */
  uintptr_t start, end; /* lowest address, and one past the highest */
  unsigned segment_count;
  sonde_segment_t segments[SONDE_SEGMENTS_MAX];
} sonde_image_t;

/* Calls VISIT for each image that is loaded now, in load order, with CONTEXT; stops when VISIT
 * returns nonzero. *IMAGE is valid until VISIT returns. Returns the number of images visited. Skips
 * images whose ELF header the loader did not map. */
SONDE_API int sonde_images(int (*visit)(const sonde_image_t *image, void *context), void *context);

/* Describes the image that contains PC. Returns 0; SONDE_ENOTFOUND if no image contains PC;
 * SONDE_EINVAL if IMAGE is NULL. */
SONDE_API int sonde_image_of_pc(uintptr_t pc, sonde_image_t *image);

#ifdef __cplusplus
}
#endif
#endif
