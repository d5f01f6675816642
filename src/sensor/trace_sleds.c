/* SPDX-License-Identifier: MIT
 *
 * A sled, as clang 14 makes it for x86_64 (compiler-rt/lib/xray/xray_x86_64.cpp describes the
 * same): 11 bytes at an even address. An entry or a tail exit is `jmp +9` and a NOP of 9 bytes, an
 * exit is `ret` and a NOP of 10. Patched they are `call stub` and what the 6 bytes behind it are
 * then: a NOP, or for an exit `ret` first. The stub, one of two for each image within reach of a
 * call, jumps to arch/x86_64/sled.S.
 *
 * Threads run through the code while it changes. Bytes 2 to 10 are not executed as long as the
 * first two are as they were; they are written for all sleds first. Then every processor is made to
 * fetch anew (membarrier), then the first two bytes are written by one store, which no instruction
 * straddles. Taking back is one store of the first two bytes; the rest stays as it is, since a
 * thread may be on its way back into it. Where the kernel has no such barrier nothing is patched
 * unless the process has one thread.
 *
 * An exception and longjmp leave a function without its exit; the tracer tells by stack pointers,
 * and before the catch (agent/jump.c).
 */
#include "sensor/trace_sleds.h"

#include "image/list.h"
#include "image/name.h"
#include "sensor/imports.h"
#include "sensor/trace.h"
#include "sonde/name.h"

#if defined(__x86_64__)

#define SLED_BYTES  11
#define IMAGES_MAX  1024
#define SLEDS_MAX   (1u << 22) /* of an image: a larger map is not believed */
#define STUB_BYTES  16
#define MAP_SECTION "xray_instr_map"

typedef struct sled_record {
  int64_t sled, function; /* each relative to its own address */
  uint8_t kind, always, version, padding[13];
} sled_record_t;
_Static_assert(sizeof(sled_record_t) == 32, "as clang lays it out");

enum { KIND_ENTRY, KIND_EXIT, KIND_TAIL_EXIT };

typedef struct sled_image {
  image_id_t id;
  const sled_record_t *records;
  uint32_t count;
  uint64_t low, high; /* of the sleds */
  uint64_t stubs;     /* entry, exit */
} sled_image_t;

static struct {
  sled_image_t images[IMAGES_MAX];
  uint32_t count;
  uint32_t lock;
} all;

void trace_sled_entry(void);
void trace_sled_exit(void);
__attribute__((used)) HIDDEN void trace_sled_entered(uint64_t sled, uint64_t sp);
__attribute__((used)) HIDDEN void trace_sled_left(uint64_t sled, uint64_t sp);

void trace_sled_entered(uint64_t sled, uint64_t sp) {
  uint32_t generation = trace_on();
  if (generation) trace_enter_sled(generation, sled, sp);
}

void trace_sled_left(uint64_t sled, uint64_t sp) {
  uint32_t generation = trace_on();
  (void)sled;
  if (generation) trace_exit_sled(generation, sp);
}

/* ---- where they are ------------------------------------------------------------------------ */

static uint64_t sled_of(const sled_record_t *r) {
  return (uint64_t)(uintptr_t)&r->sled + (uint64_t)r->sled;
}

static uint64_t function_of(const sled_record_t *r) {
  return (uint64_t)(uintptr_t)&r->function + (uint64_t)r->function;
}

static bool is_code(const image_t *i, uint64_t address) {
  for (uint32_t k = 0; k < i->segment_count; k++) {
    const segment_t *s = &i->segments[k];
    uint64_t start = s->address + i->slide;
    if (s->flags & 1 /* PF_X */ && address >= start && address + SLED_BYTES <= start + s->size)
      return true;
  }
  return false;
}

/* What an unpatched sled of KIND begins with, or one that was patched and taken back. */
static bool looks_right(uint64_t sled, uint8_t kind) {
  const uint8_t *p = (const uint8_t *)(uintptr_t)sled;
  return kind == KIND_EXIT ? p[0] == 0xc3 : p[0] == 0xeb && p[1] == 0x09;
}

