/* SPDX-License-Identifier: MIT
 *
 * The texts live in sets of four places; an id has one set. A place is guarded by its version, as
 * in a seqlock: odd while it is written. The key is the id and the flags, compared in full.
 *
 * Whether the images of a text still stand is asked when the loader's epoch has moved since the
 * text was last found good. A text that is never asked for again would outlive its images; so the
 * first writer after a change of epoch goes through all places once.
 */
#include "capture/stack_text.h"

#include "image/name.h"
#include "os/os.h"
#include "capture/stack.h"
#include "capture/frame_table.h"

#define PLACE_BYTES  16384u
#define PLACE_IMAGES 24u
#define SET_PLACES   4u
#define SETS         256u

typedef struct place {
  uint32_t version; /* odd: being written */
  uint32_t length;
  uint64_t key;   /* id << 8 | flags; 0: empty */
  uint64_t epoch; /* of the loader, when all its images were last seen to stand */
  uint32_t image_count;
  image_id_t images[PLACE_IMAGES];
} place_t;

typedef struct texts {
  place_t places[SETS * SET_PLACES];
  uint64_t words[SETS * SET_PLACES][PLACE_BYTES / 8];
} texts_t;

static texts_t *the_texts;
static uint64_t swept_epoch;
static uint32_t next_victim;

static texts_t *texts(void) {
  texts_t *known = load_acquire(&the_texts);
  if (LIKELY(known)) return known;
  texts_t *mine = os_map(sizeof *mine);
  if (!mine || cas_acq_rel(&the_texts, &known, mine)) return mine;
  os_unmap(mine, sizeof *mine);
  return known;
}

/* ---- naming afresh -------------------------------------------------------------------------- */

/* Text that is cut at the end of its memory and counted on. */
typedef struct fixed_writer {
  name_writer_t writer;
  char *out;
  size_t size, length;
} fixed_writer_t;

static void put(name_writer_t *self, const char *text, size_t size) {
  fixed_writer_t *w = (fixed_writer_t *)self;
  size_t room = w->length < w->size ? w->size - w->length : 0;
  if (room) __builtin_memcpy(w->out + w->length, text, size < room ? size : room);
  w->length += size;
}

/* The images of a stack, each once. */
typedef struct met {
  uint32_t count; /* PLACE_IMAGES + 1: more than are kept */
  image_id_t images[PLACE_IMAGES];
} met_t;

static void meet(met_t *met, image_id_t image) {
  if (image == 0 || met->count > PLACE_IMAGES) return;
  for (uint32_t i = 0; i < met->count; i++)
    if (met->images[i] == image) return;
  if (met->count < PLACE_IMAGES) met->images[met->count] = image;
  met->count++;
}

static const char torn[] = "     the walk ended here, before the thread's first frame\n";
static const char cut[] = "     frames were left out here\n";

static int write_stack(uint32_t id, unsigned flags, fixed_writer_t *w, met_t *met) {
  uint32_t frame;
  frame_info_t info;
  for (int number = 0; id;) {
    if (!stack_table_get(id, &id, &frame) || !frame_table_get(frame, &info)) return SONDE_ENOTFOUND;
    if (info.pc <= STACK_PC_TRUNCATED) {
      bool is_cut = info.pc == STACK_PC_TRUNCATED;
      put(&w->writer, is_cut ? cut : torn, is_cut ? sizeof cut - 1 : sizeof torn - 1);
      continue;
    }
    sonde_name_t name;
    (void)name_in_image(info.image, info.pc, info.exact, &name);
    meet(met, info.image);
    if (!(flags & SONDE_NAME_APP_ONLY) || !(name.image_flags & SONDE_IMAGE_SYSTEM)) {
      name_write_frame(&w->writer, number, info.pc, &name);
      put(&w->writer, "\n", 1);
    }
    number++;
  }
  return SONDE_OK;
}

static int afresh(uint32_t id, unsigned flags, char *out, size_t size, met_t *met) {
  fixed_writer_t w = {.writer = {put}, .out = out, .size = size ? size - 1 : 0};
  int status = write_stack(id, flags, &w, met);
  if (size) out[w.length < w.size ? w.length : w.size] = 0;
  if (status != SONDE_OK) return status;
  return w.length > INT32_MAX ? INT32_MAX : (int)w.length;
}

int stack_text_make(uint32_t id, unsigned flags, char *out, size_t size) {
  met_t met = {0};
  return id ? afresh(id, flags, out, size, &met) : SONDE_ENOTFOUND;
}

/* ---- the places ----------------------------------------------------------------------------- */

static bool lock(place_t *p) {
  uint32_t version = load_relaxed(&p->version);
  return !(version & 1) && cas_acq_rel(&p->version, &version, version + 1);
}

static void unlock(place_t *p) { __atomic_fetch_add(&p->version, 1, __ATOMIC_RELEASE); }

static void drop(place_t *p) {
  if (!lock(p)) return;
  store_relaxed(&p->key, 0);
  unlock(p);
}

/* Do all images of the text stand? Only what was read under an unchanged version may be acted on:
 * a wrong answer here costs a text, not a truth. */
