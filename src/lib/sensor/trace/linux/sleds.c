/* SPDX-License-Identifier: MIT
 *
 * XRay sleds: NOPs that clang -fxray-instrument leaves at the start and the ends of functions, and
 * their map (section xray_instr_map). sonde patches them itself; the program need not be linked
 * with compiler-rt.
 *
 * Threads execute the code while it changes. The tail of a sled is not executed while its head is
 * unchanged (arch/sled.h). So the tails of all sleds are written first; then every CPU refetches
 * instructions (membarrier(2)); then the heads are written. A patched sled calls a stub, one of two
 * per image within reach of a call. Removing a patch is one store of the head. The tail stays,
 * since a thread may be about to return into it. If the kernel has no such barrier, code is patched
 * only while the process has one thread.
 *
 * A call that came through an import's trampoline is not recorded twice.
 *
 * An exception and longjmp leave a function without its exit sled. The tracer detects that by stack
 * pointer, and before the catch (agent/jump.c).
 */
#include "arch/arch.h"
#include "arch/sled.h"
#include "hook/patch.h"
#include "hook/trampoline.h"
#include "os/os.h"
#include "sensor/trace/trace.h"
#include "sensor/trace/code.h"

/* endbr64 or bti c may precede an entry sled. */
#define MARK_BYTES 4
#define IMAGES_MAX 1024
/* Of one image; a larger map is not trusted. */
#define SLEDS_MAX   (1u << 22)
#define STUBS_BYTES 4096u
#define MAP_SECTION "xray_instr_map"

typedef struct sled_record {
  int64_t sled, function; /* each relative to its own address */
  uint8_t kind, always, version, padding[13];
} sled_record_t;
_Static_assert(sizeof(sled_record_t) == 32, "as clang lays it out");

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
} all;

/* Called by arch/…/sled.S. SP is the caller's stack pointer at the call, less 8: on x86_64 the
 * address of the return address. On aarch64 it is below the stack pointer, because the call of an
 * enclosing trampoline has the stack pointer itself. */
__attribute__((used)) HIDDEN void trace_sled_entered(uint64_t sled, uint64_t sp, uint64_t back);
__attribute__((used)) HIDDEN void trace_sled_left(uint64_t sled, uint64_t sp, uint64_t back);

/* True if BACK, a return address, is the trampoline's. */
static ALWAYS_INLINE bool from_trampoline(uint64_t back) {
  return back == trampoline_address(TRAMPOLINE_RETURN);
}

/* True if SLED is in the function of the innermost trampoline call, which has recorded the call. A
 * function that it tail-called returns to the trampoline too. */
static NOINLINE bool is_recorded(uint64_t sled, uint64_t sp) {
  const call_t *call = trampoline_innermost();
  return call && call->sp == sp + 8 && sled - call->trampoline->function <= MARK_BYTES;
}

/* True if a sled began the call that ends at SP. */
static NOINLINE bool is_begun(uint64_t sp) {
  const trace_thread_t *t = trace_tls;
  if (!t || !t->calls) return true;
  const trace_call_t *call = t->top;
  while (call > t->calls && call->sp < sp)
    call--;
  return call->function == TRACE_SLED && call->sp == sp;
}

void trace_sled_entered(uint64_t sled, uint64_t sp, uint64_t back) {
  uint32_t generation = trace_on();
  if (!generation || (UNLIKELY(from_trampoline(back)) && is_recorded(sled, sp))) return;
  trace_enter_sled(generation, sled, sp);
}

void trace_sled_left(uint64_t sled, uint64_t sp, uint64_t back) {
  uint32_t generation = trace_on();
  (void)sled;
  if (!generation || (UNLIKELY(from_trampoline(back)) && !is_begun(sp))) return;
  trace_exit_sled(generation, sp);
}

/* ---- where they are -------------------------------------------------------------------------- */

static uint64_t sled_of(const sled_record_t *r) {
  return (uint64_t)(uintptr_t)&r->sled + (uint64_t)r->sled;
}

static uint64_t function_of(const sled_record_t *r) {
  return (uint64_t)(uintptr_t)&r->function + (uint64_t)r->function;
}

static bool is_supported(const sled_record_t *r) {
  return r->kind <= SLED_TAIL_EXIT && r->version == 2;
}

/* Every record must match the code; otherwise the section is not trusted. */
static bool check(const image_t *i, sled_image_t *image) {
  image->low = UINT64_MAX;
  for (uint32_t k = 0; k < image->count; k++) {
    const sled_record_t *r = &image->records[k];
    if (!is_supported(r)) continue;
    uint64_t sled = sled_of(r);
    if (!code_contains(i, sled, SLED_BYTES) || !sled_looks_right(sled, r->kind)) return false;
    if (sled < image->low) image->low = sled;
    if (sled + SLED_BYTES > image->high) image->high = sled + SLED_BYTES;
  }
  return image->low < image->high;
}