static bool is_ours(const sled_record_t *r) { return r->kind <= KIND_TAIL_EXIT && r->version == 2; }

/* Every record must say what the code confirms: else the section is not what we take it for. */
static bool check(const image_t *i, sled_image_t *image) {
  image->low = UINT64_MAX;
  for (uint32_t k = 0; k < image->count; k++) {
    const sled_record_t *r = &image->records[k];
    if (!is_ours(r)) continue;
    uint64_t sled = sled_of(r);
    if (sled % 2 || !is_code(i, sled) || !looks_right(sled, r->kind)) return false;
    if (sled < image->low) image->low = sled;
    if (sled + SLED_BYTES > image->high) image->high = sled + SLED_BYTES;
  }
  return image->low < image->high;
}

static bool is_known(image_id_t id) {
  for (uint32_t k = 0; k < all.count; k++)
    if (all.images[k].id == id) return true;
  return false;
}

static bool look_at(image_entry_t *e, void *context) {
  (void)context;
  section_t map;
  image_t file;
  if (all.count == IMAGES_MAX || is_known(e->id) || !e->file || e->is_system || e->is_vdso)
    return true;
  if (image_open(&file, e->file) < 0) return true;
  bool has = image_section(&file, MAP_SECTION, &map) && map.address &&
             map.size / sizeof(sled_record_t) <= SLEDS_MAX;
  image_close(&file);
  if (!has) return true;
  sled_image_t image = {.id = e->id,
                        .records = (const void *)(uintptr_t)(map.address + e->image.slide),
                        .count = (uint32_t)(map.size / sizeof(sled_record_t))};
  if (check(&e->image, &image)) all.images[all.count++] = image;
  return true;
}

/* ---- patching ------------------------------------------------------------------------------ */

static void put_jump(uint8_t *stub, void (*to)(void)) {
  static const uint8_t jump[] = {0xff, 0x25, 0, 0, 0, 0}; /* jmp *0(%rip) */
  uint64_t address = (uint64_t)(uintptr_t)to;
  memcpy(stub, jump, sizeof jump);
  memcpy(stub + sizeof jump, &address, 8);
}

static bool make_stubs(sled_image_t *image) {
  if (image->stubs) return true;
  uint8_t *page = os_map_near(image->low, 4096);
  if (!page) return false;
  uint64_t at = (uint64_t)(uintptr_t)page;
  put_jump(page, trace_sled_entry);
  put_jump(page + STUB_BYTES, trace_sled_exit);
  if (os_protect(at, at + 4096, 5 /* PROT_READ | PROT_EXEC */) < 0) {
    os_unmap(page, 4096);
    return false;
  }
  image->stubs = at;
  return true;
}

static bool writable(const sled_image_t *image, bool on) {
  uint64_t start = ALIGN_DOWN(image->low, UINT64_C(4096));
  uint64_t end = ALIGN_UP(image->high, UINT64_C(4096));
  return os_protect(start, end, on ? 7 : 5) == 0;
}

static void call_of(const sled_image_t *image, const sled_record_t *r, uint8_t *out) {
  static const uint8_t nop_6[] = {0x66, 0x0f, 0x1f, 0x44, 0, 0},
                       ret_nop[] = {0xc3, 0x0f, 0x1f, 0x44, 0, 0};
  bool exit = r->kind == KIND_EXIT;
  uint64_t stub = image->stubs + (r->kind == KIND_ENTRY ? 0 : STUB_BYTES);
  int32_t distance = (int32_t)(stub - (sled_of(r) + 5));
  out[0] = 0xe8;
  memcpy(out + 1, &distance, 4);
  memcpy(out + 5, exit ? ret_nop : nop_6, 6);
}

static void put_head(uint64_t sled, const uint8_t *two) {
  uint16_t head;
  memcpy(&head, two, 2);
  store_release((uint16_t *)(uintptr_t)sled, head);
}

