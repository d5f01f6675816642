/* SPDX-License-Identifier: MIT
 *
 * The texts are in sets of four slots; an id has one set. A version guards each slot as in a
 * seqlock: it is odd while the slot is written. The key is the id and the flags, compared
 * completely.
 *
 * If the loader's epoch has changed since a text was last checked, find_text checks that its images
 * are still mapped. A text that is never requested again would outlive its images, so the first
 * writer after a change of epoch checks all slots once.
 */
#include "capture/stack_text.h"
#include "capture/python/python_frames.h"

#include "image/name.h"
#include "os/os.h"
#include "capture/stack.h"
#include "capture/frame_table.h"

#define TEXT_BYTES  16384u
#define TEXT_IMAGES 24u
#define SET_SLOTS   4u
#define SETS        256u

typedef struct text_slot {
  /* Odd while the slot is written. */
  uint32_t version;
  uint32_t length;
  /* id << 8 | flags; 0: empty. */
  uint64_t key;
  /* The loader's epoch in which all images were last seen mapped. */
  uint64_t epoch;
  uint32_t image_count;
  image_id_t images[TEXT_IMAGES];
} text_slot_t;

typedef struct text_cache {
  text_slot_t slots[SETS * SET_SLOTS];
  uint64_t words[SETS * SET_SLOTS][TEXT_BYTES / 8];
} text_cache_t;

static text_cache_t *the_cache;
static uint64_t swept_epoch;
static uint32_t next_victim;

static text_cache_t *text_cache(void) {
  text_cache_t *known = load_acquire(&the_cache);
  if (LIKELY(known)) return known;
  text_cache_t *mine = os_map(sizeof *mine);
  if (!mine || cas_acq_rel(&the_cache, &known, mine)) return mine;
  os_unmap(mine, sizeof *mine);
  return known;
}

/* ---- making a text -------------------------------------------------------------------------- */

/* A writer to fixed memory. It drops what does not fit and counts it. */
typedef struct fixed_writer {
  name_writer_t writer;
  char *out;
  size_t size, length;
} fixed_writer_t;

static void append(name_writer_t *self, const char *text, size_t size) {
  fixed_writer_t *w = (fixed_writer_t *)self;
  size_t capacity = w->length < w->size ? w->size - w->length : 0;
  if (capacity) __builtin_memcpy(w->out + w->length, text, size < capacity ? size : capacity);
  w->length += size;
}

/* The images of a stack, each once. */
typedef struct image_set {
  /* TEXT_IMAGES + 1: more than the set can hold. */
  uint32_t count;
  image_id_t images[TEXT_IMAGES];
} image_set_t;

static void add_image(image_set_t *images, image_id_t image) {
  if (image == 0 || images->count > TEXT_IMAGES) return;
  for (uint32_t i = 0; i < images->count; i++)
    if (images->images[i] == image) return;
  if (images->count < TEXT_IMAGES) images->images[images->count] = image;
  images->count++;
}

static const char broken_line[] = "     the walk ended here, before the thread's first frame\n";
static const char truncated_line[] = "     frames were left out here\n";

static int write_stack(uint32_t id, unsigned flags, fixed_writer_t *w, image_set_t *images) {
  uint32_t frame;
  frame_info_t info;
  for (int number = 0; id;) {
    if (!stack_table_get(id, &id, &frame)) return SONDE_ENOTFOUND;
    if (python_frame_is(frame)) continue;
    if (!frame_table_get(frame, &info)) return SONDE_ENOTFOUND;
    if (info.pc <= STACK_PC_TRUNCATED) {
      bool is_truncated = info.pc == STACK_PC_TRUNCATED;
      append(&w->writer, is_truncated ? truncated_line : broken_line,
             is_truncated ? sizeof truncated_line - 1 : sizeof broken_line - 1);
      continue;
    }
    sonde_name_t name;
    (void)name_in_image(info.image, info.pc, info.exact, &name);
    add_image(images, info.image);
    if (!(flags & SONDE_NAME_APP_ONLY) || !(name.image_flags & SONDE_IMAGE_SYSTEM)) {
      name_write_frame(&w->writer, number, info.pc, &name);
      append(&w->writer, "\n", 1);
    }
    number++;
  }
  return SONDE_OK;
}

static int make_text(uint32_t id, unsigned flags, char *out, size_t size, image_set_t *images) {
  fixed_writer_t w = {.writer = {append}, .out = out, .size = size ? size - 1 : 0};
  int status = write_stack(id, flags, &w, images);
  if (size) out[w.length < w.size ? w.length : w.size] = 0;
  if (status != SONDE_OK) return status;
  return w.length > INT32_MAX ? INT32_MAX : (int)w.length;
}

int stack_text_make(uint32_t id, unsigned flags, char *out, size_t size) {
  image_set_t images = {0};
  return id ? make_text(id, flags, out, size, &images) : SONDE_ENOTFOUND;
}

/* ---- the cache ------------------------------------------------------------------------------ */

