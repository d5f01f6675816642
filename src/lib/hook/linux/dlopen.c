/* SPDX-License-Identifier: MIT
 *
 * Images that are loaded later.
 *
 * The loader calls an empty function whenever its list has changed, for debuggers (r_brk of
 * link.h). The code of that function is patched to jump here. So there is no frame of sonde between
 * dlopen and its caller, which the loader inspects. glibc before 2.41 calls the function before
 * relocation, when slots cannot be written. But an image's constructor entry (DT_INIT) is read only
 * after relocation. So DT_INIT of each image that imports a hooked name is changed to a thunk. The
 * first thunk runs before any constructor of the images loaded with it and applies all hooks; each
 * thunk restores its DT_INIT and calls it. musl and later glibc call the function after relocation;
 * then the hooks are applied at once. In an image without DT_INIT, the array of constructors is
 * replaced. An image without any constructor is hooked at the next call of dlsym.
 *
 * The callback runs under the loader's lock. It waits for sonde's lock for a bounded time;
 * otherwise it sets a flag, which the lock's owner or the next entry handles. If the loader's
 * function does not have the expected code (a debugger's breakpoint), nothing is changed, and late
 * images wait for the next sonde_hook_refresh; sonde_hook_late reports that.
 */
#include "base/bits.h"
#include "hook/internal.h"

static void loader_changed(void);

bool dlopen_in_force(void) { return loader_jump_in_force(); }
void dlopen_start(hooks_t *h) { loader_jump_start(h, loader_changed); }
void dlopen_stop(hooks_t *h) { loader_jump_stop(h); }

/* ---- deferred constructors ------------------------------------------------------------------ */

typedef void init_t(int count, char **arguments, char **environment);

typedef struct deferred {
  uint64_t entry; /* address of the value of DT_INIT, or of DT_INIT_ARRAY; 0: free */
  uint64_t before, ours;
  uint64_t start, slide; /* of the image */
  uint64_t *array;       /* replaces the image's; NULL: it has a DT_INIT */
  uint32_t array_count;
} deferred_t;

#define DEFERRED_MAX 32u
#define ARRAY_MAX    65536u
static deferred_t deferred[DEFERRED_MAX];
static bool has_lent_array; /* the loader may read it until the last constructor has returned */

/* The image at START is relocated now: results of earlier searches are invalid. */
static void search_again(hooks_t *h, uint64_t start) {
  for (uint32_t i = 0; i < h->image_count; i++) {
    if (h->images[i].image.start != start) continue;
    h->images[i].filters_done = 0;
    if (h->images[i].is_searched) hooks_search_again(h, &h->images[i]);
  }
}

/* Applies every hook and restores the image's entry. Returns the image's constructor. Other images
 * cannot be unloaded meanwhile: the loader runs constructors under its lock. */
static init_t *on_first_constructor(uint32_t number) {
  hooks_t *h = hooks_state();
  deferred_t mine = deferred[number];
  if (hooks_lock(0)) {
    search_again(h, mine.start);
    (void)patch_word(&h->patcher, mine.entry, mine.ours, mine.before);
    deferred[number].entry = 0;
    hooks_refresh(h);
    hooks_unlock();
  }
  if (!mine.array) return (init_t *)(uintptr_t)(mine.before + mine.slide);
  /* The loader continues in our array, so it gets the content of the image's own. */
  const uint64_t *theirs = (const uint64_t *)(uintptr_t)(mine.before + mine.slide);
  for (uint32_t i = 0; i < mine.array_count; i++)
    store_relaxed(&mine.array[i], theirs[i]);
  return (init_t *)(uintptr_t)theirs[0];
}

#define THUNK(n)                                                                                   \
  static void thunk_##n(int count, char **arguments, char **environment) {                         \
    on_first_constructor(n)(count, arguments, environment);                                        \
  }
#define EIGHT(X, d) X(d##0) X(d##1) X(d##2) X(d##3) X(d##4) X(d##5) X(d##6) X(d##7)
#define ALL(X)      EIGHT(X, 00) EIGHT(X, 01) EIGHT(X, 02) EIGHT(X, 03) /* octal: 0 to 31 */
ALL(THUNK)
#define NAME_THUNK(n) thunk_##n,
static init_t *const thunks[] = {ALL(NAME_THUNK)};
_Static_assert(ARRAY_COUNT(thunks) == DEFERRED_MAX, "one each");

/* The address of the value of TAG in the dynamic section; 0: none. */
static uint64_t dynamic_entry(const import_slots_t *slots, uint64_t tag) {
  const uint8_t *at = slots->dynamic;
  const elf_shape_t shape = {.is_64bit = true};
  for (uint32_t i = 0; i < 512 && elf_u64(shape, at) != ELF_DT_NULL; i++, at += 16)
    if (elf_u64(shape, at) == tag) return (uint64_t)(uintptr_t)(at + 8);
  return 0;
}

/* An array of constructors that replaces the image's and starts with the thunk. The loader
 * continues in it after the thunk has run, so its memory is reused much later. */
