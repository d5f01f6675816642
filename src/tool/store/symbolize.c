/* SPDX-License-Identifier: MIT */
#include "store/symbolize.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "sonde/status.h"
#include "store/content.h"
#include "store/signatures.h"

enum { BUILD_ID_MAX = 64, THREADS_MAX = 64 };

typedef struct address {
  uint64_t frame, offset;
  bool exact;
} address_t;

typedef struct image {
  uint64_t id;
  char *path;
  uint8_t build_id[BUILD_ID_MAX];
  size_t build_id_size;
} image_t;

typedef struct name {
  uint64_t frame;
  int depth;
  const char *function, *file; /* of the symbolizer */
  uint32_t line;
} name_t;

/* What the threads share, under the lock. */
typedef struct work {
  pthread_mutex_t lock;
  engine_t *engine;
  const symbolize_options_t *options;
  ARRAY(image_t) images;
  size_t next;
  symbolize_counts_t counts;
  int status;
} work_t;

/* ---- images ------------------------------------------------------------------------------- */

static size_t read_build_id(const char *hex, uint8_t out[BUILD_ID_MAX]) {
  static const char digits[] = "0123456789abcdef";
  size_t size = 0;
  for (; hex[0] && hex[1] && size < BUILD_ID_MAX; hex += 2) {
    const char *high = strchr(digits, hex[0]), *low = strchr(digits, hex[1]);
    if (!high || !low) return 0;
    out[size++] = (uint8_t)((high - digits) << 4 | (low - digits));
  }
  return size;
}

/* The images with a build-id that have frames without a name, or with AGAIN any frames. */
static bool find_images(work_t *w) {
  const store_value_t again = store_integer(w->options->again);
  engine_rows_t *rows =
      engine_query(w->engine,
                   "SELECT image, path, build_id FROM images WHERE build_id <> '' AND image IN"
                   " (SELECT image FROM frames WHERE ?1 OR label & 1) ORDER BY image",
                   &again, 1);
  int step = -1;
  while (rows && (step = engine_step(rows)) > 0) {
    image_t *image = ARRAY_ADD(w->images);
    if (!image) break;
    *image = (image_t){.id = (uint64_t)engine_value(rows, 0).integer,
                       .path = strdup(engine_value(rows, 1).bytes)};
    image->build_id_size = read_build_id(engine_value(rows, 2).bytes, image->build_id);
    if (!image->path) break;
  }
  engine_rows_end(rows);
  w->counts.images = w->images.count;
  return step == 0;
}

/* ---- one image ---------------------------------------------------------------------------- */

typedef struct batch {
  ARRAY(address_t) addresses;
  ARRAY(name_t) names; /* in the order of the addresses; of a frame, innermost first */
} batch_t;

static void batch_free(batch_t *b) {
  free(b->addresses.items);
  free(b->names.items);
}

static bool read_addresses(work_t *w, const image_t *image, batch_t *out) {
  const store_value_t values[] = {store_id(image->id), store_integer(w->options->again)};
  engine_rows_t *rows =
      engine_query(w->engine,
                   "SELECT frame, offset, exact FROM frames WHERE image = ?1 AND (?2 OR label & 1)"
                   " ORDER BY offset",
                   values, 2);
  int step = -1;
  while (rows && (step = engine_step(rows)) > 0) {
    address_t *address = ARRAY_ADD(out->addresses);
    if (!address) break;
    *address =
        (address_t){(uint64_t)engine_value(rows, 0).integer,
                    (uint64_t)engine_value(rows, 1).integer, engine_value(rows, 2).integer != 0};
  }
  engine_rows_end(rows);
  return step == 0;
}

/* A return address lies behind the call that it belongs to. */
static bool look_up(symbol_module_t *module, const address_t *a, batch_t *out) {
  symbol_frame_t frames[SYMBOL_FRAMES_MAX];
  symbol_reason_t reason;
  int count = symbol_lookup(module, a->offset - !a->exact, frames, SYMBOL_FRAMES_MAX, &reason);
  for (int i = 0; i < count; i++) {
    const char *function = frames[i].function ? frames[i].function : frames[i].raw;
    name_t *name = function ? ARRAY_ADD(out->names) : NULL;
    if (function && !name) return false;
    if (name)
      *name = (name_t){a->frame, i, function, frames[i].file ? frames[i].file : "", frames[i].line};
  }
  return true;
}

