/* SPDX-License-Identifier: MIT
 *
 * The contents of a recording's tables as rows of a store: images, frames, their names, stacks and
 * causes, each with an id that is a hash of its content.
 *
 * - An image is its build-id, or without one the name of its file.
 * - A frame is its image, the offset of its pc from the image's link address, and whether the pc is
 *   exact. A frame that the recording names itself and that is in no image is its name.
 * - A stack is its frames in order. So equal stacks are equal whatever the addresses of their
 * images, on every device and in every run.
 * - A signature is the names of the stack's functions, or frames where there are none: it relates
 *   stacks of different builds.
 *
 * An id has 64 bits: among a billion different stacks, two have equal ids with a probability of
 * 3 %.
 */
#ifndef SONDE_STORE_CONTENT_H
#define SONDE_STORE_CONTENT_H

#include "reader/reader.h"
#include "store/engine.h"
#include "store/id_set.h"

/* What this process knows to be in the database. */
typedef struct content_known {
  id_set_t rows[STORE_TABLE_COUNT];
  ARRAY(uint64_t) labels; /* of the frames in rows[STORE_FRAMES] */
  bool relabeled;         /* frames got names: signatures of their stacks are out of date */
} content_known_t;

void content_known_free(content_known_t *known);

/* Inserts a row unless it is known or there. False: failed. */
bool content_insert(engine_t *engine, content_known_t *known, store_table_id_t table,
                    const store_value_t *values);

typedef struct content content_t;

/* READER, ENGINE and KNOWN must outlive it. NULL: out of memory. */
content_t *content_new(const reader_t *reader, engine_t *engine, content_known_t *known);
void content_free(content_t *content);

/* Stores stack ID of the recording with its frames, and sets *OUT to its id in the store. A stack
 * that the recording does not define is stack 0. False: failed. */
bool content_stack(content_t *content, uint32_t id, uint64_t *out);

/* The same for COUNT frames, innermost first. */
bool content_frames(content_t *content, const record_frame_t **frames, int count, uint64_t *out);

/* Stores a cause. The texts may be "". */
typedef struct content_cause {
  store_measure_t measure;
  const char *name, *category, *owner, *level;
} content_cause_t;
bool content_cause(content_t *content, const content_cause_t *cause, uint64_t *out);

/* The id of an image. */
uint64_t content_image_id(const record_image_t *image);

/* ---- labels and signatures ---------------------------------------------------------------- */

/* The label of a frame is a hash of its functions' names, or its id if it has none. */
typedef struct content_label {
  uint64_t hash;
} content_label_t;
void content_label_add(content_label_t *label, const char *function);
uint64_t content_label_named(const content_label_t *label);
uint64_t content_label_unnamed(uint64_t frame);
static inline bool content_label_is_named(uint64_t label) { return !(label & 1); }

/* Continues SIGNATURE, 0 at first, with the LABEL of the next frame. */
static inline uint64_t content_signature(uint64_t signature, uint64_t label) {
  return id_mix(signature, label);
}

#endif
