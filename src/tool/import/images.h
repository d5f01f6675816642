/* SPDX-License-Identifier: MIT
 *
 * Lists of the images of a process, as other tools print them:
 *   - text: lines of a crash report's "Binary Images" (0xSTART - 0xEND [+]NAME [ARCH] [(VERSION)]
 *     <UUID> PATH), lines of a debugger ([N] UUID 0xSTART PATH), or lines START PATH
 *   - JSON: `usedImages` of an .ips report (base, size, uuid, path, arch), or an array of such
 *     objects
 */
#ifndef SONDE_IMPORT_IMAGES_H
#define SONDE_IMPORT_IMAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/machine.h"
#include "symbol/symbol.h"

typedef struct listed_image {
  uint64_t start, end; /* end 0: unknown */
  uint8_t uuid[16];
  bool has_uuid;
  image_machine_t machine; /* may be IMAGE_MACHINE_UNKNOWN */
  char *path;              /* or a name */
} listed_image_t;

typedef struct image_list {
  listed_image_t *items; /* ascending by start; `end` is set, at most the next one's start */
  size_t count, capacity;
} image_list_t;

/* The facts about one image, as in the list. NULL or 0: unknown. */
typedef struct image_words {
  uint64_t start, size;
  const char *path, *uuid, *arch;
} image_words_t;

/* Reads the SIZE characters of TEXT; without images the list is empty. False when memory runs out.
 */
bool images_read(image_list_t *list, const char *text, size_t size);
void images_free(image_list_t *list);

/* To gather a list from several places, add images, then call images_finish, which sorts the list
 * and keeps one image for each address. False when memory runs out. */
/* Ignores an image without start or path. */
bool images_add(image_list_t *list, const image_words_t *words);
bool images_add_text(image_list_t *list, const char *text, size_t size);
void images_finish(image_list_t *list);

/* The index of the image that contains ADDRESS; -1: none. */
long images_find(const image_list_t *list, uint64_t address);

/* The module of IMAGE; NULL when memory runs out. */
symbol_module_t *images_module(symbolizer_t *symbolizer, const listed_image_t *image);

/* The address of IMAGE as linked: from the files of MODULE (may be NULL), else Apple's linker's
 * default. */
uint64_t images_link_base(symbol_module_t *module, const listed_image_t *image);

#endif
