/* SPDX-License-Identifier: MIT
 *
 * XRay sleds: room that clang -fxray-instrument leaves at the start and the ends of functions, and
 * a map of it (section xray_instr_map). sonde patches them itself; the program need not be linked
 * with compiler-rt.
 *
 * Threads run through the code while it changes. The tail of a sled is not executed as long as its
 * head is as it was (arch/sled.h); tails are written for all sleds first. Then every processor is
 * made to fetch anew (membarrier), then the heads are written. A patched sled calls a stub, one of
 * two for each image within reach of a call. Taking back is one store of the head; the tail stays
 * as it is, since a thread may be on its way back into it. Where the kernel has no such barrier
 * nothing is patched unless the process has one thread.
 *
 * A call that came through an import's trampoline is not told twice.
 *
 * An exception and longjmp leave a function without its exit; the tracer tells by stack pointers,
 * and before the catch (agent/jump.c).
 */
#include "arch/arch.h"
#include "arch/sled.h"
#include "hook/patch.h"
#include "hook/trampoline.h"
#include "os/os.h"
#include "sensor/trace/trace.h"
#include "sensor/trace/code.h"

#define MARK_BYTES  4 /* endbr64 or bti c may stand before an entry's */
#define IMAGES_MAX  1024
#define SLEDS_MAX   (1u << 22) /* of an image: a larger map is not believed */
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

/* Called by arch/…/sled.S. SP is that of the caller's call, less 8: the address of the return
 * address on x86_64, and below the stack pointer on aarch64, where a trampoline's call that the
 * function runs inside of has that one itself. */
__attribute__((used)) HIDDEN void trace_sled_entered(uint64_t sled, uint64_t sp, uint64_t back);
__attribute__((used)) HIDDEN void trace_sled_left(uint64_t sled, uint64_t sp, uint64_t back);

/* Is BACK, where a function returns to, a trampoline? */
static ALWAYS_INLINE bool from_trampoline(uint64_t back) {
  return back == trampoline_address(TRAMPOLINE_RETURN);
}

/* SLED is that of the very function that the trampoline was for, which has told of the call; a
 * function that it ended in returns there too. */
static NOINLINE bool is_told(uint64_t sled, uint64_t sp) {
  const call_t *call = trampoline_innermost();
  return call && call->sp == sp + 8 && sled - call->trampoline->function <= MARK_BYTES;
}

/* The end of a call that a sled began. */
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
  if (!generation || (UNLIKELY(from_trampoline(back)) && is_told(sled, sp))) return;
  trace_enter_sled(generation, sled, sp);
}

void trace_sled_left(uint64_t sled, uint64_t sp, uint64_t back) {
  uint32_t generation = trace_on();
  (void)sled;
  if (!generation || (UNLIKELY(from_trampoline(back)) && !is_begun(sp))) return;
  trace_exit_sled(generation, sp);
}

/* ---- where they are ------------------------------------------------------------------------ */

static uint64_t sled_of(const sled_record_t *r) {
  return (uint64_t)(uintptr_t)&r->sled + (uint64_t)r->sled;
}

static uint64_t function_of(const sled_record_t *r) {
  return (uint64_t)(uintptr_t)&r->function + (uint64_t)r->function;
}

static bool is_ours(const sled_record_t *r) { return r->kind <= SLED_TAIL_EXIT && r->version == 2; }

/* Every record must say what the code confirms: else the section is not what we take it for. */
static bool check(const image_t *i, sled_image_t *image) {
  image->low = UINT64_MAX;
  for (uint32_t k = 0; k < image->count; k++) {
    const sled_record_t *r = &image->records[k];
    if (!is_ours(r)) continue;
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

/* ---- patching ------------------------------------------------------------------------------ */

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

/* Which sleds are to lead to the tracer is settled once, by what is behind the head: a tail that
 * was never written is not called. */
static uint32_t put_tails(const sled_image_t *image, const char *pattern, code_result_t *told) {
  patcher_t patcher = {.maps = -1};
  uint32_t count = 0;
  for (uint32_t k = 0; k < image->count; k++) {
    const sled_record_t *r = &image->records[k];
    uint8_t code[SLED_BYTES];
    if (!is_ours(r) ||
        !code_matches(image->id, function_of(r), pattern, r->kind == SLED_ENTRY, told) ||
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
    if (!is_ours(r)) continue;
    code_of(image, r, code);
    if (!has_tail(r, code) || !patch_open(&patcher, sled_of(r))) continue;
    memcpy(&head, code, sizeof head);
    put_head(sled_of(r), on ? head : sled_head(r->kind));
  }
  patch_end(&patcher);
}

/* Can the image's code be written? */
static bool opens(const sled_image_t *image) {
  patcher_t patcher = {.maps = -1};
  bool done = patch_open(&patcher, image->low);
  patch_end(&patcher);
  return done;
}

static bool stands(const sled_image_t *image) { return image_check(image->id); }

void sleds_patch(const char *pattern, code_result_t *told) {
  bool open[IMAGES_MAX] = {0};
  for (uint32_t k = 0; k < all.count; k++) {
    sled_image_t *image = &all.images[k];
    if (!stands(image)) continue;
    open[k] = make_stubs(image) && opens(image);
    if (open[k])
      told->patched += put_tails(image, pattern, told);
    else
      told->refused++;
  }
  (void)os_sync_code();
  for (uint32_t k = 0; k < all.count; k++)
    if (open[k]) put_heads(&all.images[k], true);
}

void sleds_unpatch(void) {
  for (uint32_t k = 0; k < all.count; k++)
    if (all.images[k].stubs && stands(&all.images[k])) put_heads(&all.images[k], false);
}
