/* SPDX-License-Identifier: MIT
 *
 * The images of this process, seen from inside, each with an id.
 *
 * An id stands for one content at one address: the first sight of an image gives it an id, a reload
 * of another build at the same address gets another one, and a reload of the same build at the same
 * address has its old id again. Entries are never moved, changed or freed, so whatever is reached
 * through an id may be kept; what may vanish is the live image that its sections point into, and
 * image_check tells.
 *
 * All of it is async-signal-safe and lock-free. Ids have 15 bits; 0 is no image.
 */
#ifndef SONDE_IMAGE_LIST_H
#define SONDE_IMAGE_LIST_H

#include "image/image.h"

#define IMAGE_ID_MAX 0x7fffu

typedef uint16_t image_id_t;

typedef struct image_entry {
  image_t image;        /* parsed live */
  uint64_t header;      /* run-time address of the ELF header */
  uint64_t fingerprint; /* of an image without build-id: a hash of what the loader leaves as is */
  const char *path;     /* to show: as the loader or else the kernel tells it; NULL: nobody did */
  const char *file;     /* to open; NULL: nothing to try */
  image_id_t id;
  image_id_t next;     /* of the entries that share a hash bucket */
  uint16_t generation; /* 1 for the first content seen at this address, 2 for the second, … */
  bool is_program, is_vdso, is_system;
  uint64_t standing_epoch;  /* it was seen to stand at this epoch of the loader */
  const image_t *completed; /* of file.c: a copy of `image` with what its file added; `image` itself
                               when it adds nothing; NULL until that was asked for */
  uint64_t names;           /* of name.c: the symbol index, built when first asked for */
} image_entry_t;

/* The id of the image that holds PC at this moment. 0 when none does, when its ELF header is not
 * mapped or not readable, and when the ids are used up. A pc whose image was seen before costs a
 * few loads as long as the loader's epoch stands still, else one guarded read or more. */
image_id_t image_id_of_pc(uint64_t pc);

/* The image of an ID that was handed out, with what image_complete added; NULL for 0 and for a
 * number that never was. */
const image_t *image_by_id(image_id_t id);
image_entry_t *image_entry(image_id_t id);

/* For a pc of image ID that no unwind row covers: adds the unwind sections that memory gives no way
 * to, .eh_frame where there is no .eh_frame_hdr, and a copy of .debug_frame, from the image's own
 * file. Opens the file once an image; later calls cost a load. Returns the image when it has more
 * sections than when it was parsed, else NULL. */
const image_t *image_complete(image_id_t id);

/* Does the image ID still stand at its address? A few loads while the loader's epoch stands still,
 * else one guarded comparison of the build-id (or fingerprint). */
bool image_check(image_id_t id);

/* Calls VISIT for each image that is loaded now, in load order, until it returns false. */
void image_list_each(bool (*visit)(image_entry_t *entry, void *context), void *context);

/* The hash of an image without build-id, live or a file, whose ELF header is at HEADER. 0 when its
 * bytes cannot be read. */
uint64_t image_fingerprint(const image_t *image, const uint8_t *header);

#endif
