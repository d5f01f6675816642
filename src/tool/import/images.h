/* SPDX-License-Identifier: MIT
 *
 * Lists of the images of a process, as other tools print them:
 *   - text: lines of a crash report's "Binary Images" (0xSTART - 0xEND [+]NAME [ARCH] [(VERSION)]
 *     <UUID> PATH), also as the debugger prints them ([N] UUID 0xSTART PATH), or simply START PATH
 *   - JSON: an .ips report's `usedImages` (base, size, uuid, path, arch), or an array of such
 * objects
 */
#ifndef SONDE_IMPORT_IMAGES_H
#define SONDE_IMPORT_IMAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/machine.h"
#include "symbol/symbol.h"

typedef struct listed_image {
  uint64_t start, end; /* end 0: not said */
  uint8_t uuid[16];
  bool has_uuid;
  image_machine_t machine; /* IMAGE_MACHINE_UNKNOWN: not said */
  char *path;              /* or a name */
} listed_image_t;

typedef struct image_list {
  listed_image_t
      *items; /* ascending by start; `end` is set: where the next one starts at the latest */
  size_t count, room;
} image_list_t;

/* What a list tells of one image, as it tells it. NULL or 0: not said. */
typedef struct image_words {
  uint64_t start, size;
  const char *path, *uuid, *arch;
} image_words_t;

/* Reads the SIZE characters of TEXT. False when there is no memory; a list without images is empty.
 */
bool images_read(image_list_t *list, const char *text, size_t size);
void images_free(image_list_t *list);

/* To gather a list from several places: each adds to it, and when all have it is settled, which
 * sorts it and leaves one image an address. False: no memory. */
bool images_add(image_list_t *list,
                const image_words_t *words); /* without start or path: nothing */
bool images_add_text(image_list_t *list, const char *text, size_t size);
void images_settle(image_list_t *list);

/* The number (from 0) of the image that holds ADDRESS; -1: none. */
long images_find(const image_list_t *list, uint64_t address);

/* Names for addresses in IMAGE: its module; NULL when there is no memory. */
symbol_module_t *images_module(symbolizer_t *symbolizer, const listed_image_t *image);

/* Where the linker put IMAGE: told by the files of its MODULE (may be NULL), else by what Apple's
 * linker does. */
uint64_t images_link_base(symbol_module_t *module, const listed_image_t *image);

#endif