static bool wanted(const sled_record_t *r, const sled_image_t *image, const char *pattern,
                   sleds_told_t *told) {
  sonde_name_t name;
  if (!*pattern) return true;
  if (name_in_image(image->id, function_of(r), true, &name) < 0 || !name.symbol) {
    told->unnamed += r->kind == KIND_ENTRY;
    return false;
  }
  return imports_match(pattern, name.symbol, name.image);
}

/* Which sleds are to lead to the tracer is settled once, by what is behind the head: a tail that
 * was never written is not called. */
static uint32_t put_tails(const sled_image_t *image, const char *pattern, sleds_told_t *told) {
  uint32_t count = 0;
  for (uint32_t k = 0; k < image->count; k++) {
    const sled_record_t *r = &image->records[k];
    uint8_t code[SLED_BYTES];
    if (!is_ours(r) || !wanted(r, image, pattern, told)) continue;
    call_of(image, r, code);
    memcpy((uint8_t *)(uintptr_t)sled_of(r) + 2, code + 2, SLED_BYTES - 2);
    count++;
  }
  return count;
}

static bool has_tail(const sled_image_t *image, const sled_record_t *r) {
  uint8_t code[SLED_BYTES];
  call_of(image, r, code);
  return !memcmp((const uint8_t *)(uintptr_t)sled_of(r) + 2, code + 2, SLED_BYTES - 2);
}

static void put_heads(const sled_image_t *image, bool on) {
  static const uint8_t jump[] = {0xeb, 0x09}, ret[] = {0xc3, 0x66};
  for (uint32_t k = 0; k < image->count; k++) {
    const sled_record_t *r = &image->records[k];
    uint8_t code[SLED_BYTES];
    if (!is_ours(r) || !has_tail(image, r)) continue;
    call_of(image, r, code);
    put_head(sled_of(r), on ? code : r->kind == KIND_EXIT ? ret : jump);
  }
}

static bool stands(const sled_image_t *image) { return image_check(image->id); }

static void patch(const char *pattern, sleds_told_t *told) {
  bool open[IMAGES_MAX] = {0};
  for (uint32_t k = 0; k < all.count; k++) {
    sled_image_t *image = &all.images[k];
    if (!stands(image)) continue;
    open[k] = make_stubs(image) && writable(image, true);
    if (open[k])
      told->patched += put_tails(image, pattern, told);
    else
      told->refused++;
  }
  (void)os_sync_code();
  for (uint32_t k = 0; k < all.count; k++) {
    if (!open[k]) continue;
    put_heads(&all.images[k], true);
    writable(&all.images[k], false);
  }
}

static void unpatch(void) {
  for (uint32_t k = 0; k < all.count; k++) {
    const sled_image_t *image = &all.images[k];
    if (!image->stubs || !stands(image) || !writable(image, true)) continue;
    put_heads(image, false);
    writable(image, false);
  }
}

static bool count_thread(pid_t tid, uint64_t identity, void *count) {
  (void)tid, (void)identity;
  return ++*(uint32_t *)count < 2;
}

static bool may_patch(void) {
  uint32_t threads = 0;
  if (os_sync_code()) return true;
  return os_threads(count_thread, &threads) >= 0 && threads == 1;
}

sleds_told_t sleds_switch(bool on, const char *pattern) {
  sleds_told_t told = {0};
  uint32_t none = 0;
  if (!cas_acq_rel(&all.lock, &none, 1u)) return told; /* whoever is there does it */
  if (on) image_list_each(look_at, NULL);
  if (all.count && on && !may_patch())
    told.why = "this kernel gives no way to change code that threads may be running";
  else if (on)
    patch(pattern, &told);
  else
    unpatch();
  (void)os_sync_code();
  store_release(&all.lock, 0u);
  return told;
}

#else

sleds_told_t sleds_switch(bool on, const char *pattern) {
  (void)on, (void)pattern;
  return (sleds_told_t){.why = "XRay sleds are patched on x86_64 only"};
}

#endif
