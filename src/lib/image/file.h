/* SPDX-License-Identifier: MIT
 *
 * The file of a live image.
 */
#ifndef SONDE_IMAGE_FILE_H
#define SONDE_IMAGE_FILE_H

#include "image/list.h"

/* Opens the file of ENTRY and checks that its build-id (or fingerprint, if it has none) is that of
 * the image. Returns false if the file is missing, unreadable or another one. FILE must be zeroed;
 * release it with image_close. Async-signal-safe. */
bool image_file_open(const image_entry_t *entry, image_t *file);

#endif
