/* SPDX-License-Identifier: MIT
 *
 * How much code a recorded function has, by the symbol tables of the files that were loaded.
 */
#ifndef SONDE_REPORT_FUNCTION_SIZES_H
#define SONDE_REPORT_FUNCTION_SIZES_H

#include "reader/reader.h"

typedef struct function_sizes function_sizes_t;

/* NULL without memory. The reader must outlive it. */
function_sizes_t *function_sizes_new(const reader_t *reader);
void function_sizes_free(function_sizes_t *sizes);

/* Bytes of the function at FRAME; 0 where nothing says it: a stripped file, or one that is not the
 * build that was loaded, a symbol without a size. */
uint64_t function_size_of(function_sizes_t *sizes, const record_frame_t *frame);

#endif
