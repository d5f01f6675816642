/* SPDX-License-Identifier: MIT
 *
 * A batch is the functions of one image that one request patched. Its records and stubs are written
 * before the first jump, and never change afterwards.
 */
#include "hook/entry.h"

#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "capture/walk.h"
#include "hook/patch.h"
#include "image/name.h"
#include "os/lock.h"
#include "os/os.h"
#include "unwind/cfi.h"
#include "unwind/cfi_list.h"

#define BATCHES_MAX 1024u
/* Of one image; more are not looked at. */
#define FUNCTIONS_MAX (1u << 22)
#define WORD          8u

typedef struct record {
  trampoline_t trampoline;
  moved_t moved;
  uint8_t jump_bytes;
  uint8_t before[MOVE_JUMP_BYTES_MAX], jump[MOVE_JUMP_BYTES_MAX];
} record_t;

/* Nobody's, restored; nobody's, to be restored after another owner's. */
#define RETIRED UINT16_MAX
#define LEAVING (UINT16_MAX - 1u)

typedef struct batch {
  image_id_t image;
  entry_owner_t owner;
  uint32_t count;
  record_t *records;
  uint64_t stubs, stubs_bytes; /* the first stub's place holds the address that stubs jump to */
} batch_t;

bool entry_alone_in_emulator;
bool (*entry_change_stopped)(const entry_change_t *changes, uint32_t count);
static batch_t batches[BATCHES_MAX];
static uint32_t batch_count;
static lock_t lock;

static uint64_t stub_of(const batch_t *b, uint32_t i) {
  return b->stubs + (i + UINT64_C(1)) * MOVE_STUB_BYTES;
}

static const record_t *record_at(uint64_t pc, uint64_t *stub) {
  uint32_t count = load_acquire(&batch_count);
  for (uint32_t k = 0; k < count; k++) {
    const batch_t *b = &batches[k];
    if (pc - b->stubs >= b->stubs_bytes) continue;
    uint64_t i = (pc - b->stubs) / MOVE_STUB_BYTES;
    if (!i || i > b->count) return NULL;
    *stub = b->stubs + i * MOVE_STUB_BYTES;
    return &b->records[i - 1];
  }
  return NULL;
}

/* ---- functions of an image ------------------------------------------------------------------ */

typedef struct function {
  uint64_t start, end;
  bool is_entry; /* it begins as a called function does */
  bool is_known; /* all its instructions are */
} function_t;

typedef struct functions {
  function_t *all;
  uint32_t count;
  uint64_t list_bytes, map_bytes;
  move_map_t map;
} functions_t;

static void text_range(const image_t *image, move_map_t *map) {
  map->low = UINT64_MAX;
  map->high = 0;
  for (uint32_t k = 0; k < image->segment_count; k++) {
    const segment_t *s = &image->segments[k];
    uint64_t start = s->address + image->slide;
    if (!(s->flags & 1 /* PF_X */)) continue;
    if (start < map->low) map->low = start;
    if (start + s->size > map->high) map->high = start + s->size;
  }
}

/* True if ROW describes the state that a call leaves: the return address is where the call put it
 * and all other registers are the caller's. */
static bool is_call_row(const cfi_row_t *row) {
#if defined(__x86_64__)
  const int64_t cfa = 8, slot = -8;
#else
  const int64_t cfa = 0;
#endif
  if (row->signal_frame || row->cfa_is_expression || row->ra_signed ||
      row->cfa_register != machine_sp(MACHINE_HERE) || row->cfa_offset != cfa)
    return false;
  for (int i = 0; i < REGS_COUNT; i++) {
    const cfi_rule_t *rule = &row->rules[i];
#if defined(__x86_64__)
    if (i == row->return_register) {
      if (rule->how != CFI_OFFSET || rule->offset != slot) return false;
      continue;
    }
#endif
    if (rule->how != CFI_SAME) return false;
  }
  return true;
}

static bool contains(const move_map_t *map, uint64_t start, uint64_t end) {
  return start >= map->low && start < end && end <= map->high;
}

static void read_functions(const image_t *image, const cfi_list_t *list, functions_t *f) {
  cfi_row_t row;
  for (uint32_t i = 0; i < list->count; i++) {
    uint64_t start = cfi_list_start(list, i);
    if (cfi_find_row(image, start, &row) != 0 || row.function_start != start) continue;
    function_t *function = &f->all[f->count];
    function->start = start + image->slide;
    function->end = row.function_end + image->slide;
    function->is_entry = is_call_row(&row);
    if (!contains(&f->map, function->start, function->end)) continue;
    if (f->count && function[-1].end > function->start) function[-1].end = function->start;
    f->count++;
  }
  for (uint32_t i = 0; i < f->count; i++)
    f->all[i].is_known = move_scan(f->all[i].start, f->all[i].end, &f->map);
}

