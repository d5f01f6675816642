/* SPDX-License-Identifier: MIT
 *
 * The file that a live image came from.
 */
#ifndef SONDE_IMAGE_FILE_H
#define SONDE_IMAGE_FILE_H

#include "image/list.h"

/* Opens the file of ENTRY, proved to be its by build-id, or by fingerprint where there is none.
 * False when there is no file, it cannot be read, or it is another one. FILE must be zeroed;
 * release with image_close. Async-signal-safe. */
bool image_file_open(const image_entry_t *entry, image_t *file);

#endif
