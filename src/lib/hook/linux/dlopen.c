/* SPDX-License-Identifier: MIT
 *
 * Images that are loaded later.
 *
 * The loader calls an empty function whenever its list has changed, for debuggers (r_brk of
 * link.h). Its code is made to jump here, so that nobody stands between dlopen and its caller, whom
 * the loader looks at. glibc before 2.41 calls it before relocation, when slots cannot be written;
 * but an image's own constructor entry (DT_INIT) is read only after relocation. So each image that
 * imports a hooked name gets DT_INIT changed to one of the functions below; the first that runs,
 * which is before any constructor of an image that was loaded with it, sets all hooks, and each
 * puts DT_INIT back and goes on where it led. musl and later glibc call us after relocation: then
 * the hooks are set at once. An image without DT_INIT has its array of constructors replaced by
 * one of ours; one without any constructor is hooked when dlsym is called next.
 *
 * The callback runs with the loader's lock held: it never waits for our own lock, and when another
 * thread has it, it leaves a note, which that thread or the next entry acts on. Where the loader's
 * function does not look as expected (a debugger's breakpoint) nothing is changed
 * and late images wait for the next sonde_hook_refresh; sonde_hook_late tells.
 */
#include "base/bits.h"
#include "hook/internal.h"

static void loader_changed(void);

bool dlopen_in_force(void) { return loader_jump_in_force(); }
void dlopen_start(hooks_t *h) { loader_jump_start(h, loader_changed); }
void dlopen_stop(hooks_t *h) { loader_jump_stop(h); }

/* ---- constructors that are put off ---------------------------------------------------------- */

typedef void init_t(int count, char **arguments, char **environment);

typedef struct pending {
  uint64_t entry; /* address of the value of DT_INIT, or of DT_INIT_ARRAY; 0: free */
  uint64_t before, ours;
  uint64_t start, slide; /* of the image */
  uint64_t *array;       /* in place of the image's; NULL: it has a DT_INIT */
  uint32_t array_count;
} pending_t;

#define PENDING   32u
#define ARRAY_MAX 65536u
static pending_t pending[PENDING];

/* The image at START is relocated now: what was made of it before does not count. */
static void search_again(hooks_t *h, uint64_t start) {
  for (uint32_t i = 0; i < h->image_count; i++) {
    if (h->images[i].image.start != start) continue;
    h->images[i].was_offered = 0;
    if (h->images[i].is_searched) hooks_search_again(h, &h->images[i]);
  }
}

/* Sets every hook and puts the image's own entry back. Returns the image's constructor. Other
 * images cannot be unloaded meanwhile: the loader runs constructors under its lock. */
static init_t *arrive(uint32_t number) {
  hooks_t *h = hooks_state();
  pending_t mine = pending[number];
  if (hooks_lock(0)) {
    search_again(h, mine.start);
    (void)patch_word(&h->patcher, mine.entry, mine.ours, mine.before);
    pending[number].entry = 0;
    hooks_refresh(h);
    hooks_unlock();
  }
  if (!mine.array) return (init_t *)(uintptr_t)(mine.before + mine.slide);
  /* The loader goes on in our array, which by now can be what the image's own is. */
  const uint64_t *theirs = (const uint64_t *)(uintptr_t)(mine.before + mine.slide);
  for (uint32_t i = 0; i < mine.array_count; i++)
    store_relaxed(&mine.array[i], theirs[i]);
  return (init_t *)(uintptr_t)theirs[0];
}

#define THUNK(n)                                                                                   \
  static void thunk_##n(int count, char **arguments, char **environment) {                         \
    arrive(n)(count, arguments, environment);                                                      \
  }
#define EIGHT(X, d) X(d##0) X(d##1) X(d##2) X(d##3) X(d##4) X(d##5) X(d##6) X(d##7)
#define ALL(X)      EIGHT(X, 00) EIGHT(X, 01) EIGHT(X, 02) EIGHT(X, 03) /* octal: 0 to 31 */
ALL(THUNK)
#define NAME_THUNK(n) thunk_##n,
static init_t *const thunks[] = {ALL(NAME_THUNK)};
_Static_assert(ARRAY_COUNT(thunks) == PENDING, "one each");

