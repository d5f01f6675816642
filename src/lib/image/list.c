/* SPDX-License-Identifier: MIT
 *
 * The growing list of images.
 *
 * Entries are in blocks, which are mapped at need and never unmapped. The number of an entry is its
 * id. Entries are found by the address of their header, in hash chains that grow only at their
 * head. A writer first searches the chain, prepares its entry, and links it with one
 * compare-and-swap. If another writer was faster, it examines the new entries; if one is the same
 * image, it uses that one and leaves its own number unused. So two threads, or a thread and its
 * signal handler, never give one image two ids, and no thread waits.
 *
 * The loader is queried only if needed: `pages` caches the id for each page of code, and an entry
 * records the loader epoch at which its image was last known to be mapped. The epoch is read before
 * the image is examined. So a load or unload in between makes the next query slower, but never
 * wrong.
 */
#include "image/list.h"

#include "base/bits.h"
#include "base/text.h"
#include "image/path.h"
#include "os/os.h"
#include "sonde/status.h"

#define BLOCK_BITS    6
#define BLOCK_ENTRIES (1u << BLOCK_BITS)
#define BUCKETS       1024u
#define PAGES         4096u
#define SPARES        16u
#define RETRIES       4 /* while images are loaded and unloaded during the search */

static image_entry_t *blocks[(IMAGE_ID_MAX + 1) / BLOCK_ENTRIES];
static uint32_t next_id = 1;
static image_id_t buckets[BUCKETS]; /* the newest entry of each chain */
static image_id_t pages[PAGES];     /* by page of a pc: a guess that each use checks */
static image_id_t spares[SPARES];   /* reserved but unused numbers */

/* ---- identity ------------------------------------------------------------------------------- */

#define FINGERPRINT_CODE 16384u

/* Mixes SIZE bytes at AT into HASH, without the last incomplete word. */
static bool mix_guarded(uint64_t *hash, const uint8_t *at, uint64_t size) {
  uint64_t piece[32];
  while (size >= 8) {
    size_t count = size < sizeof piece ? (size_t)size & ~(size_t)7 : sizeof piece;
    if (os_read_memory((uint64_t)(uintptr_t)at, piece, count) != (ssize_t)count) return false;
    for (size_t i = 0; i < count / 8; i++) {
      *hash = (*hash ^ piece[i]) * 0x9e3779b97f4a7c15u;
      *hash ^= *hash >> 32;
    }
    at += count;
    size -= count;
  }
  return true;
}

static uint64_t at_most(uint64_t size, uint64_t most) { return size < most ? size : most; }

/* A hash of bytes that the loader does not change: the header, the unwind table, the dynamic
 * symbols and the start of the code. Two builds without a build-id that differ only elsewhere get
 * the same fingerprint. */
uint64_t image_fingerprint(const image_t *image, const uint8_t *header) {
  uint64_t hash = 0xcbf29ce484222325u;
  const section_t *hdr = &image->eh_frame_hdr, *dynsym = &image->dynsym;
  if (!mix_guarded(&hash, header, image->is_64bit ? 64 : 48) ||
      (hdr->data && !mix_guarded(&hash, hdr->data, at_most(hdr->size, 4096))) ||
      (dynsym->data && !mix_guarded(&hash, dynsym->data, at_most(dynsym->size, 1024))))
    return 0;
  for (uint32_t i = 0; i < image->segment_count; i++) {
    const segment_t *s = &image->segments[i];
    if ((s->flags & 5) != 5 || s->file_size == 0) continue; /* read and execute */
    uint64_t size = at_most(s->file_size, FINGERPRINT_CODE);
    if (image->file &&
        (s->file_offset > image->file_size || size > image->file_size - s->file_offset))
      return 0;
    const uint8_t *code = image->file ? image->file + s->file_offset
                                      : (const uint8_t *)(uintptr_t)(s->address + image->slide);
    if (!mix_guarded(&hash, code, size)) return 0;
    break;
  }
  return hash | 1;
}

/* Returns true if the memory now holds the image that ENTRY describes. */
static bool same_content(const image_entry_t *entry) {
  const image_t *image = &entry->image;
  if (image->build_id_size == 0)
    return image_fingerprint(image, (const uint8_t *)(uintptr_t)entry->header) ==
           entry->fingerprint;
  uint8_t now[IMAGE_BUILD_ID_MAX];
  return os_read_memory(image->build_id_address + image->slide, now, image->build_id_size) ==
             (ssize_t)image->build_id_size &&
         __builtin_memcmp(now, image->build_id, image->build_id_size) == 0;
}

/* ---- entries -------------------------------------------------------------------------------- */

