/* SPDX-License-Identifier: MIT
 *
 * Symbolizes the JSON of `sonde stacks` on another machine, which has the debug files.
 */
#ifndef SONDE_REPORT_STACKS_RESYMBOLIZE_H
#define SONDE_REPORT_STACKS_RESYMBOLIZE_H

#include <json-c/json.h>
#include <stddef.h>

#include "symbol/symbol.h"

/* Symbolizes the frames of DOCUMENT in place; unknown frames stay unchanged. Modules are found by
 * build-id, or by path if the file has that build-id. Returns the number of named frames; -1:
 * DOCUMENT is not such JSON. */
long resymbolize_stacks(json_object *document, symbolizer_t *symbolizer);

/* Reads the function of a JSON frame; the strings belong to FRAME. */
void resymbolize_read(json_object *frame, symbol_frame_t *function);

#endif
