/* SPDX-License-Identifier: MIT
 *
 * Code sizes of recorded functions, from the symbol tables of the loaded files.
 */
#ifndef SONDE_REPORT_FUNCTION_SIZES_H
#define SONDE_REPORT_FUNCTION_SIZES_H

#include "reader/reader.h"

typedef struct function_sizes function_sizes_t;

/* NULL: out of memory. The reader must outlive it. */
function_sizes_t *function_sizes_new(const reader_t *reader);
void function_sizes_free(function_sizes_t *sizes);

/* The code size of the function at FRAME in bytes; 0: unknown, for a stripped file, another build
 * or a symbol without size. */
uint64_t function_size_of(function_sizes_t *sizes, const record_frame_t *frame);

#endif