static image_entry_t *slot_of(image_id_t id) {
  image_entry_t *block = load_acquire(&blocks[id >> BLOCK_BITS]);
  return block ? &block[id & (BLOCK_ENTRIES - 1)] : NULL;
}

static image_id_t take_number(void) {
  for (uint32_t i = 0; i < SPARES; i++) {
    image_id_t spare = load_relaxed(&spares[i]);
    if (spare && cas_acq_rel(&spares[i], &spare, 0)) return spare;
  }
  uint32_t id = load_relaxed(&next_id);
  do
    if (id > IMAGE_ID_MAX) return 0;
  while (!cas_acq_rel(&next_id, &id, id + 1));
  return (image_id_t)id;
}

/* Releases a number. An image that cannot be parsed is met many times and must not use up the
 * numbers. */
static void release_number(image_id_t id) {
  for (uint32_t i = 0; i < SPARES; i++) {
    image_id_t none = 0;
    if (cas_acq_rel(&spares[i], &none, id)) return;
  }
}

/* Reserves a number and returns its entry, or NULL if none is left. */
static image_entry_t *reserve_entry(image_id_t *number) {
  image_id_t id = take_number();
  image_entry_t **block = &blocks[id >> BLOCK_BITS], *none = NULL;
  if (id == 0) return NULL;
  if (!load_acquire(block)) {
    size_t size = BLOCK_ENTRIES * sizeof **block;
    image_entry_t *fresh = os_map(size);
    if (!fresh) {
      release_number(id);
      return NULL;
    }
    if (!cas_acq_rel(block, &none, fresh)) os_unmap(fresh, size);
  }
  *number = id;
  return slot_of(id);
}

static image_id_t *bucket_of(uint64_t header) {
  return &buckets[(header * 0x9e3779b97f4a7c15u) >> 54];
}

/* Searches the chain from FIRST to LAST (exclusive) for the image OI. */
static image_entry_t *search(const os_image_t *oi, image_id_t first, image_id_t last,
                             uint64_t epoch, uint16_t *generation) {
  for (image_id_t id = first; id != last && id != 0;) {
    image_entry_t *entry = slot_of(id);
    if (entry->header == oi->header && entry->image.slide == oi->slide) {
      if ((epoch && load_relaxed(&entry->standing_epoch) == epoch) || same_content(entry))
        return entry;
      if (entry->generation >= *generation) *generation = (uint16_t)(entry->generation + 1);
    }
    id = entry->next;
  }
  return NULL;
}

/* The path of the program, which decides on Apple's systems which images are the app's. */
static const char *program_path(void) {
  static const char *known;
  const char *path = load_acquire(&known);
  char text[1024];
  if (path) return path;
  ssize_t size = os_program_path(text, sizeof text - 1);
  if (size <= 0) return NULL;
  text[size] = 0;
  path = path_keep((uint64_t)(uintptr_t)text);
  store_release(&known, path);
  return path;
}

/* Sets the paths. The loader has the path that dlopen received, which may be relative to an old
 * working directory or to a closed descriptor. It has none for the program. Then the kernel's path
 * is used. */
static void set_path(image_entry_t *entry, const os_image_t *oi) {
  const char *told = path_keep((uint64_t)(uintptr_t)oi->path);
  entry->is_vdso = told && text_after(told, "linux-vdso.so");
  entry->is_program = !entry->is_vdso && (!told || entry->image.is_executable);
  entry->path = told;
  bool is_told = told && entry->image.is_macho; /* dyld has the program's path too */
  entry->file = entry->is_program && !is_told ? "/proc/self/exe" : told;
  if (!entry->is_vdso && (entry->is_program || told[0] != '/' || text_after(told, "/proc/"))) {
    const char *mapped = path_of_mapping(oi->header);
    entry->path = mapped ? mapped : told;
  }
  entry->is_system =
      !entry->is_program && path_is_system(told, entry->image.is_macho ? program_path() : NULL);
}

static bool describe(image_entry_t *entry, const os_image_t *oi) {
  if (image_parse_live(&entry->image, oi->header, oi->slide) != SONDE_OK) return false;
  set_path(entry, oi);
  if (entry->image.build_id_size == 0)
    entry->fingerprint = image_fingerprint(&entry->image, (const uint8_t *)(uintptr_t)oi->header);
  return entry->image.build_id_size || entry->fingerprint;
}

/* Returns true if no image was loaded or unloaded since EPOCH was read, which was before OI was
 * found. If the loader has no epoch, an equal answer and equal content must suffice. */