/* The address of the value of TAG in the dynamic section; 0 when there is none. */
static uint64_t dynamic_entry(const import_slots_t *slots, uint64_t tag) {
  const uint8_t *at = slots->dynamic;
  const elf_shape_t shape = {.is_64bit = true};
  for (uint32_t i = 0; i < 512 && elf_u64(shape, at) != ELF_DT_NULL; i++, at += 16)
    if (elf_u64(shape, at) == tag) return (uint64_t)(uintptr_t)(at + 8);
  return 0;
}

/* An array of constructors in place of the image's, whose first one is ours. The loader goes on in
 * it after our thunk has run: its memory is used again a long time later. */
static uint64_t *make_array(pending_t *p, const import_slots_t *slots, init_t *thunk) {
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
  p->array_count = (uint32_t)count;
  p->array[0] = (uint64_t)(uintptr_t)thunk;
  return p->array;
}

/* False: the image has no constructor, or there are too many images. */
static bool put_off(hooks_t *h, const import_slots_t *slots) {
  uint64_t entry = dynamic_entry(slots, ELF_DT_INIT), target;
  bool is_array = !entry;
  if (is_array) entry = dynamic_entry(slots, ELF_DT_INIT_ARRAY);
  uint32_t number = 0;
  while (number < PENDING && pending[number].entry && pending[number].entry != entry)
    number++;
  if (number == PENDING || !entry) return false;
  pending_t *p = &pending[number];
  if (p->entry == entry) return true;
  *p = (pending_t){.before = load_relaxed((const uint64_t *)(uintptr_t)entry),
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

/* ---- what the loader tells ------------------------------------------------------------------ */

static uint32_t missed, is_owed;

bool dlopen_is_owed(void) {
  return UNLIKELY(load_relaxed(&is_owed)) && __atomic_exchange_n(&is_owed, 0, __ATOMIC_ACQ_REL);
}

typedef struct arrived {
  const hooks_t *hooks;
  const import_slots_t *slots;
  uint32_t seen, raw;
} arrived_t;

static bool look_at(const slot_t *slot, void *context) {
  arrived_t *a = context;
  if (filter_is_followed()) { /* any import may be of it */
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

/* A thunk of an image that was never initialized, since its dlopen failed, is free again. */
static void drop_gone(const hooks_t *h) {
  for (uint32_t i = 0; i < PENDING; i++) {
    bool there = false;
    for (uint32_t j = 0; j < h->image_count && pending[i].entry; j++)
      there |= h->images[j].image.start == pending[i].start;
    if (!there) pending[i].entry = 0;
  }
}

static void look(hooks_t *h) {
  slot_names_t names = {{0}};
  bool writer_now = false;
  hooks_scan_images(h);
  pending_look(h);
  for (const symbol_t *s = h->symbols; s; s = s->next)
    slot_names_add(&names, s->name);
  bool is_needed = h->symbols || filter_is_followed();
  drop_gone(h);
  for (uint32_t i = 0; i < h->image_count && is_needed; i++) {
    const import_slots_t *slots = &h->images[i].slots;
    arrived_t a = {h, slots, 0, 0};
    if (h->images[i].is_searched || !h->images[i].has_slots) continue;
    import_slots_each(slots, filter_is_followed() ? NULL : &names, look_at, &a);
    if (a.raw > 0) {
      if (!put_off(h, slots)) store_release(&is_owed, 1);
    } else if (a.seen > 0) {
      writer_now = true;
      h->images[i].is_searched = !h->symbols; /* for nothing: it need not be looked at again */
    }
  }
  if (writer_now) hooks_refresh(h);
  patch_end(&h->patcher);
}

#define PATIENCE_NS 20000000u

/* In place of the loader's empty function. */
static void loader_changed(void) {
  if (!hooks_lock(PATIENCE_NS)) {
    store_release(&missed, 1);
    return;
  }
  look(hooks_state());
  hooks_unlock();
}

bool dlopen_was_missed(void) { return __atomic_exchange_n(&missed, 0, __ATOMIC_ACQ_REL) != 0; }
void dlopen_catch_up(hooks_t *h) { look(h); }
