/* SPDX-License-Identifier: MIT
 *
 * The images (the program, its libraries, the vDSO) of this process.
 *
 * Everything here may be called by any thread, in a signal handler, inside malloc and after fork.
 * Nothing here allocates with malloc, takes a lock, asks the dynamic loader by its functions, or
 * changes errno.
 */
#ifndef SONDE_IMAGE_H
#define SONDE_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "sonde/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What an image is; a set of bits. */
#define SONDE_IMAGE_PROGRAM 1u /* the main executable */
#define SONDE_IMAGE_VDSO    2u /* mapped by the kernel, from no file */
#define SONDE_IMAGE_SYSTEM                                                                         \
  4u /* the dynamic loader, libc and its family, C++ and compiler runtimes,                        \
        the vDSO, sonde; the program itself never is */

/* How a segment may be used; a set of bits. */
#define SONDE_SEGMENT_EXECUTE 1u
#define SONDE_SEGMENT_WRITE   2u
#define SONDE_SEGMENT_READ    4u

#define SONDE_SEGMENTS_MAX 16

typedef struct sonde_segment {
  uintptr_t address; /* where it is mapped */
  size_t size;       /* bytes in memory */
  unsigned flags;    /* SONDE_SEGMENT_… */
} sonde_segment_t;

/* One image. What it points to stays as it is for the life of the process, also after dlclose. */
typedef struct sonde_image {
  uint32_t id;      /* from 1 to 32767: the same for the same build at the same address, reloaded
                       or not; another one for another build there */
  unsigned flags;   /* SONDE_IMAGE_… */
  const char *path; /* NULL: nobody knows it. A deleted file has the path it had */
  const uint8_t *build_id;
  size_t build_id_size; /* bytes; 0: it has none */
  uintptr_t slide;      /* address in memory minus address as linked */
  uintptr_t start, end; /* lowest address, and one past the highest */
  unsigned segment_count;
  sonde_segment_t segments[SONDE_SEGMENTS_MAX];
} sonde_image_t;

/* Calls VISIT with each image that is loaded now, in load order, and with CONTEXT; stops when VISIT
 * returns anything but 0. The image that VISIT is given is valid until VISIT returns. Returns how
 * many were visited. An image whose ELF header the loader did not map is left out. */
SONDE_API int sonde_images(int (*visit)(const sonde_image_t *image, void *context), void *context);

/* Describes the image that holds PC. Returns 0, or SONDE_ENOTFOUND when none does, SONDE_EINVAL
 * when IMAGE is NULL. */
SONDE_API int sonde_image_of_pc(uintptr_t pc, sonde_image_t *image);

#ifdef __cplusplus
}
#endif
#endif