static bool open_functions(const image_t *image, functions_t *f) {
  cfi_list_t list;
  memset(f, 0, sizeof *f);
  text_range(image, &f->map);
  if (!cfi_list_open(image, &list) || !list.count || list.count > FUNCTIONS_MAX) return false;
  uint64_t bits = (f->map.high - f->map.low) / MOVE_UNIT / 8 + 1;
  f->map_bytes = ALIGN_UP(2 * bits, UINT64_C(4096));
  f->list_bytes = list.count * sizeof(function_t);
  f->map.into = os_map(f->map_bytes);
  f->all = os_map(f->list_bytes);
  if (!f->map.into || !f->all) return false;
  f->map.by_branch = f->map.into + bits;
  read_functions(image, &list, f);
  return true;
}

static void close_functions(functions_t *f) {
  if (f->map.into) os_unmap(f->map.into, f->map_bytes);
  if (f->all) os_unmap(f->all, f->list_bytes);
}

/* ---- choosing ------------------------------------------------------------------------------- */

/* gcc and clang name a part of a function that they moved away so: NAME.cold, NAME.cold.1. */
static bool is_part(const char *name) {
  for (; *name; name++)
    if (text_after(name, ".cold")) return true;
  return false;
}

/* Without a symbol, what a conditional jump of another function enters is a part of that one, and
 * what only jumps through memory is an entry of a PLT. */
static bool is_function(const functions_t *f, const function_t *function, const char *name) {
  if (name) return !is_part(name);
  return function->is_entry && !move_is_stub(function->start) &&
         !move_map_has(&f->map, f->map.by_branch, function->start);
}

static const char *name_of(const image_entry_t *e, uint64_t start) {
  sonde_name_t name;
  if (name_in_image(e->id, start, true, &name) < 0 || !name.symbol || name.symbol_offset)
    return NULL;
  return name.symbol;
}

static move_fault_t look(const functions_t *f, uint32_t i, record_t *record) {
  moved_t *moved = &record->moved;
  const function_t *function = &f->all[i];
  uint64_t limit = i + 1 < f->count ? function[1].start : f->map.high;
  if (!function->is_entry) return MOVE_CONVENTION;
  if (!function->is_known) return MOVE_INSTRUCTION;
  move_fault_t fault = move_look(function->start, function->end, limit, &f->map, moved);
  uint64_t stub, out = fault ? 0 : move_leads_out(moved->place, &f->map);
  if (!out) return fault;
  const record_t *older = record_at(out, &stub);
  if (!older) return MOVE_PATCHED;
  uint32_t depth = (older->trampoline.flags >> TRAMPOLINE_DEPTH_SHIFT) + 1;
  record->trampoline.flags += depth << TRAMPOLINE_DEPTH_SHIFT;
  return MOVE_OK;
}

static void choose(const image_entry_t *e, const functions_t *f, bool is_safe,
                   entry_request_t *request, batch_t *batch) {
  for (uint32_t i = 0; i < f->count; i++) {
    record_t *record = &batch->records[batch->count];
    entry_candidate_t candidate = {e, f->all[i].start, name_of(e, f->all[i].start)};
    *record = (record_t){.trampoline = {.function = candidate.start, .flags = TRAMPOLINE_INSIDE}};
    if (!is_function(f, &f->all[i], candidate.name) ||
        !request->wants(&candidate, &record->trampoline, request->context))
      continue;
    move_fault_t fault = look(f, i, record);
    if (!fault && !is_safe && !entry_change_stopped) fault = MOVE_THREADS;
    if (fault)
      request->refused[fault]++;
    else
      batch->count++;
  }
}

/* ---- stubs ---------------------------------------------------------------------------------- */

static bool is_near(uint64_t a, uint64_t b) { return (a < b ? b - a : a - b) < MOVE_REACH; }