static bool lock(text_slot_t *p) {
  uint32_t version = load_relaxed(&p->version);
  return !(version & 1) && cas_acq_rel(&p->version, &version, version + 1);
}

static void unlock(text_slot_t *p) { __atomic_fetch_add(&p->version, 1, __ATOMIC_RELEASE); }

static void drop(text_slot_t *p) {
  if (!lock(p)) return;
  store_relaxed(&p->key, 0);
  unlock(p);
}

/* True if all images of the text are still mapped. The slot may change meanwhile; then a wrong
 * result only drops a text, since readers check the version. */
static bool is_current(text_slot_t *p, uint64_t epoch) {
  if (epoch && load_relaxed(&p->epoch) == epoch) return true;
  uint32_t count = load_relaxed(&p->image_count);
  for (uint32_t i = 0; i < count && i < TEXT_IMAGES; i++)
    if (!image_check(load_relaxed(&p->images[i]))) return false;
  store_relaxed(&p->epoch, epoch);
  return true;
}

static void sweep(text_cache_t *t, uint64_t epoch) {
  uint64_t last = load_relaxed(&swept_epoch);
  if (last == epoch || !cas_acq_rel(&swept_epoch, &last, epoch)) return;
  for (uint32_t i = 0; i < SETS * SET_SLOTS; i++) {
    text_slot_t *p = &t->slots[i];
    if (load_relaxed(&p->key) && !is_current(p, epoch)) drop(p);
  }
}

static uint32_t set_of(uint64_t key) { return (uint32_t)(leveled_hash(key) >> 56) * SET_SLOTS; }

/* Texts may be written while they are read, so they are copied by atomic words. */
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

/* Copies the text of KEY to OUT. Returns its length, or -1 if it is not cached. */
static int find_text(text_cache_t *t, uint64_t key, uint64_t epoch, char *out, size_t size) {
  uint32_t first = set_of(key);
  for (uint32_t i = first; i < first + SET_SLOTS; i++) {
    text_slot_t *p = &t->slots[i];
    uint32_t version = load_acquire(&p->version);
    if (load_relaxed(&p->key) != key || version & 1) continue;
    if (!is_current(p, epoch)) {
      drop(p);
      return -1;
    }
    uint32_t length = load_relaxed(&p->length);
    size_t store_text = length < size ? length : size ? size - 1 : 0;
    if (length >= TEXT_BYTES) return -1;
    copy_out(out, t->words[i], store_text);
    if (size) out[store_text] = 0;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (load_relaxed(&p->version) == version) return (int)length;
  }
  return -1;
}

static void store_text(text_cache_t *t, uint64_t key, uint64_t epoch, const char *text,
                       uint32_t length, const image_set_t *images) {
  uint32_t first = set_of(key), chosen = first + add_relaxed(&next_victim, 1) % SET_SLOTS;
  for (uint32_t i = first; i < first + SET_SLOTS; i++) {
    uint64_t have = load_relaxed(&t->slots[i].key);
    if (have == key) return;
    if (have == 0) chosen = i;
  }
  text_slot_t *p = &t->slots[chosen];
  if (!lock(p)) return;
  /* The odd version becomes visible before the following stores. */
  __atomic_thread_fence(__ATOMIC_RELEASE);
  store_relaxed(&p->key, key);
  store_relaxed(&p->length, length);
  store_relaxed(&p->epoch, epoch);
  store_relaxed(&p->image_count, images->count);
  for (uint32_t i = 0; i < images->count; i++)
    store_relaxed(&p->images[i], images->images[i]);
  copy_in(t->words[chosen], text, length);
  unlock(p);
}

int sonde_stack_text(uint32_t id, unsigned flags, char *out, size_t size) {
  if ((!out && size) || (flags & ~SONDE_NAME_APP_ONLY)) return SONDE_EINVAL;
  /* 0 is also the key of an empty slot. */
  if (id == 0) return SONDE_ENOTFOUND;
  uint64_t key = (uint64_t)id << 8 | flags, epoch = os_loader_epoch();
  text_cache_t *t = text_cache();
  int length = t ? find_text(t, key, epoch, out, size) : -1;
  if (LIKELY(length >= 0)) return length;
  image_set_t images = {0};
  length = make_text(id, flags, out, size, &images);
  if (t && length >= 0 && (size_t)length < size && length < (int)TEXT_BYTES &&
      images.count <= TEXT_IMAGES) {
    sweep(t, epoch);
    for (uint32_t i = 0; i < images.count; i++)
      if (!image_check(images.images[i])) return length;
    store_text(t, key, epoch, out, (uint32_t)length, &images);
  }
  return length;
}

unsigned stack_text_count(void) {
  const text_cache_t *t = load_acquire(&the_cache);
  unsigned count = 0;
  for (uint32_t i = 0; t && i < SETS * SET_SLOTS; i++)
    count += load_relaxed(&t->slots[i].key) != 0;
  return count;
}