static bool stands(place_t *p, uint64_t epoch) {
  if (epoch && load_relaxed(&p->epoch) == epoch) return true;
  uint32_t count = load_relaxed(&p->image_count);
  for (uint32_t i = 0; i < count && i < PLACE_IMAGES; i++)
    if (!image_check(load_relaxed(&p->images[i]))) return false;
  store_relaxed(&p->epoch, epoch);
  return true;
}

static void sweep(texts_t *t, uint64_t epoch) {
  uint64_t last = load_relaxed(&swept_epoch);
  if (last == epoch || !cas_acq_rel(&swept_epoch, &last, epoch)) return;
  for (uint32_t i = 0; i < SETS * SET_PLACES; i++) {
    place_t *p = &t->places[i];
    if (load_relaxed(&p->key) && !stands(p, epoch)) drop(p);
  }
}

static uint32_t set_of(uint64_t key) { return (uint32_t)(leveled_hash(key) >> 56) * SET_PLACES; }

/* Texts are read while they may be written, so they are moved by atomic words. */
static void copy_out(char *out, const uint64_t *words, size_t size) {
  for (; size >= 32; size -= 32, out += 32, words += 4) {
    uint64_t a = load_relaxed(words), b = load_relaxed(words + 1);
    uint64_t c = load_relaxed(words + 2), d = load_relaxed(words + 3);
    __builtin_memcpy(out, &a, 8);
    __builtin_memcpy(out + 8, &b, 8);
    __builtin_memcpy(out + 16, &c, 8);
    __builtin_memcpy(out + 24, &d, 8);
  }
  for (; size >= 8; size -= 8, out += 8) {
    uint64_t word = load_relaxed(words++);
    __builtin_memcpy(out, &word, 8);
  }
  if (size == 0) return;
  uint64_t last = load_relaxed(words);
  __builtin_memcpy(out, &last, size);
}

static void copy_in(uint64_t *words, const char *text, size_t size) {
  for (; size > 0; words++) {
    uint64_t word = 0;
    size_t piece = size < 8 ? size : 8;
    __builtin_memcpy(&word, text, piece);
    store_relaxed(words, word);
    text += piece;
    size -= piece;
  }
}

/* Copies the text of KEY to OUT. Its length, or -1 when it is not kept. */
static int copy_kept(texts_t *t, uint64_t key, uint64_t epoch, char *out, size_t size) {
  uint32_t first = set_of(key);
  for (uint32_t i = first; i < first + SET_PLACES; i++) {
    place_t *p = &t->places[i];
    uint32_t version = load_acquire(&p->version);
    if (load_relaxed(&p->key) != key || version & 1) continue;
    if (!stands(p, epoch)) {
      drop(p);
      return -1;
    }
    uint32_t length = load_relaxed(&p->length);
    size_t keep = length < size ? length : size ? size - 1 : 0;
    if (length >= PLACE_BYTES) return -1;
    copy_out(out, t->words[i], keep);
    if (size) out[keep] = 0;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (load_relaxed(&p->version) == version) return (int)length;
  }
  return -1;
}

static void keep(texts_t *t, uint64_t key, uint64_t epoch, const char *text, uint32_t length,
                 const met_t *met) {
  uint32_t first = set_of(key), chosen = first + add_relaxed(&next_victim, 1) % SET_PLACES;
  for (uint32_t i = first; i < first + SET_PLACES; i++) {
    uint64_t have = load_relaxed(&t->places[i].key);
    if (have == key) return;
    if (have == 0) chosen = i;
  }
  place_t *p = &t->places[chosen];
  if (!lock(p)) return;
  __atomic_thread_fence(__ATOMIC_RELEASE); /* the odd version is seen before what follows */
  store_relaxed(&p->key, key);
  store_relaxed(&p->length, length);
  store_relaxed(&p->epoch, epoch);
  store_relaxed(&p->image_count, met->count);
  for (uint32_t i = 0; i < met->count; i++)
    store_relaxed(&p->images[i], met->images[i]);
  copy_in(t->words[chosen], text, length);
  unlock(p);
}

int sonde_stack_text(uint32_t id, unsigned flags, char *out, size_t size) {
  if ((!out && size) || (flags & ~SONDE_NAME_APP_ONLY)) return SONDE_EINVAL;
  if (id == 0) return SONDE_ENOTFOUND; /* and the key of an empty place */
  uint64_t key = (uint64_t)id << 8 | flags, epoch = os_loader_epoch();
  texts_t *t = texts();
  int length = t ? copy_kept(t, key, epoch, out, size) : -1;
  if (LIKELY(length >= 0)) return length;
  met_t met = {0};
  length = afresh(id, flags, out, size, &met);
  if (t && length >= 0 && (size_t)length < size && length < (int)PLACE_BYTES &&
      met.count <= PLACE_IMAGES) {
    sweep(t, epoch);
    for (uint32_t i = 0; i < met.count; i++)
      if (!image_check(met.images[i])) return length;
    keep(t, key, epoch, out, (uint32_t)length, &met);
  }
  return length;
}

unsigned stack_text_count(void) {
  const texts_t *t = load_acquire(&the_texts);
  unsigned count = 0;
  for (uint32_t i = 0; t && i < SETS * SET_PLACES; i++)
    count += load_relaxed(&t->places[i].key) != 0;
  return count;
}