/* Writes the stubs; drops the functions for which that fails. */
static void write_stubs(batch_t *b, entry_request_t *request) {
  uint64_t moved = trampoline_address(TRAMPOLINE_MOVED);
  uint32_t kept = 0;
  memcpy((void *)(uintptr_t)b->stubs, &moved, sizeof moved);
  for (uint32_t i = 0; i < b->count; i++) {
    record_t record = b->records[i], *out = &b->records[kept];
    uint64_t stub = stub_of(b, kept), place = record.moved.place;
    move_fault_t fault = is_near(stub, place) ? MOVE_OK : MOVE_FAR;
    if (!fault)
      fault = move_write(&record.moved, stub, b->stubs, (uint64_t)(uintptr_t)&out->trampoline,
                         &record.trampoline.target);
    if (fault) {
      request->refused[fault]++;
      continue;
    }
    record.jump_bytes = (uint8_t)move_jump(place, stub, record.jump);
    memcpy(record.before, (const void *)(uintptr_t)place, record.jump_bytes);
    *out = record;
    kept++;
  }
  b->count = kept;
}

static bool make_stubs(batch_t *b, entry_request_t *request) {
  uint64_t near = b->records[0].moved.place;
  b->stubs_bytes = ALIGN_UP((b->count + UINT64_C(1)) * MOVE_STUB_BYTES, UINT64_C(65536));
  b->stubs = (uint64_t)(uintptr_t)os_map_near(near, b->stubs_bytes);
  if (!b->stubs) {
    request->refused[MOVE_FAR] += b->count;
    return false;
  }
  write_stubs(b, request);
  arch_code_written(b->stubs, b->stubs_bytes);
  if (b->count &&
      os_protect(b->stubs, b->stubs + b->stubs_bytes, 5 /* PROT_READ | PROT_EXEC */) == 0)
    return true;
  request->refused[MOVE_REFUSED] += b->count;
  os_unmap((void *)(uintptr_t)b->stubs, b->stubs_bytes);
  return false;
}

/* ---- writing -------------------------------------------------------------------------------- */

/* Replaces COUNT bytes at PLACE. LAST is the last word that P may have delayed. */
static bool write_bytes(patcher_t *p, uint64_t place, const uint8_t *bytes, uint32_t count,
                        uint64_t *last) {
  uint64_t first = ALIGN_DOWN(place, WORD), end = place + count;
  if (first == *last) patch_end(p);
  /* An emulator does not see what the kernel writes, and executes its old translation. */
  if (entry_alone_in_emulator) (void)patch_open(p, place);
  for (uint64_t word = first; word < end; word += WORD) {
    uint64_t before, after;
    memcpy(&before, (const void *)(uintptr_t)word, WORD);
    after = before;
    for (uint64_t at = word < place ? place : word; at < end && at < word + WORD; at++)
      ((uint8_t *)&after)[at - word] = bytes[at - place];
    if (patch_word(p, word, before, after) != PATCH_DONE) return false;
    *last = word;
  }
  return true;
}

static bool holds(const record_t *r, const uint8_t *bytes) {
  return !memcmp((const void *)(uintptr_t)r->moved.place, bytes, r->jump_bytes);
}

static void write_here(const batch_t *b) {
  patcher_t patcher = {.maps = -1};
  uint64_t last = 0;
  for (uint32_t i = 0; i < b->count; i++) {
    const record_t *r = &b->records[i];
    if (holds(r, r->before))
      (void)write_bytes(&patcher, r->moved.place, r->jump, r->jump_bytes, &last);
  }
  patch_end(&patcher);
  for (uint32_t i = 0; i < b->count; i++)
    arch_code_written(b->records[i].moved.place, b->records[i].jump_bytes);
}

/* The other process reads the list from this one's memory. */
static void write_stopped(const batch_t *b) {
  uint64_t bytes = b->count * sizeof(entry_change_t);
  entry_change_t *changes = entry_change_stopped && b->count ? os_map(bytes) : NULL;
  uint32_t count = 0;
  if (!changes) return;
  for (uint32_t i = 0; i < b->count; i++) {
    const record_t *r = &b->records[i];
    entry_change_t *change = &changes[count];
    if (!holds(r, r->before)) continue;
    change->place = r->moved.place;
    change->bytes = r->jump_bytes;
    memcpy(change->before, r->before, r->jump_bytes);
    memcpy(change->after, r->jump, r->jump_bytes);
    count++;
  }
  if (count) (void)entry_change_stopped(changes, count);
  os_unmap(changes, bytes);
}

static uint32_t count_jumps(const batch_t *b) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < b->count; i++)
    count += holds(&b->records[i], b->records[i].jump);
  return count;
}

