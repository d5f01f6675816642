/* SPDX-License-Identifier: MIT
 *
 * The growing list behind list.h.
 *
 * Entries live in blocks that are mapped as they are needed and never released; the number of an
 * entry is its id. Entries are found by the address of their ELF header, in hash chains that only
 * grow at their head: a writer prepares its entry out of sight, links it with one compare-and-swap,
 * and before that has read every entry of the chain; whoever loses the swap looks at what was put
 * there meanwhile and, when it is the same image, uses that one and lets its own number lapse. So
 * two threads, or a thread and its own signal handler, never give one image two ids, and no one
 * ever waits.
 *
 * Which image holds a pc is asked of the loader only when it must be: `pages` remembers the id per
 * page of code, and an entry remembers the loader's epoch at which it was last seen to stand. The
 * epoch is read before the image is looked at, so that a load or unload in between only makes the
 * next answer slow, never wrong.
 */
#include "image/list.h"

#include "base/bits.h"
#include "image/path.h"
#include "os/os.h"
#include "sonde/status.h"

#define BLOCK_BITS    6
#define BLOCK_ENTRIES (1u << BLOCK_BITS)
#define BUCKETS       1024u
#define PAGES         4096u
#define SPARES        16u
#define ASK_AGAIN     4 /* times, while images come and go under our eyes */

static image_entry_t *blocks[(IMAGE_ID_MAX + 1) / BLOCK_ENTRIES];
static uint32_t next_id = 1;
static image_id_t buckets[BUCKETS]; /* the newest entry of each chain */
static image_id_t pages[PAGES];     /* by page of a pc: a guess, checked by who uses it */
static image_id_t spares[SPARES];   /* taken, but not needed in the end */

/* ---- identity ------------------------------------------------------------------------------- */

#define FINGERPRINT_CODE 16384u

/* Mixes SIZE bytes at AT into HASH, the last odd ones left out. */
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

/* What the loader leaves as it is: the header, the unwind table, the dynamic symbols and the first
 * of the code. Two builds without build-id that differ behind that alone cannot be told apart. */
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

/* Is what stands in memory now what ENTRY describes? */
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

/* An image that cannot be described is met again and again: it must not use up the numbers. */
static void give_back(image_id_t id) {
  for (uint32_t i = 0; i < SPARES; i++) {
    image_id_t none = 0;
    if (cas_acq_rel(&spares[i], &none, id)) return;
  }
}

/* A number nobody has, and its memory. NULL when there is none left. */
static image_entry_t *take_slot(image_id_t *number) {
  image_id_t id = take_number();
  image_entry_t **block = &blocks[id >> BLOCK_BITS], *none = NULL;
  if (id == 0) return NULL;
  if (!load_acquire(block)) {
    size_t size = BLOCK_ENTRIES * sizeof **block;
    image_entry_t *fresh = os_map(size);
    if (!fresh) {
      give_back(id);
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

/* Searches the chain from FIRST to (not including) LAST for the image that stands at OI. */
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

/* The loader names a library as it was asked for, which may be relative to a folder that has been
 * left or a descriptor that has been closed, and the program not at all: then the kernel knows. */
static void take_path(image_entry_t *entry, const os_image_t *oi) {
  const char *told = path_keep((uint64_t)(uintptr_t)oi->path);
  entry->is_vdso = told && path_after(told, "linux-vdso.so");
  entry->is_program = !entry->is_vdso && (!told || entry->image.is_executable);
  entry->path = told;
  bool is_told = told && entry->image.is_macho; /* dyld knows the program's path too */
  entry->file = entry->is_program && !is_told ? "/proc/self/exe" : told;
  if (!entry->is_vdso && (entry->is_program || told[0] != '/' || path_after(told, "/proc/"))) {
    const char *mapped = path_of_mapping(oi->header);
    entry->path = mapped ? mapped : told;
  }
  entry->is_system = !entry->is_program && path_is_system(told);
}

static bool describe(image_entry_t *entry, const os_image_t *oi) {
  if (image_parse_live(&entry->image, oi->header, oi->slide) != SONDE_OK) return false;
  take_path(entry, oi);
  if (entry->image.build_id_size == 0)
    entry->fingerprint = image_fingerprint(&entry->image, (const uint8_t *)(uintptr_t)oi->header);
  return entry->image.build_id_size || entry->fingerprint;
}

/* Did nothing come or go since EPOCH was read, before OI was found? Where the loader gives no
 * epoch, the same answer and the same content must do. */
static bool nothing_moved(const image_entry_t *entry, const os_image_t *oi, uint64_t epoch) {
  os_image_t again;
  if (epoch) return os_loader_epoch() == epoch;
  return os_image_of_pc(oi->header, &again) && again.header == oi->header &&
         again.slide == oi->slide && again.path == oi->path && same_content(entry);
}

/* Puts MINE, described, at the head of the chain of BUCKET, which was searched from HEAD on;
 * returns it, or the entry of the same image that another thread put there first. */
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

/* Finds or adds the entry of the image OI, which was found after EPOCH was read. NULL when there is
 * none to be had; *MOVED then tells that it is worth asking the loader again: an image that is
 * exchanged while it is described would be described as half of each. */
static image_entry_t *find_or_add(const os_image_t *oi, uint64_t epoch, bool *moved) {
  *moved = false;
  if (oi->header == 0) return NULL;
  image_id_t *bucket = bucket_of(oi->header), head = load_acquire(bucket);
  uint16_t generation = 1;
  image_entry_t *found = search(oi, head, 0, epoch, &generation);
  if (!found) {
    image_id_t id = 0;
    image_entry_t *mine = take_slot(&id);
    if (!mine) return NULL;
    bool described = describe(mine, oi);
    *moved = described && !nothing_moved(mine, oi, epoch);
    if (described && !*moved) found = publish(mine, id, oi, epoch, bucket, head, generation);
    if (found != mine) give_back(id);
    if (!found) return NULL;
  }
  store_relaxed(&found->standing_epoch, epoch);
  return found;
}

static image_entry_t *ask_loader(uint64_t pc) {
  bool moved = true;
  for (int i = 0; i < ASK_AGAIN && moved; i++) {
    os_image_t oi;
    uint64_t epoch = os_loader_epoch();
    if (!os_image_of_pc(pc, &oi)) return NULL;
    image_entry_t *entry = find_or_add(&oi, epoch, &moved);
    if (entry) return entry;
  }
  return NULL;
}

/* ---- the answers ---------------------------------------------------------------------------- */

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

/* The loader's list is one thing and the image there now another: the entry is that of the latter.
 */
static bool visit_one(const os_image_t *oi, void *context) {
  each_t *each = context;
  image_entry_t *entry = oi->header ? image_entry(image_id_of_pc(oi->header)) : NULL;
  return !entry || each->visit(entry, each->context);
}

void image_list_each(bool (*visit)(image_entry_t *entry, void *context), void *context) {
  each_t each = {visit, context};
  os_images(visit_one, &each);
}
