/* SPDX-License-Identifier: MIT */
#include "store/signatures.h"

#include <stdlib.h>
#include <string.h>

#include "store/content.h"

typedef struct changed {
  uint64_t stack, signature;
} changed_t;

typedef struct changes {
  ARRAY(changed_t) list;
} changes_t;

bool frame_labels_add(frame_labels_t *l, uint64_t frame, uint64_t label) {
  int added = id_set_add(&l->frames, frame);
  uint64_t *of = added > 0 ? ARRAY_ADD(l->labels) : NULL;
  if (of) *of = label;
  return of || added == 0;
}

void frame_labels_free(frame_labels_t *l) {
  id_set_free(&l->frames);
  free(l->labels.items);
}

static bool read_labels(engine_t *engine, frame_labels_t *out) {
  engine_rows_t *rows = engine_query(engine, "SELECT frame, label FROM frames", NULL, 0);
  int step = -1;
  while (rows && (step = engine_step(rows)) > 0)
    if (!frame_labels_add(out, (uint64_t)engine_value(rows, 0).integer,
                          (uint64_t)engine_value(rows, 1).integer))
      break;
  engine_rows_end(rows);
  return step == 0;
}

/* A frame that is missing, which only a damaged database has, is one without a name. */
static uint64_t label_of(const frame_labels_t *l, uint64_t frame) {
  int64_t number = id_set_find(&l->frames, frame);
  return number >= 0 ? l->labels.items[number] : content_label_unnamed(frame);
}

uint64_t signature_of(const frame_labels_t *l, const store_value_t *frames) {
  uint64_t signature = 0, frame;
  for (size_t at = 0; at + sizeof frame <= frames->size; at += sizeof frame) {
    memcpy(&frame, (const char *)frames->bytes + at, sizeof frame);
    signature = content_signature(signature, label_of(l, frame));
  }
  return signature;
}

static bool find_changes(engine_t *engine, const frame_labels_t *labels, changes_t *out) {
  engine_rows_t *rows =
      engine_query(engine, "SELECT stack, signature, frames FROM stacks", NULL, 0);
  int step = -1;
  while (rows && (step = engine_step(rows)) > 0) {
    const store_value_t frames = engine_value(rows, 2);
    uint64_t signature = signature_of(labels, &frames);
    if (signature == (uint64_t)engine_value(rows, 1).integer) continue;
    changed_t *changed = ARRAY_ADD(out->list);
    if (!changed) break;
    *changed = (changed_t){(uint64_t)engine_value(rows, 0).integer, signature};
  }
  engine_rows_end(rows);
  return step == 0;
}

static bool write_changes(engine_t *engine, const changes_t *changes) {
  for (size_t i = 0; i < changes->list.count; i++) {
    const changed_t *c = &changes->list.items[i];
    const store_value_t values[] = {store_id(c->signature), store_id(c->stack)};
    if (!engine_run(engine, "UPDATE stacks SET signature = ? WHERE stack = ?", values, 2))
      return false;
  }
  return true;
}

bool signatures_update(engine_t *engine) {
  frame_labels_t labels = {0};
  changes_t changes = {0};
  bool good = engine_begin(engine) && read_labels(engine, &labels) &&
              find_changes(engine, &labels, &changes) && write_changes(engine, &changes);
  frame_labels_free(&labels);
  free(changes.list.items);
  return good;
}