/* Writes the jumps where the original bytes are, and returns the number of jumps written. */
static uint32_t write_jumps(const batch_t *b, bool is_safe) {
  uint32_t before = count_jumps(b);
  if (is_safe)
    write_here(b);
  else
    write_stopped(b);
  return count_jumps(b) - before;
}

uint32_t entry_patch_again(const image_entry_t *e, entry_owner_t owner, bool is_safe) {
  uint32_t missing = 0;
  if (!lock_take(&lock, 0)) return 0;
  for (uint32_t k = 0; k < batch_count; k++) {
    const batch_t *b = &batches[k];
    if (b->image != e->id || b->owner != owner) continue;
    (void)write_jumps(b, is_safe);
    for (uint32_t i = 0; i < b->count; i++)
      missing += holds(&b->records[i], b->records[i].before);
  }
  lock_release(&lock);
  return missing;
}

uint32_t entry_count(const image_entry_t *e, entry_owner_t owner) {
  uint32_t count = 0;
  if (!lock_take(&lock, 0)) return 0;
  for (uint32_t k = 0; k < batch_count; k++)
    if (batches[k].image == e->id && batches[k].owner == owner) count += count_jumps(&batches[k]);
  lock_release(&lock);
  return count;
}

bool entry_exists(void) { return load_acquire(&batch_count) > 0; }

static void patch_new(image_entry_t *e, const functions_t *f, bool is_safe,
                      entry_request_t *request) {
  uint64_t bytes = (f->count + UINT64_C(1)) * sizeof(record_t);
  batch_t batch = {.image = e->id, .owner = request->owner, .records = os_map(bytes)};
  if (!batch.records) return;
  choose(e, f, is_safe, request, &batch);
  if (batch.count && make_stubs(&batch, request)) {
    batches[batch_count] = batch;
    store_release(&batch_count, batch_count + 1);
    walk_know_moved(entry_translate);
    uint32_t there = write_jumps(&batch, is_safe);
    request->patched += there;
    request->refused[is_safe ? MOVE_REFUSED : MOVE_THREADS] += batch.count - there;
  } else {
    os_unmap(batch.records, bytes);
  }
}

void entry_patch(image_entry_t *e, bool is_safe, entry_request_t *request) {
  functions_t functions;
  if (!lock_take(&lock, 0)) return;
  if (batch_count < BATCHES_MAX) {
    const image_t *completed = image_complete(e->id, cfi_index);
    if (open_functions(completed ? completed : &e->image, &functions))
      patch_new(e, &functions, is_safe, request);
    close_functions(&functions);
  }
  lock_release(&lock);
}

/* ---- restoring ------------------------------------------------------------------------------ */

/* As many functions as threads may have to wait for at a time. */
#define RESTORED_AT_ONCE 64u
#define STEPS            3u

static bool count_thread(pid_t tid, uint64_t identity, void *count) {
  (void)tid, (void)identity;
  return ++*(uint32_t *)count < 2;
}

bool entry_is_alone(void) {
  uint32_t threads = 0;
  if (entry_alone_in_emulator) return true;
  return os_threads(count_thread, &threads) >= 0 && threads == 1;
}

/* Writes part number STEP of the original bytes of R, whose jump is in place. */
#if defined(__x86_64__)
/* The first two bytes are a jump to themselves while the others change. They are written by one
 * store, and an aligned word is atomic (Intel SDM 3A 9.1.1); so they must be in one word. Between
 * the steps every thread refetches its instructions (Intel SDM 3A 9.1.3). */
static bool can_restore(const record_t *r, bool is_alone) {
  return holds(r, r->jump) && (is_alone || (r->moved.place % WORD != WORD - 1 && os_sync_code()));
}
static void restore_step(patcher_t *p, const record_t *r, uint32_t step, uint64_t *last) {
  static const uint8_t wait[2] = {0xeb, 0xfe};
  uint64_t place = r->moved.place;
  if (step == 1)
    (void)write_bytes(p, place + 2, r->before + 2, r->jump_bytes - 2u, last);
  else
    (void)write_bytes(p, place, step ? r->before : wait, 2, last);
}
#else
static bool can_restore(const record_t *r, bool is_alone) {
  return holds(r, r->jump) && (is_alone || os_sync_code());
}
static void restore_step(patcher_t *p, const record_t *r, uint32_t step, uint64_t *last) {
  if (step == STEPS - 1) (void)write_bytes(p, r->moved.place, r->before, r->jump_bytes, last);
}
#endif

