/* SPDX-License-Identifier: MIT
 *
 * The signatures of stacks, made again after frames got names.
 */
#ifndef SONDE_STORE_SIGNATURES_H
#define SONDE_STORE_SIGNATURES_H

#include "store/engine.h"
#include "store/id_set.h"

/* The labels of frames. It begins as zeros. */
typedef struct frame_labels {
  id_set_t frames;
  ARRAY(uint64_t) labels; /* in their order */
} frame_labels_t;

/* Adds the label of FRAME, which has none yet. False: out of memory. */
bool frame_labels_add(frame_labels_t *labels, uint64_t frame, uint64_t label);
void frame_labels_free(frame_labels_t *labels);

/* The signature of the stack of FRAMES, as in the column `frames`. */
uint64_t signature_of(const frame_labels_t *labels, const store_value_t *frames);

/* Updates the signature of every stack whose frames' labels have changed. False: failed. */
bool signatures_update(engine_t *engine);

#endif
