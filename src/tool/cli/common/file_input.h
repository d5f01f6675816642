/* SPDX-License-Identifier: MIT
 *
 * Files that a verb reads as a whole. The functions return CLI_DONE, or print an error and return
 * CLI_FAILED.
 */
#ifndef SONDE_CLI_COMMON_FILE_INPUT_H
#define SONDE_CLI_COMMON_FILE_INPUT_H

#include <time.h>

#include "import/images.h"

typedef struct file_input {
  const uint8_t *data;
  uint64_t size;
  time_t changed;
} file_input_t;

/* Maps the file PATH until the process ends. */
int file_input_map(const char *path, file_input_t *out);

/* Reads the list of images in FILE, which was mapped from PATH. */
int file_input_images(const char *path, const file_input_t *file, image_list_t *out);

#endif
