/* SPDX-License-Identifier: MIT
 *
 * The loader epoch: a number that changes when images are loaded or unloaded, at the cost of a few
 * loads.
 *
 * glibc keeps two counters in _rtld_global, which ld.so exports for its own libraries: the number
 * of images ever added (dl_iterate_phdr reports it as dlpi_adds), and the number of images in each
 * namespace. Together they change with each dlopen, before code of the new image can run, and with
 * each dlclose. The layout of the structure differs between versions, so the counter's offset must
 * be found. Inside a callback of dl_iterate_phdr a candidate must satisfy three conditions: this
 * thread holds the load-write lock stored in front of the candidate; the candidate equals
 * dlpi_adds; and each namespace's list is as long as its counter. If exactly one candidate
 * satisfies all of them, it is used. Otherwise the epoch is 0, unknown.
 *
 * musl never removes an image once its code has run, so its epoch is the length of the loader's
 * list. Entries that exist at start-up stay valid and are read directly. Later entries may belong
 * to a dlopen that fails, and are read with os_read_memory.
 *
 * A static program keeps the images that it started with: its epoch is 1.
 */
#include "base/bits.h"
#include "os/linux/calls/call.h"
#include "os/linux/internal.h"
#include "os/linux/loader.h"

/* ---- glibc ---------------------------------------------------------------------------------- */

#define NAMESPACES 16u /* DL_NNS */
#define ADDS_MAX   (UINT64_C(1) << 32)

/* pthread_mutex_t of glibc: the same first fields on both CPUs, but another size. */
#if defined(__x86_64__)
#define MUTEX_SIZE 40u
#else
#define MUTEX_SIZE 48u
#endif
typedef struct glibc_mutex {
  int32_t lock;
  uint32_t count;
  int32_t owner;
  uint32_t users;
  int32_t kind;
} glibc_mutex_t;
#define MUTEX_RECURSIVE 1

/* struct link_namespaces begins with the list and its length. */
typedef struct namespace_head {
  uint64_t first;
  uint32_t count;
} namespace_head_t;

/* struct dl_phdr_info (link.h), which is declared only with _GNU_SOURCE. */
typedef struct phdr_info {
  uint64_t slide;
  const char *path;
  const Elf64_Phdr *phdr;
  uint16_t phdr_count;
  uint64_t adds;
} phdr_info_t;

typedef struct epoch {
  const uint64_t *adds;
  const uint64_t *namespace_count;
  const uint8_t *namespaces;
  uint64_t namespace_size;
} epoch_t;

typedef struct epoch_search {
  const uint8_t *global; /* _rtld_global */
  uint64_t size;
  uint64_t first_entry; /* of the program's namespace */
  uint64_t adds;
  unsigned found;
  epoch_t epoch;
} epoch_search_t;

static uint64_t loaded_images(const epoch_t *e) {
  uint64_t namespaces = load_relaxed(e->namespace_count), sum = 0;
  for (uint64_t n = 0; n < namespaces && n < NAMESPACES; n++) {
    const namespace_head_t *head =
        (const namespace_head_t *)(const void *)(e->namespaces + n * e->namespace_size);
    sum += load_relaxed(&head->count);
  }
  return sum;
}

/* Returns true if the lists have the counted lengths. They cannot change during a callback of
 * dl_iterate_phdr. */
static bool list_lengths_match(const epoch_t *e) {
  for (uint64_t n = 0; n < *e->namespace_count; n++) {
    const namespace_head_t *head =
        (const namespace_head_t *)(const void *)(e->namespaces + n * e->namespace_size);
    uint64_t count = 0, at = head->first;
    link_entry_t entry;
    for (; at != 0 && count <= head->count; count++, at = entry.next)
      if (!linux_link_entry(at, &entry)) return false;
    if (count != head->count) return false;
  }
  return true;
}

static bool is_recursive_mutex(const uint8_t *at) {
  return ((const glibc_mutex_t *)(const void *)at)->kind == MUTEX_RECURSIVE;
}

#if defined(SONDE_ATTACHED)
/* The thread of the start may not take the lock. The lists then tell the counter apart. */
static bool is_held_by_this_thread(const uint8_t *at) { return at != NULL; }
static bool is_adds(const epoch_search_t *s, uint64_t value) {
  return value >= s->adds && value < ADDS_MAX;
}
#else
static bool is_adds(const epoch_search_t *s, uint64_t value) { return value == s->adds; }

/* Before glibc 2.34, a mutex of a program without libpthread has a count but no owner. */
static bool is_held_by_this_thread(const uint8_t *at) {
  const glibc_mutex_t *m = (const glibc_mutex_t *)(const void *)at;
  return m->count >= 1 && (m->owner == os_tid() || m->owner == 0);
}
#endif

/* Tests whether the counter is at OFFSET. In the structure, the namespaces come first, then their
 * number, then LOCKS recursive mutexes (load, load-write and, since 2.35, TLS), then the counter.
 */
static void try_offset(epoch_search_t *s, uint64_t offset, unsigned locks) {
  uint64_t count_offset = offset - (uint64_t)locks * MUTEX_SIZE - 8;
  if (offset < (uint64_t)locks * MUTEX_SIZE + 8 || count_offset < NAMESPACES * 16) return;
  if (count_offset % NAMESPACES != 0) return;
  const uint8_t *first_lock = s->global + count_offset + 8;
  for (unsigned i = 0; i < locks; i++)
    if (!is_recursive_mutex(first_lock + i * MUTEX_SIZE)) return;
  if (!is_held_by_this_thread(first_lock + MUTEX_SIZE)) return;
  epoch_t e = {
      .adds = (const uint64_t *)(const void *)(s->global + offset),
      .namespace_count = (const uint64_t *)(const void *)(s->global + count_offset),
      .namespaces = s->global,
      .namespace_size = count_offset / NAMESPACES,
  };
  if (!is_adds(s, *e.adds) || *e.namespace_count == 0 || *e.namespace_count > NAMESPACES) return;
  if (((const namespace_head_t *)(const void *)s->global)->first != s->first_entry) return;
  if (!list_lengths_match(&e)) return;
  s->found++;
  s->epoch = e;
}