static uint64_t *make_array(deferred_t *p, const import_slots_t *slots, init_t *thunk) {
  uint64_t size = dynamic_entry(slots, ELF_DT_INIT_ARRAYSZ);
  uint64_t count = size ? load_relaxed((const uint64_t *)(uintptr_t)size) / 8 : 0;
  if (count == 0 || count > ARRAY_MAX) return NULL;
  static struct {
    uint64_t *words;
    uint64_t count;
  } ring[64];
  static uint32_t next;
  uint32_t at = next++ % ARRAY_COUNT(ring);
  if (ring[at].count < count) {
    if (ring[at].words) os_unmap(ring[at].words, ring[at].count * 8);
    ring[at].words = os_map(count * 8);
    ring[at].count = ring[at].words ? count : 0;
  }
  p->array = ring[at].words;
  if (!p->array) return NULL;
  has_lent_array = true;
  p->array_count = (uint32_t)count;
  p->array[0] = (uint64_t)(uintptr_t)thunk;
  return p->array;
}

/* Returns false if the image has no constructor, or too many images are deferred. */
static bool defer_constructor(hooks_t *h, const import_slots_t *slots) {
  uint64_t entry = dynamic_entry(slots, ELF_DT_INIT), target;
  bool is_array = !entry;
  if (is_array) entry = dynamic_entry(slots, ELF_DT_INIT_ARRAY);
  uint32_t number = 0;
  while (number < DEFERRED_MAX && deferred[number].entry && deferred[number].entry != entry)
    number++;
  if (number == DEFERRED_MAX || !entry) return false;
  deferred_t *p = &deferred[number];
  if (p->entry == entry) return true;
  *p = (deferred_t){.before = load_relaxed((const uint64_t *)(uintptr_t)entry),
                    .start = slots->start,
                    .slide = slots->slide};
  target = (uint64_t)(uintptr_t)thunks[number];
  if (is_array) {
    target = (uint64_t)(uintptr_t)make_array(p, slots, thunks[number]);
    if (!target) return false;
  }
  p->ours = target - slots->slide;
  p->entry = entry;
  if (patch_word(&h->patcher, entry, p->before, p->ours) == PATCH_DONE) return true;
  p->entry = 0;
  return false;
}

bool dlopen_may_enter(void) {
  bool may = has_lent_array || loader_jump_may_enter();
  for (uint32_t i = 0; i < DEFERRED_MAX; i++)
    may |= deferred[i].entry != 0;
  return may;
}

/* ---- notifications of the loader ------------------------------------------------------------ */

static uint32_t missed, retry_needed;

bool dlopen_take_retry(void) {
  return UNLIKELY(load_relaxed(&retry_needed)) &&
         __atomic_exchange_n(&retry_needed, 0, __ATOMIC_ACQ_REL);
}

typedef struct arrived {
  const hooks_t *hooks;
  const import_slots_t *slots;
  uint32_t seen, raw;
} arrived_t;

static bool count_slot(const slot_t *slot, void *context) {
  arrived_t *a = context;
  if (filter_is_active()) { /* any import may match it */
    a->seen++;
    a->raw +=
        import_slots_is_raw(a->slots, load_relaxed((const uint64_t *)(uintptr_t)slot->address));
    return true;
  }
  const symbol_t *s = hooks_bucket(a->hooks, hooks_hash(slot->name));
  for (; s; s = s->same_hash) {
    if (!import_slots_text_equal(s->name, slot->name)) continue;
    uint64_t value = load_relaxed((const uint64_t *)(uintptr_t)slot->address);
    a->seen++;
    a->raw += import_slots_is_raw(a->slots, value);
  }
  return true;
}

/* Frees thunks of images that were never initialized because their dlopen failed. */
static void drop_gone(const hooks_t *h) {
  for (uint32_t i = 0; i < DEFERRED_MAX; i++) {
    bool there = false;
    for (uint32_t j = 0; j < h->image_count && deferred[i].entry; j++)
      there |= h->images[j].image.start == deferred[i].start;
    if (!there) deferred[i].entry = 0;
  }
}

static void scan_loaded(hooks_t *h) {
  slot_names_t names = {{0}};
  bool apply_now = false;
  hooks_scan_images(h);
  pending_scan(h);
  for (const symbol_t *s = h->symbols; s; s = s->next)
    slot_names_add(&names, s->name);
  bool is_needed = h->symbols || filter_is_active();
  drop_gone(h);
  for (uint32_t i = 0; i < h->image_count && is_needed; i++) {
    const import_slots_t *slots = &h->images[i].slots;
    arrived_t a = {h, slots, 0, 0};
    if (h->images[i].is_searched || !h->images[i].has_slots) continue;
    import_slots_each(slots, filter_is_active() ? NULL : &names, count_slot, &a);
    if (a.raw > 0) {
      if (!defer_constructor(h, slots)) store_release(&retry_needed, 1);
    } else if (a.seen > 0) {
      apply_now = true;
      h->images[i].is_searched = !h->symbols; /* nothing is hooked: no need to search it */
    }
  }
  if (apply_now) hooks_refresh(h);
  patch_end(&h->patcher);
}

/* Under an attached agent the lock is also what keeps an image mapped while its slots are read. */
#if defined(SONDE_ATTACHED)
#define PATIENCE_NS 200000000u
#else
#define PATIENCE_NS 20000000u
#endif

/* Replaces the loader's empty function. */
static void loader_changed(void) {
  if (!hooks_lock(PATIENCE_NS)) {
    store_release(&missed, 1);
    return;
  }
  scan_loaded(hooks_state());
  hooks_unlock();
}

bool dlopen_take_missed(void) { return __atomic_exchange_n(&missed, 0, __ATOMIC_ACQ_REL) != 0; }
void dlopen_catch_up(hooks_t *h) { scan_loaded(h); }