static bool look_up_all(symbolizer_t *symbolizer, const image_t *image, batch_t *batch) {
  const symbol_source_t source = {
      .path = image->path, .build_id = image->build_id, .build_id_size = image->build_id_size};
  symbol_module_t *module = symbolizer_module(symbolizer, &source);
  if (!module) return false;
  (void)symbol_expect(module, batch->addresses.count);
  for (size_t i = 0; i < batch->addresses.count; i++)
    if (!look_up(module, &batch->addresses.items[i], batch)) return false;
  return true;
}

/* ---- writing ------------------------------------------------------------------------------ */

/* The COUNT names of one frame take the place of those that it has. */
static bool write_frame(engine_t *engine, const name_t *names, size_t count) {
  content_label_t label = {0};
  const store_value_t frame = store_id(names[0].frame);
  if (!engine_run(engine, "DELETE FROM names WHERE frame = ?", &frame, 1)) return false;
  for (size_t i = 0; i < count; i++) {
    const store_value_t row[] = {frame, store_integer(names[i].depth),
                                 store_text(names[i].function), store_text(names[i].file),
                                 store_integer(names[i].line)};
    content_label_add(&label, names[i].function);
    if (engine_insert(engine, STORE_NAMES, row) < 0) return false;
  }
  const store_value_t values[] = {store_id(content_label_named(&label)), frame};
  return engine_run(engine, "UPDATE frames SET label = ? WHERE frame = ?", values, 2);
}

static bool write_names(work_t *w, const batch_t *batch) {
  if (!engine_begin(w->engine)) return false;
  for (size_t i = 0, count; i < batch->names.count; i += count) {
    const name_t *first = &batch->names.items[i];
    for (count = 1; i + count < batch->names.count && first[count].frame == first->frame; count++) {
    }
    if (!write_frame(w->engine, first, count)) return false;
    w->counts.named++;
  }
  w->counts.addresses += batch->addresses.count;
  return engine_commit(w->engine);
}

/* ---- threads ------------------------------------------------------------------------------ */

/* Takes the next image and its addresses; NULL: there is none, or the work has failed. */
static const image_t *take_image(work_t *w, batch_t *batch) {
  const image_t *image = NULL;
  pthread_mutex_lock(&w->lock);
  if (w->status == 0 && w->next < w->images.count) image = &w->images.items[w->next++];
  if (image && !read_addresses(w, image, batch)) w->status = SONDE_EIO;
  if (w->status) image = NULL;
  pthread_mutex_unlock(&w->lock);
  return image;
}

static void give_names(work_t *w, const batch_t *batch, bool good) {
  pthread_mutex_lock(&w->lock);
  if (w->status == 0 && !good) w->status = SONDE_ENOMEM;
  if (w->status == 0 && !write_names(w, batch)) w->status = SONDE_EIO;
  pthread_mutex_unlock(&w->lock);
}

static void *work_on(void *context) {
  work_t *w = context;
  const symbol_options_t options = {.debug_dirs = w->options->debug_dirs,
                                    .sysroots = w->options->sysroots};
  symbolizer_t *symbolizer = symbolizer_new(&options);
  for (;;) {
    batch_t batch = {0};
    const image_t *image = take_image(w, &batch);
    if (image) give_names(w, &batch, symbolizer && look_up_all(symbolizer, image, &batch));
    batch_free(&batch);
    if (!image) break;
  }
  if (symbolizer) symbolizer_free(symbolizer);
  return NULL;
}

/* This thread works too, so a thread that cannot be created costs only time. */
static void work_all(work_t *w) {
  pthread_t threads[THREADS_MAX];
  unsigned started = 0;
  while (started + 1 < w->options->threads && started < THREADS_MAX &&
         pthread_create(&threads[started], NULL, work_on, w) == 0)
    started++;
  work_on(w);
  while (started)
    pthread_join(threads[--started], NULL);
}

/* Signatures are always updated: an earlier run may have been killed before it did. */
int store_symbolize(engine_t *engine, const symbolize_options_t *options, symbolize_counts_t *out) {
  work_t w = {.lock = PTHREAD_MUTEX_INITIALIZER, .engine = engine, .options = options};
  if (!find_images(&w)) w.status = SONDE_EIO;
  if (w.status == 0) work_all(&w);
  if (w.status == 0 && !(signatures_update(engine) && engine_commit(engine))) w.status = SONDE_EIO;
  if (w.status) engine_rollback(engine);
  for (size_t i = 0; i < w.images.count; i++)
    free(w.images.items[i].path);
  free(w.images.items);
  *out = w.counts;
  return w.status;
}
