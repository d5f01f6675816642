/* SPDX-License-Identifier: MIT
 *
 * The images of this process, each with an id.
 *
 * An id denotes one content at one address. An image gets an id when it is first met. If another
 * build is loaded at the same address, it gets another id. If the same build is loaded there again,
 * it has its old id. Entries are never moved, changed or freed, so anything reached through an id
 * may be kept. However, the memory of a live image may be unmapped while its sections still point
 * there. image_check reports whether the image is still mapped.
 *
 * All functions are async-signal-safe and lock-free. Ids have 15 bits; 0 means no image.
 */
#ifndef SONDE_IMAGE_LIST_H
#define SONDE_IMAGE_LIST_H

#include "image/image.h"

#define IMAGE_ID_MAX 0x7fffu

typedef uint16_t image_id_t;

typedef struct image_entry {
  image_t image;        /* parsed live */
  uint64_t header;      /* run-time address of the ELF header */
  uint64_t fingerprint; /* without a build-id: a hash of bytes that the loader does not change */
  const char *path;     /* to show: from the loader, else from the kernel; NULL: unknown */
  const char *file;     /* to open; NULL: unknown */
  image_id_t id;
  image_id_t next;     /* in the chain of a hash bucket */
  uint16_t generation; /* 1 for the first content seen at this address, 2 for the second, … */
  bool is_program, is_vdso, is_system;
  uint64_t standing_epoch; /* the image was last known to be mapped at this loader epoch */
  /* Of file.c: a copy of `image` with sections of its file; `image` itself if the file adds none;
   * NULL before the first image_complete. */
  const image_t *completed;
  uint64_t names; /* of name.c: the symbol index, built at the first look-up */
} image_entry_t;

/* Returns the id of the image that holds PC now. Returns 0 if there is none, if its header is not
 * readable, and if all ids are used. For an image met before, the cost is a few loads while the
 * loader epoch is unchanged, else one guarded read or more. */
image_id_t image_id_of_pc(uint64_t pc);

/* Returns the image ID, with the sections that image_complete added, or NULL if ID is not an id. */
const image_t *image_by_id(image_id_t id);
image_entry_t *image_entry(image_id_t id);

/* Adds search tables to an image that is not published yet; without BUILD, unmaps them. */
typedef void image_index_t(image_t *image, bool build);

/* For a pc of image ID that no unwind row covers: adds unwind sections from the image's file. These
 * are .eh_frame, if there is no .eh_frame_hdr to find it by, and a copy of .debug_frame. INDEX
 * (cfi_index, of a module above) adds their search tables. Opens the file once for each image;
 * later calls cost a load. Returns the image if sections were added, else NULL. */
const image_t *image_complete(image_id_t id, image_index_t *index);

/* Returns true if the image ID is still mapped at its address. Costs a few loads while the loader
 * epoch is unchanged, else one guarded comparison of the build-id (or fingerprint). */
bool image_check(image_id_t id);

/* Calls VISIT for each loaded image, in load order, until it returns false. */
void image_list_each(bool (*visit)(image_entry_t *entry, void *context), void *context);

/* Returns the fingerprint of an image without a build-id, live or from a file, whose header is at
 * HEADER. Returns 0 if its bytes cannot be read. */
uint64_t image_fingerprint(const image_t *image, const uint8_t *header);

#endif
