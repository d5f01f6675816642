/* SPDX-License-Identifier: MIT
 *
 * Names put into the JSON of `sonde stacks` afterwards, for stacks that were taken where the debug
 * files were not.
 */
#ifndef SONDE_REPORT_STACKS_RESYMBOLIZE_H
#define SONDE_REPORT_STACKS_RESYMBOLIZE_H

#include <json-c/json.h>
#include <stddef.h>

#include "symbol/symbol.h"

/* Names the frames of DOCUMENT in place, as far as SYMBOLIZER knows them; a frame that it does not
 * know stays as it is. Modules are found by their build-id, and by their path when the file there
 * is of that build. Returns how many frames were named, or -1 when DOCUMENT is no such JSON. */
long resymbolize_stacks(json_object *document, symbolizer_t *symbolizer);

/* What a frame of such JSON says of its function; the strings belong to FRAME. */
void resymbolize_read(json_object *frame, symbol_frame_t *function);

#endif
