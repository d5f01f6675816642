/* SPDX-License-Identifier: MIT
 *
 * Files that a verb takes in whole. What goes wrong has been said when these return other than
 * CLI_DONE.
 */
#ifndef SONDE_CLI_COMMON_FILE_INPUT_H
#define SONDE_CLI_COMMON_FILE_INPUT_H

#include <time.h>

#include "import/images.h"

typedef struct input {
  const uint8_t *data;
  uint64_t size;
  time_t changed;
} input_t;

/* Maps the file PATH, for the life of the process. */
int file_input_map(const char *path, input_t *out);

/* The list of images in FILE, which was mapped from PATH. */
int read_images(const char *path, const input_t *file, image_list_t *out);

#endif
