/* SPDX-License-Identifier: MIT
 *
 * Patchable entries: NOPs that -fpatchable-function-entry=N (gcc and clang; N at least 5 on x86_64,
 * 1 on aarch64) leaves at the start of each function. The section __patchable_function_entries,
 * which the loader has relocated, has the addresses of all of them. A patched entry leads to a
 * trampoline (hook/trampoline.h), so the end of a call is seen however the call ends, and unwinders
 * work. The compiler may assume of such calls what the psABI states: with this option gcc does not
 * let a caller know which registers a callee preserves (-fipa-ra).
 *
 * The section does not give the exact position: of N,M, M NOPs are before the function, where
 * nothing executes. The start of the function is taken from unwind information; a function without
 * it is not patched.
 *
 * A call that came through an import's trampoline is not recorded twice.
 */
#include "arch/patch.h"
#include "hook/trampoline.h"
#include "os/os.h"
#include "sensor/trace/imports.h"
#include "sensor/trace/trace.h"
#include "sensor/trace/code.h"
#include "unwind/cfi.h"

#define SECTION    "__patchable_function_entries"
#define IMAGES_MAX 1024
/* Of one image; a larger section is not trusted. */
#define ENTRIES_MAX (1u << 22)
/* Bytes before a function. */
#define NOPS_MAX 64u

typedef struct patchable {
  trampoline_t trampoline;
  patch_t patch;
} patchable_t;

typedef struct entry_image {
  image_id_t id;
  patchable_t *entries; /* those that can be patched */
  uint32_t count;
  patch_stubs_t stubs; /* start 0: none yet */
} entry_image_t;

static entry_image_t images[IMAGES_MAX];
static uint32_t image_count;

/* ---- where they are -------------------------------------------------------------------------- */

/* The start of the function that contains PC; 0: unknown. */
static uint64_t function_start(const image_t *image, uint64_t pc) {
  cfi_row_t row;
  if (cfi_find_row(image, pc - image->slide, &row) != 0) return 0;
  return row.function_start + image->slide;
}

/* From RECORD, which may be before the function: the function's start, and the first address after
 * a landing pad instruction (endbr64, bti). False if there is none. */
static bool find_function(const image_t *image, uint64_t record, uint64_t *function,
                          uint64_t *place) {
  for (uint64_t at = record; at - record < NOPS_MAX && code_contains(image, at, PATCH_CODE_READ);) {
    const uint8_t *code = (const uint8_t *)(uintptr_t)at;
    *function = function_start(image, at);
    *place = at + patch_mark_bytes(code);
    if (*function == at) return true;
    if (*function && *function < at) return *function + patch_mark_bytes(code - 4) == at;
    uint32_t nop = patch_nop_bytes(code);
    if (!nop) return false;
    at += nop;
  }
  return false;
}

/* With gcc for aarch64 unwind information begins after the NOPs, so the function's start among them
 * is unknown. The last NOP is in the function, unless all NOPs are before it and are never
 * executed. */
static bool find_nop_before(uint64_t function, uint64_t record, patchable_t *out) {
#if defined(__aarch64__)
  uint64_t place = function - 4;
  if (function - record - 4 > NOPS_MAX || !patch_look(place, &out->patch)) return false;
  out->trampoline.function = place;
  return true;
#else
  (void)function, (void)record, (void)out;
  return false;
#endif
}

static bool find_nops(const image_t *image, uint64_t record, patchable_t *out) {
  uint64_t function, place;
  if (!find_function(image, record, &function, &place)) return false;
  if (!code_contains(image, place, PATCH_CODE_READ) || !patch_look(place, &out->patch))
    return find_nop_before(function, record, out);
  out->trampoline.function = function;
  return true;
}