static uint32_t restore_some(const batch_t *b, uint32_t from, uint32_t to, bool is_alone) {
  bool chosen[RESTORED_AT_ONCE];
  uint32_t left = 0;
  for (uint32_t i = from; i < to; i++)
    chosen[i - from] = can_restore(&b->records[i], is_alone);
  for (uint32_t step = 0; step < STEPS; step++) {
    patcher_t patcher = {.maps = -1};
    uint64_t last = 0;
    for (uint32_t i = from; i < to; i++)
      if (chosen[i - from]) restore_step(&patcher, &b->records[i], step, &last);
    patch_end(&patcher);
    for (uint32_t i = from; i < to; i++)
      arch_code_written(b->records[i].moved.place, b->records[i].jump_bytes);
    (void)os_sync_code();
  }
  for (uint32_t i = from; i < to; i++)
    left += !holds(&b->records[i], b->records[i].before);
  return left;
}

static uint32_t restore_batch(const batch_t *b, bool is_alone) {
  uint32_t left = 0;
  if (!image_check(b->image)) return 0;
  for (uint32_t i = 0; i < b->count; i += RESTORED_AT_ONCE)
    left += restore_some(b, i, b->count - i < RESTORED_AT_ONCE ? b->count : i + RESTORED_AT_ONCE,
                         is_alone);
  return left;
}

/* True if the jump of another record is in the place of R: that record's owner changed it last. */
static bool is_under_another(const record_t *r) {
  for (uint32_t k = 0; k < batch_count; k++)
    for (uint32_t i = 0; i < batches[k].count; i++) {
      const record_t *other = &batches[k].records[i];
      if (other != r && other->moved.place == r->moved.place && holds(other, other->jump))
        return true;
    }
  return false;
}

/* The functions of B that nothing of this file will restore. */
static uint32_t count_lost(const batch_t *b) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < b->count; i++)
    count += !holds(&b->records[i], b->records[i].before) && !is_under_another(&b->records[i]);
  return count;
}

/* Restores the batches of OWNER, newest first. */
static uint32_t restore_all(entry_owner_t owner, bool is_alone) {
  uint32_t left = 0;
  for (uint32_t k = batch_count; k-- > 0;) {
    batch_t *b = &batches[k];
    if (b->owner != owner) continue;
    for (uint32_t i = 0; i < b->count; i++)
      trampoline_set(&b->records[i].trampoline, NULL);
    uint32_t left_here = restore_batch(b, is_alone);
    b->owner = left_here ? LEAVING : RETIRED;
    if (left_here) left += count_lost(b);
  }
  return left;
}

void entry_suspend(entry_owner_t owner) {
  if (!lock_take(&lock, 0)) return;
  bool is_alone = entry_is_alone();
  uint64_t signals = os_signals_block(); /* a handler could wait for this thread */
  for (uint32_t k = batch_count; k-- > 0;)
    if (batches[k].owner == owner) (void)restore_batch(&batches[k], is_alone);
  os_signals_restore(signals);
  lock_release(&lock);
}

uint32_t entry_restore(entry_owner_t owner) {
  if (!lock_take(&lock, 0)) return 1;
  bool is_alone = entry_is_alone();
  uint64_t signals = os_signals_block(); /* as above */
  uint32_t left = restore_all(owner, is_alone);
  (void)restore_all(LEAVING, is_alone);
  os_signals_restore(signals);
  lock_release(&lock);
  return left;
}

/* ---- contexts in stubs ---------------------------------------------------------------------- */

bool entry_translate(arch_frame_t *frame) {
  uint64_t stub;
  const record_t *r = record_at(frame->pc, &stub);
  if (!r) return false;
  uint64_t target = r->trampoline.target, at = frame->pc - target;
  if (frame->pc < target) {
#if defined(__x86_64__)
    if (frame->pc != stub) frame->sp += 8; /* r11 is pushed */
#endif
    frame->pc = r->moved.place;
    return true;
  }
  if (at >= r->moved.size) { /* the jump back */
    frame->pc = r->moved.place + r->moved.bytes;
    return true;
  }
  uint32_t i = r->moved.count;
  while (i > 1 && r->moved.to[i - 1] > at)
    i--;
#if defined(__x86_64__)
  if (at != r->moved.to[i - 1]) frame->sp += 8; /* the return address of a call is pushed */
#endif
  frame->pc = r->moved.place + r->moved.from[i - 1];
  return true;
}