static void search_all(epoch_search_t *s) {
  for (uint64_t offset = 0; offset + 8 <= s->size; offset += 8) {
    try_offset(s, offset, 2);
    try_offset(s, offset, 3);
  }
}

#if defined(SONDE_ATTACHED)
static void count_entry(uint64_t first, uint64_t *count) {
  link_entry_t entry;
  for (uint64_t at = first; at != 0 && linux_link_entry(at, &entry); at = entry.next)
    ++*count;
}

/* Another thread may be loading an image: then the lists and their counters agree a moment later.
 */
static void find_counter(epoch_search_t *s, uint64_t iterate) {
  const uint32_t never = 0;
  (void)iterate;
  for (int attempt = 0; attempt < 10 && s->found != 1; attempt++) {
    if (attempt) (void)os_futex_wait(&never, 0, 1000000);
    s->found = 0;
    s->adds = 0;
    count_entry(s->first_entry, &s->adds);
    search_all(s);
  }
}
#else
/* Runs while dl_iterate_phdr holds the load-write lock. */
static int search_counter(phdr_info_t *info, size_t size, void *context) {
  epoch_search_t *s = context;
  if (size < offsetof(phdr_info_t, adds) + sizeof info->adds) return 1;
  s->adds = info->adds;
  search_all(s);
  return 1;
}

typedef int iterate_t(int (*callback)(phdr_info_t *, size_t, void *), void *context);

static void find_counter(epoch_search_t *s, uint64_t iterate) {
  (void)((iterate_t *)(uintptr_t)iterate)(search_counter, s);
}
#endif

static bool find_glibc_epoch(const loader_t *loader, epoch_t *out) {
  epoch_search_t search = {0};
  uint64_t global = dynamic_symbol(&loader->loader_symbols, "_rtld_global", &search.size);
  uint64_t iterate = dynamic_symbol(&loader->libc_symbols, "dl_iterate_phdr", NULL);
  debug_head_t head;
  size_t size = offsetof(debug_head_t, next);
  if (global == 0 || global % 8 != 0 || iterate == 0 ||
      os_read_memory(loader->debug, &head, size) != (ssize_t)size)
    return false;
  search.global = (const uint8_t *)(uintptr_t)global;
  search.first_entry = head.first;
  find_counter(&search, iterate);
  *out = search.epoch;
  return search.found == 1;
}

/* ---- musl ----------------------------------------------------------------------------------- */

typedef struct musl_list {
  uint64_t last;   /* the last entry at start-up */
  uint64_t length; /* the number of entries up to the last one */
} musl_list_t;

static uint64_t count_list_from(uint64_t entry_address, uint64_t *last) {
  uint64_t count = 0, at = entry_address;
  link_entry_t entry;
  while (at != 0 && count < 100000 && linux_link_entry(at, &entry)) {
    *last = at;
    at = entry.next;
    count++;
  }
  return count;
}

static bool find_musl_list(const loader_t *loader, musl_list_t *out) {
  debug_head_t head;
  size_t size = offsetof(debug_head_t, next);
  if (os_read_memory(loader->debug, &head, size) != (ssize_t)size) return false;
  out->length = count_list_from(head.first, &out->last);
  return out->length > 0;
}

static uint64_t musl_epoch(const musl_list_t *list) {
  const link_entry_t *last = (const link_entry_t *)(uintptr_t)list->last;
  uint64_t next = load_acquire(&last->next), ignored;
  return list->length + (next == 0 ? 0 : count_list_from(next, &ignored));
}

/* ---- the epoch ------------------------------------------------------------------------------- */

/* Written once by the constructor, then only read. */
static epoch_t the_glibc;
static musl_list_t the_musl;
static loader_kind_t the_kind;
static bool epoch_known;

static const uint64_t no_namespaces;
os_epoch_words_t os_epoch_words = {NULL, NULL, &no_namespaces};

void linux_epoch_init(const loader_t *loader) {
  if (load_acquire(&epoch_known)) return;
  the_kind = loader->kind;
  bool known = loader->kind == LOADER_GLIBC  ? find_glibc_epoch(loader, &the_glibc)
               : loader->kind == LOADER_MUSL ? find_musl_list(loader, &the_musl)
                                             : loader->kind == LOADER_NONE;
  store_release(&epoch_known, known);
  if (!known || loader->kind != LOADER_GLIBC) return;
  os_epoch_words.adds = the_glibc.adds;
  os_epoch_words.loaded = &((const namespace_head_t *)(const void *)the_glibc.namespaces)->count;
  store_release(&os_epoch_words.namespaces, the_glibc.namespace_count);
}

uint64_t os_loader_epoch_slow(void) {
  if (UNLIKELY(!load_acquire(&epoch_known))) return 0;
  switch (the_kind) {
  case LOADER_GLIBC: return load_acquire(the_glibc.adds) << 24 | loaded_images(&the_glibc);
  case LOADER_MUSL: return musl_epoch(&the_musl);
  case LOADER_NONE: return 1;
  default: return 0;
  }
}