static bool is_unchanged(const image_entry_t *entry, const os_image_t *oi, uint64_t epoch) {
  os_image_t again;
  if (epoch) return os_loader_epoch() == epoch;
  return os_image_of_pc(oi->header, &again) && again.header == oi->header &&
         again.slide == oi->slide && again.path == oi->path && same_content(entry);
}

/* Links MINE at the head of the chain of BUCKET, which was searched from HEAD on. Returns MINE, or
 * the entry of the same image if another thread linked it first. */
static image_entry_t *publish(image_entry_t *mine, image_id_t id, const os_image_t *oi,
                              uint64_t epoch, image_id_t *bucket, image_id_t head,
                              uint16_t generation) {
  mine->header = oi->header;
  for (;;) {
    mine->generation = generation;
    mine->next = head;
    store_release(&mine->id, id);
    image_id_t searched = head;
    if (cas_acq_rel(bucket, &head, id)) return mine;
    image_entry_t *other = search(oi, head, searched, epoch, &generation);
    if (other) {
      store_relaxed(&mine->id, 0);
      return other;
    }
  }
}

/* Finds or adds the entry of the image OI, which was found after EPOCH was read. Returns NULL on
 * failure. *MOVED then tells whether to query the loader again: an image that was replaced while it
 * was parsed would be a mixture of both. */
static image_entry_t *find_or_add(const os_image_t *oi, uint64_t epoch, bool *moved) {
  *moved = false;
  if (oi->header == 0) return NULL;
  image_id_t *bucket = bucket_of(oi->header), head = load_acquire(bucket);
  uint16_t generation = 1;
  image_entry_t *found = search(oi, head, 0, epoch, &generation);
  if (!found) {
    image_id_t id = 0;
    image_entry_t *mine = reserve_entry(&id);
    if (!mine) return NULL;
    bool described = describe(mine, oi);
    *moved = described && !is_unchanged(mine, oi, epoch);
    if (described && !*moved) found = publish(mine, id, oi, epoch, bucket, head, generation);
    if (found != mine) release_number(id);
    if (!found) return NULL;
  }
  store_relaxed(&found->standing_epoch, epoch);
  return found;
}

static image_entry_t *ask_loader(uint64_t pc) {
  bool moved = true;
  for (int i = 0; i < RETRIES && moved; i++) {
    os_image_t oi;
    uint64_t epoch = os_loader_epoch();
    if (!os_image_of_pc(pc, &oi)) return NULL;
    image_entry_t *entry = find_or_add(&oi, epoch, &moved);
    if (entry) return entry;
  }
  return NULL;
}

/* ---- queries ---------------------------------------------------------------------------- */

image_entry_t *image_entry(image_id_t id) {
  if (id == 0 || id > IMAGE_ID_MAX || id >= load_relaxed(&next_id)) return NULL;
  image_entry_t *entry = slot_of(id);
  return entry && load_acquire(&entry->id) == id ? entry : NULL;
}

const image_t *image_by_id(image_id_t id) {
  const image_entry_t *entry = image_entry(id);
  if (!entry) return NULL;
  const image_t *completed = load_acquire(&entry->completed);
  return completed ? completed : &entry->image;
}

image_id_t image_id_of_pc(uint64_t pc) {
  uint64_t epoch = os_loader_epoch();
  image_id_t *page = &pages[(pc >> 12) & (PAGES - 1)], id = load_acquire(page);
  if (id && epoch) {
    const image_entry_t *entry = slot_of(id);
    if (pc >= entry->image.start && pc < entry->image.end &&
        load_relaxed(&entry->standing_epoch) == epoch)
      return id;
  }
  const image_entry_t *entry = ask_loader(pc);
  if (!entry) return 0;
  store_release(page, entry->id);
  return entry->id;
}

bool image_check(image_id_t id) {
  image_entry_t *entry = image_entry(id);
  uint64_t epoch = os_loader_epoch();
  if (!entry) return false;
  if (epoch && load_relaxed(&entry->standing_epoch) == epoch) return true;
  if (!same_content(entry)) return false;
  store_relaxed(&entry->standing_epoch, epoch);
  return true;
}

typedef struct each {
  bool (*visit)(image_entry_t *entry, void *context);
  void *context;
} each_t;

/* The loader's list may be out of date; the entry describes the image that is mapped now. */
static bool visit_one(const os_image_t *oi, void *context) {
  each_t *each = context;
  image_entry_t *entry = oi->header ? image_entry(image_id_of_pc(oi->header)) : NULL;
  return !entry || each->visit(entry, each->context);
}

void image_list_each(bool (*visit)(image_entry_t *entry, void *context), void *context) {
  each_t each = {visit, context};
  os_images(visit_one, &each);
}
