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
 * the hooks are set at once.
 *
 * The callback runs with the loader's lock held: it never waits for our own lock, and when another
 * thread has it, it leaves a note, which that thread or the next entry acts on. Where the loader's
 * function does not look as expected (a debugger's breakpoint, another machine) nothing is changed
 * and late images wait for the next sonde_hook_refresh; sonde_hook_late tells.
 */
#include "base/bits.h"
#include "hook/hooks.h"

static void loader_changed(void);

/* ---- the loader's function ------------------------------------------------------------------ */

static struct {
  uint64_t address; /* 0: it was not changed */
  uint64_t before[2], ours[2];
} breakpoint;

#if defined(__x86_64__)

#define JUMP_BYTES 14u

/* The length of the no-operation at CODE, as assemblers pad with; 0 when it is none. */
static uint32_t nop_length(const uint8_t *code, uint32_t room) {
  uint32_t i = 0;
  while (i < room && (code[i] == 0x66 || code[i] == 0x2e))
    i++;
  if (i < room && code[i] == 0x90) return i + 1;
  if (i + 3 > room || code[i] != 0x0f || code[i + 1] != 0x1f) return 0;
  uint8_t mode = code[i + 2] >> 6, base = code[i + 2] & 7;
  return i + 3 + (base == 4) + (mode == 1 ? 1 : mode == 2 ? 4 : 0);
}

/* `ret`, and padding behind it that nothing jumps to: makes `jmp *0(%rip)` and the address. */
static bool make_jump(const uint8_t *code, uint8_t *out) {
  uint32_t at = 1, step = 1;
  if ((uintptr_t)code % 8 != 0 || code[0] != 0xc3) return false;
  for (; at < JUMP_BYTES && step; at += step)
    step = nop_length(code + at, 24 - at);
  if (at < JUMP_BYTES) return false;
  static const uint8_t jump[6] = {0xff, 0x25, 0, 0, 0, 0};
  uint64_t target = (uint64_t)(uintptr_t)loader_changed;
  __builtin_memcpy(out, jump, sizeof jump);
  __builtin_memcpy(out + sizeof jump, &target, sizeof target);
  return true;
}

#else /* one instruction, with no padding behind it: it would take a stub within its reach */
static bool make_jump(const uint8_t *code, uint8_t *out) {
  (void)loader_changed;
  (void)code;
  (void)out;
  return false;
}
#endif

/* Both words at once as far as one can: what is entered first is written last, by one store. */
static bool write_code(hooks_t *h, const uint64_t from[2], const uint64_t to[2]) {
  uint64_t *code = (uint64_t *)(uintptr_t)breakpoint.address;
  bool done = patch_open(&h->patcher, breakpoint.address);
  if (done && load_relaxed(&code[0]) == from[0] && from[0] == breakpoint.before[0]) {
    store_release(&code[1], to[1]);
    store_release(&code[0], to[0]);
  } else if (done && load_relaxed(&code[0]) == from[0]) {
    store_release(&code[0], to[0]);
    store_release(&code[1], to[1]);
  } else {
    done = false;
  }
  patch_end(&h->patcher);
  return done;
}

bool late_in_force(void) {
  return breakpoint.address &&
         load_relaxed((const uint64_t *)(uintptr_t)breakpoint.address) == breakpoint.ours[0];
}

void late_start(hooks_t *h) {
  if (late_in_force()) return;
  uint64_t address = os_loader_breakpoint();
  uint8_t code[24];
  breakpoint.address = 0;
  if (!address || os_read_memory(address, code, sizeof code) != (ssize_t)sizeof code) return;
  __builtin_memcpy(breakpoint.before, code, sizeof breakpoint.before);
  __builtin_memcpy(breakpoint.ours, code, sizeof breakpoint.ours);
  if (address % 8 != 0 ||
      !make_jump((const uint8_t *)(uintptr_t)address, (uint8_t *)breakpoint.ours))
    return;
  breakpoint.address = address;
  if (!write_code(h, breakpoint.before, breakpoint.ours)) breakpoint.address = 0;
}

void late_stop(hooks_t *h) {
  if (late_in_force()) (void)write_code(h, breakpoint.ours, breakpoint.before);
  breakpoint.address = 0;
}

/* ---- constructors that are put off ---------------------------------------------------------- */

typedef void init_t(int count, char **arguments, char **environment);

typedef struct pending {
  uint64_t entry; /* address of the value of DT_INIT; 0: free */
  uint64_t before, ours;
  uint64_t start, slide; /* of the image */
} pending_t;

#define PENDING 32u
static pending_t pending[PENDING];

static void search_again(hooks_t *h, uint64_t start) {
  for (uint32_t i = 0; i < h->image_count; i++)
    if (h->images[i].is_searched && h->images[i].image.start == start)
      hooks_search_again(h, &h->images[i]);
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
  return (init_t *)(uintptr_t)(mine.before + mine.slide);
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

/* The address of the value of DT_INIT; 0 when there is none. */
static uint64_t init_entry(const slots_t *slots) {
  const uint8_t *at = slots->dynamic;
  const elf_shape_t shape = {.is_64bit = true};
  for (uint32_t i = 0; i < 512 && elf_u64(shape, at) != ELF_DT_NULL; i++, at += 16)
    if (elf_u64(shape, at) == ELF_DT_INIT) return (uint64_t)(uintptr_t)(at + 8);
  return 0;
}

static void put_off(hooks_t *h, const slots_t *slots) {
  uint64_t entry = init_entry(slots);
  uint32_t number = 0;
  while (number < PENDING && pending[number].entry && pending[number].entry != entry)
    number++;
  if (number == PENDING || !entry || pending[number].entry == entry) return;
  pending_t *p = &pending[number];
  *p = (pending_t){.before = load_relaxed((const uint64_t *)(uintptr_t)entry),
                   .ours = (uint64_t)(uintptr_t)thunks[number] - slots->slide,
                   .start = slots->start,
                   .slide = slots->slide};
  p->entry = entry;
  if (patch_word(&h->patcher, entry, p->before, p->ours) != PATCH_DONE) p->entry = 0;
}

/* ---- what the loader tells ------------------------------------------------------------------ */

static uint32_t missed;

typedef struct arrived {
  const hooks_t *hooks;
  const slots_t *slots;
  uint32_t seen, raw;
} arrived_t;

static bool look_at(const slot_t *slot, void *context) {
  arrived_t *a = context;
  if (family_is_followed()) { /* any import may be of it */
    a->seen++;
    a->raw += slots_is_raw(a->slots, load_relaxed((const uint64_t *)(uintptr_t)slot->address));
    return true;
  }
  const symbol_t *s = hooks_bucket(a->hooks, hooks_hash(slot->name));
  for (; s; s = s->same_hash) {
    if (!slots_text_equal(s->name, slot->name)) continue;
    uint64_t value = load_relaxed((const uint64_t *)(uintptr_t)slot->address);
    a->seen++;
    a->raw += slots_is_raw(a->slots, value);
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
  bool write_now = false;
  for (const symbol_t *s = h->symbols; s; s = s->next)
    slot_names_add(&names, s->name);
  bool is_needed = h->symbols || family_is_followed();
  hooks_scan_images(h);
  drop_gone(h);
  for (uint32_t i = 0; i < h->image_count && is_needed; i++) {
    const slots_t *slots = &h->images[i].slots;
    arrived_t a = {h, slots, 0, 0};
    if (h->images[i].is_searched || !h->images[i].has_slots) continue;
    slots_each(slots, family_is_followed() ? NULL : &names, look_at, &a);
    if (a.raw > 0)
      put_off(h, slots);
    else if (a.seen > 0)
      write_now = true;
  }
  if (write_now) hooks_refresh(h);
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

bool late_was_missed(void) { return __atomic_exchange_n(&missed, 0, __ATOMIC_ACQ_REL) != 0; }
void late_catch_up(hooks_t *h) { look(h); }