bool entries_scan(const image_entry_t *e, const image_t *file, code_result_t *result) {
  section_t map;
  if (image_count == IMAGES_MAX || !code_section(e, file, SECTION, ENTRIES_MAX * 8, &map))
    return true;
  const uint64_t *records = (const uint64_t *)(uintptr_t)map.address;
  uint32_t count = (uint32_t)(map.size / 8);
  if (count && (records[0] < e->image.start || records[0] >= e->image.end)) return false;
  const image_t *completed = image_complete(e->id, cfi_index);
  entry_image_t *image = &images[image_count];
  *image = (entry_image_t){.id = e->id, .entries = os_map(count * sizeof(patchable_t))};
  if (!image->entries) return true;
  image->stubs.low = UINT64_MAX;
  for (uint32_t i = 0; i < count; i++) {
    patchable_t *entry = &image->entries[image->count];
    if (!find_nops(completed ? completed : &e->image, records[i], entry)) {
      result->small++;
      continue;
    }
    uint64_t place = entry->patch.place;
    if (place < image->stubs.low) image->stubs.low = place;
    if (place > image->stubs.high) image->stubs.high = place;
    image->count++;
  }
  image->stubs.count = image->count;
  image_count += image->count > 0;
  return true;
}

/* ---- stubs ----------------------------------------------------------------------------------- */

static bool map_stubs(patch_stubs_t *stubs) {
  for (uint32_t try = 0; try < PATCH_TRIES && patch_stubs_place(stubs, try); try++)
    if (stubs->start && os_map_at(stubs->start, stubs->bytes)) return true;
  stubs->start = 0;
  return false;
}

static bool make_stubs(entry_image_t *image) {
  patch_stubs_t *stubs = &image->stubs;
  if (stubs->start) return true;
  if (!map_stubs(stubs)) return false;
  uint64_t body = trampoline_address(TRAMPOLINE_BODY);
  for (uint32_t i = 0; i < image->count; i++) {
    patchable_t *entry = &image->entries[i];
    trampoline_t *t = &entry->trampoline;
    t->target = patch_stub(stubs, i, &entry->patch, (uint64_t)(uintptr_t)t, body);
    t->flags = TRAMPOLINE_INSIDE;
    trampoline_set(t, &imports_timed_calls);
  }
  if (os_protect(stubs->start, stubs->start + stubs->bytes, 5 /* PROT_READ | PROT_EXEC */) == 0)
    return true;
  os_unmap((void *)(uintptr_t)stubs->start, stubs->bytes);
  stubs->start = 0;
  return false;
}

/* ---- patching -------------------------------------------------------------------------------- */

static bool choose(entry_image_t *image, const char *pattern, code_result_t *result) {
  patcher_t patcher = {.maps = -1};
  bool open = make_stubs(image) && patch_open(&patcher, image->stubs.low);
  patch_end(&patcher);
  result->refused += !open;
  for (uint32_t i = 0; i < image->count; i++) {
    patchable_t *entry = &image->entries[i];
    entry->patch.wanted =
        open && code_matches(image->id, entry->trampoline.function, pattern, true, result);
    result->patched += entry->patch.wanted;
  }
  return open;
}

/* An image that was unloaded and loaded again has NOPs: the code is read, not remembered. */
static void step_all(bool on, uint32_t step) {
  patcher_t patcher = {.maps = -1};
  for (uint32_t k = 0; k < image_count; k++) {
    const entry_image_t *image = &images[k];
    if (!image->stubs.start || !image_check(image->id)) continue;
    for (uint32_t i = 0; i < image->count; i++) {
      const patch_t *patch = &image->entries[i].patch;
      if (patch->wanted && patch_open(&patcher, patch->place))
        patch_step(&image->stubs, i, patch, on, step);
    }
  }
  patch_end(&patcher);
}

static void run_steps(bool on) {
  for (uint32_t step = 0; step < PATCH_STEPS; step++) {
    step_all(on, step);
    (void)os_sync_code();
  }
}

void entries_patch(const char *pattern, code_result_t *result) {
  bool any = false;
  for (uint32_t k = 0; k < image_count; k++)
    if (image_check(images[k].id)) {
      result->why = trampoline_ready();
      any |= !result->why && choose(&images[k], pattern, result);
    }
  if (any) run_steps(true);
}

void entries_unpatch(void) {
  if (image_count) run_steps(false);
}
