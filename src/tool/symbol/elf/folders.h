/* SPDX-License-Identifier: MIT
 *
 * The ELF files of flat folders by build-id. A folder is read once, at the first search in it; the
 * files of its subfolders do not count. One thread uses these functions.
 */
#ifndef SONDE_SYMBOL_ELF_FOLDERS_H
#define SONDE_SYMBOL_ELF_FOLDERS_H

#include "symbol/places.h"

/* The path of the next file in FOLDER with the build-id of SIZE bytes, valid as long as *FOLDERS.
 * *PLACE is 0 at first. NULL after the last, and when memory runs out. */
const char *elf_folders_find(elf_folders_t **folders, const char *folder, const uint8_t *id,
                             size_t size, size_t *place);
void elf_folders_free(elf_folders_t *folders);

/* Opens only a regular file: a FIFO or a device could block, or never end. -1: it is not one. */
int elf_open_regular(const char *path);

#endif