void sleds_scan(const image_entry_t *e, const image_t *file) {
  section_t map;
  if (all.count == IMAGES_MAX ||
      !code_section(e, file, MAP_SECTION, SLEDS_MAX * sizeof(sled_record_t), &map))
    return;
  sled_image_t image = {.id = e->id,
                        .records = (const void *)(uintptr_t)map.address,
                        .count = (uint32_t)(map.size / sizeof(sled_record_t))};
  if (check(&e->image, &image)) all.images[all.count++] = image;
}

/* ---- patching -------------------------------------------------------------------------------- */

static bool in_reach(const sled_image_t *image, uint64_t stubs) {
  uint64_t low = stubs < image->low ? stubs : image->low;
  uint64_t high = stubs < image->high ? image->high : stubs;
  return high + STUBS_BYTES - low < SLED_REACH;
}

static bool make_stubs(sled_image_t *image) {
  if (image->stubs) return true;
  void *page = os_map_near(image->low, STUBS_BYTES);
  if (!page) return false;
  uint64_t at = (uint64_t)(uintptr_t)page;
  sled_stub(at, trace_sled_entry);
  sled_stub(at + SLED_STUB_BYTES, trace_sled_exit);
  if (!in_reach(image, at) || os_protect(at, at + STUBS_BYTES, 5 /* PROT_READ | PROT_EXEC */) < 0) {
    os_unmap(page, STUBS_BYTES);
    return false;
  }
  image->stubs = at;
  return true;
}

static void code_of(const sled_image_t *image, const sled_record_t *r, uint8_t *out) {
  uint64_t stub = image->stubs + (r->kind == SLED_ENTRY ? 0 : SLED_STUB_BYTES);
  sled_code(sled_of(r), r->kind, stub, out);
}

static void put_head(uint64_t sled, sled_head_t head) {
  store_release((sled_head_t *)(uintptr_t)sled, head);
  arch_code_written(sled, sizeof head);
}

/* Writing the tails decides which sleds are patched: put_heads skips a sled without its tail. */
static uint32_t put_tails(const sled_image_t *image, const char *pattern, code_result_t *result) {
  patcher_t patcher = {.maps = -1};
  uint32_t count = 0;
  for (uint32_t k = 0; k < image->count; k++) {
    const sled_record_t *r = &image->records[k];
    uint8_t code[SLED_BYTES];
    if (!is_supported(r) ||
        !code_matches(image->id, function_of(r), pattern, r->kind == SLED_ENTRY, result) ||
        !patch_open(&patcher, sled_of(r)))
      continue;
    code_of(image, r, code);
    uint64_t tail = sled_of(r) + sizeof(sled_head_t);
    memcpy((void *)(uintptr_t)tail, code + sizeof(sled_head_t), SLED_BYTES - sizeof(sled_head_t));
    arch_code_written(tail, SLED_BYTES - sizeof(sled_head_t));
    count++;
  }
  patch_end(&patcher);
  return count;
}

static bool has_tail(const sled_record_t *r, const uint8_t *code) {
  const uint8_t *sled = (const uint8_t *)(uintptr_t)sled_of(r);
  const size_t head = sizeof(sled_head_t);
  return !memcmp(sled + head, code + head, SLED_BYTES - head);
}

static void put_heads(const sled_image_t *image, bool on) {
  patcher_t patcher = {.maps = -1};
  for (uint32_t k = 0; k < image->count; k++) {
    const sled_record_t *r = &image->records[k];
    uint8_t code[SLED_BYTES];
    sled_head_t head;
    if (!is_supported(r)) continue;
    code_of(image, r, code);
    if (!has_tail(r, code) || !patch_open(&patcher, sled_of(r))) continue;
    memcpy(&head, code, sizeof head);
    put_head(sled_of(r), on ? head : sled_head(r->kind));
  }
  patch_end(&patcher);
}

/* True if the image's code can be written. */
static bool is_writable(const sled_image_t *image) {
  patcher_t patcher = {.maps = -1};
  bool done = patch_open(&patcher, image->low);
  patch_end(&patcher);
  return done;
}

static bool is_loaded(const sled_image_t *image) { return image_check(image->id); }

void sleds_patch(const char *pattern, code_result_t *result) {
  bool open[IMAGES_MAX] = {0};
  for (uint32_t k = 0; k < all.count; k++) {
    sled_image_t *image = &all.images[k];
    if (!is_loaded(image)) continue;
    open[k] = make_stubs(image) && is_writable(image);
    if (open[k])
      result->patched += put_tails(image, pattern, result);
    else
      result->refused++;
  }
  (void)os_sync_code();
  for (uint32_t k = 0; k < all.count; k++)
    if (open[k]) put_heads(&all.images[k], true);
}

void sleds_unpatch(void) {
  for (uint32_t k = 0; k < all.count; k++)
    if (all.images[k].stubs && is_loaded(&all.images[k])) put_heads(&all.images[k], false);
}
