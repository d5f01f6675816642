/* SPDX-License-Identifier: MIT
 *
 * From a walk to an id: the cached part has its node already; the new frames' nodes are looked up
 * from the outermost to the innermost.
 *
 * A walk goes in the other direction and keeps only its last frames (a ring of 64, or of 32 without
 * a thread state). A stack with more new frames is walked again, each time up to the frame at which
 * the last walk's ring began. A deep stack needs that once, since each walk extends the frame
 * cache.
 */
#include "capture/stack.h"
#include "capture/predicted_stack.h"
#include "capture/python/python.h"
#include "capture/python/python_frames.h"
#include "image/name.h"
#include "os/os.h"

/* A power of two. */
#define NESTED_FRAMES 32

/* Where a capture starts, and where a further walk starts again. */
typedef struct origin {
  const void *ucontext;
  uint64_t pc, sp, fp;
} origin_t;

static ALWAYS_INLINE void start_walk(position_t *p, const origin_t *origin) {
  if (UNLIKELY(origin->ucontext))
    position_of_context(p, origin->ucontext);
  else
    position_after_return(p, origin->pc, origin->sp, origin->fp);
}

static uint32_t marker(uint64_t pc, uint64_t epoch) { return frame_table_find(pc, true, epoch).id; }

/* Returns the node of the cached stack from entry JOINED outward, and makes the missing nodes. */
static ALWAYS_INLINE uint32_t node_of_entries(frame_cache_t *cache, uint32_t joined) {
  uint32_t k = joined, node = 0;
  while (k < FRAME_CACHE_ENTRIES && !(cache->entries[k].bits & ENTRY_STACK_ID))
    k++;
  if (k < FRAME_CACHE_ENTRIES) node = cache->entries[k].id;
  while (k-- > joined) {
    frame_cache_entry_t *entry = &cache->entries[k];
    node = stack_table_child(node, entry->id);
    entry_set_stack_id(entry, node);
  }
  return node;
}

/* Adds the new frames from number FIRST to END - 1 to NODE, outermost first. */
static ALWAYS_INLINE uint32_t add_frames(const new_frames_t *new_frames, uint32_t first,
                                         uint32_t end, uint32_t node) {
  for (uint32_t n = end; n > first; n--)
    node = stack_table_child(node, new_frame_id(new_frames_at(new_frames, n - 1)));
  return node;
}

typedef struct capture_id {
  /* NULL without a thread state. */
  frame_cache_t *cache;
  walk_stacks_t stacks;
  const origin_t *origin;
  uint64_t epoch;
  new_frames_t new_frames;
} capture_id_t;

/* Adds the new frames from number FIRST on to *NODE and, with EXTEND, to CACHE. Returns true if the
 * cache has all of them. */
static ALWAYS_INLINE bool add_and_extend(frame_cache_t *cache, const new_frames_t *new_frames,
                                         uint64_t epoch, uint32_t first, bool extend,
                                         uint32_t *node) {
  uint32_t end = new_frames->count;
  if (LIKELY(extend))
    end = frame_cache_extend_with(cache, new_frames, first, epoch, stack_table_child, node);
  if (LIKELY(end <= first)) return true;
  *node = add_frames(new_frames, first, end, *node);
  return false;
}

/* Walks again with P, which the new frames point to, up to frame number LIMIT. Adds the frames of
 * the ring from number LOWEST on to *NODE and, while *EXTEND, to the cache. Returns the number of
 * the first frame added. */
static uint32_t add_part(capture_id_t *c, position_t *p, uint32_t limit, uint32_t lowest,
                         bool *extend, uint32_t *node) {
  new_frames_t *new_frames = &c->new_frames;
  start_walk(p, c->origin);
  frame_cache_begin_walk(NULL, c->epoch, new_frames);
  frame_cache_walk(NULL, &c->stacks, p, c->epoch, limit, new_frames);
  uint32_t first = limit > new_frames->capacity ? limit - new_frames->capacity : 0;
  if (first < lowest) first = lowest;
  if (*extend) new_frames->joined = c->cache->top;
  *extend = add_and_extend(c->cache, new_frames, c->epoch, first, *extend, node);
  return first;
}

/* Adds the frames further in than number LOW, which the first walk's ring did not keep. TOTAL is
 * the depth of the stack. */
static NOINLINE uint32_t add_deep(capture_id_t *c, uint32_t low, uint32_t total, uint32_t node,
                                  bool extend) {
  uint32_t outer_low = total > STACK_OUTER + STACK_INNER ? total - STACK_OUTER : 0;
  position_t p;
  while (low > outer_low) {
    low = add_part(c, &p, low, outer_low, &extend, &node);
  }
  if (outer_low) {
    node = stack_table_child(node, marker(STACK_PC_TRUNCATED, c->epoch));
    extend = false;
    for (uint32_t inner = STACK_INNER; inner > 0;)
      inner = add_part(c, &p, inner, 0, &extend, &node);
  }
  return node;
}

#define REGISTERS_MAX 256

/* Returns the id of a stack with a frame whose row needs more than the stack and frame pointer. */
static NOINLINE uint32_t find_id_with_registers(const capture_id_t *c) {
  uintptr_t pcs[REGISTERS_MAX];
  uint64_t exact[REGISTERS_MAX / 64] = {0};
  sonde_capture_t capture = {.pcs = pcs, .max = REGISTERS_MAX};
  capture_with_registers(c->origin->ucontext, c->origin->sp, &capture, exact);
  uint32_t node = 0;
  if (capture.status != SONDE_STACK_COMPLETE)
    node = stack_table_child(0, marker(STACK_PC_BROKEN, c->epoch));
  for (int n = capture.count - 1; n >= 0; n--) {
    bool is_exact = exact[n / 64] >> n % 64 & 1;
    node = stack_table_child(node, frame_table_find(pcs[n], is_exact, c->epoch).id);
  }
  return node;
}

/* Stores ID as the last stack and, unless SP is 0, may add a prediction of it for PC and SP.
 * EXTENDED: CACHE holds the whole stack. */
static ALWAYS_INLINE void note_stack(frame_cache_t *cache, const new_frames_t *new_frames,
                                     bool extended, uint64_t pc, uint64_t sp, uint32_t id) {
  if (predictor_count_wrong(&cache->predictor) && (extended || !new_frames->count) && sp &&
      id != STACK_TABLE_FULL)
    frame_cache_add_prediction(cache, new_frames->joined - new_frames->count, new_frames->joined,
                               pc, sp, id);
  cache->predictor.last = id;
}

/* Returns the id of the stack that was walked. */
static ALWAYS_INLINE uint32_t id_of_walk(capture_id_t *c) {
  new_frames_t *new_frames = &c->new_frames;
  bool complete = new_frames->end == WALK_END;
  if (UNLIKELY(new_frames->end == WALK_NEEDS_REGISTER)) return find_id_with_registers(c);
  uint32_t cached = FRAME_CACHE_ENTRIES - new_frames->joined, node = 0;
  if (cached)
    node = node_of_entries(c->cache, new_frames->joined);
  else if (UNLIKELY(!complete))
    node = stack_table_child(0, marker(STACK_PC_BROKEN, c->epoch));
  uint32_t low = 0, total = new_frames->count + cached;
  if (UNLIKELY(new_frames->count > new_frames->capacity))
    low = new_frames->count - new_frames->capacity;
  if (UNLIKELY(total > STACK_OUTER + STACK_INNER) && low < total - STACK_OUTER)
    low = total - STACK_OUTER;
  bool extended = false;
  if (new_frames->count)
    extended = add_and_extend(c->cache, new_frames, c->epoch, low, c->cache && complete, &node);
  if (c->cache && LIKELY(!low))
    note_stack(c->cache, new_frames, extended, c->origin->pc, c->origin->sp, node);
  return UNLIKELY(low) ? add_deep(c, low, total, node, extended) : node;
}

static NOINLINE uint32_t walk_on(capture_id_t *c, position_t *p) {
  frame_cache_walk(c->cache, &c->stacks, p, c->epoch, UINT32_MAX, &c->new_frames);
  return id_of_walk(c);
}

static ALWAYS_INLINE uint32_t find_id(capture_id_t *c) {
  position_t p;
  start_walk(&p, c->origin);
  frame_cache_begin_walk(c->cache, c->epoch, &c->new_frames);
  return walk_on(c, &p);
}

static NOINLINE uint32_t find_id_nested(capture_id_t *c) {
  new_frame_t frames_here[NESTED_FRAMES];
  c->new_frames = (new_frames_t){.frames = frames_here, .capacity = NESTED_FRAMES};
  return find_id(c);
}

static bool follows_async;

/* Gets the id of a stack with an async frame. False: it has none, or it cannot be walked. */
static NOINLINE bool find_async(uint32_t *id, const origin_t *origin) {
  uintptr_t pcs[REGISTERS_MAX];
  sonde_capture_t capture = {
      .pcs = pcs, .max = REGISTERS_MAX, .ucontext = origin->ucontext, .async = SONDE_ASYNC_FOLLOW};
  if (capture_here(&capture, origin->pc, origin->sp, origin->fp) <= 0 ||
      !(capture.flags & SONDE_FLAG_ASYNC))
    return false;
  bool complete = capture.status == SONDE_STACK_COMPLETE;
  *id = stack_id_of_pcs(pcs, capture.count, origin->ucontext, complete);
  return true;
}

/* Sets up C for a capture with the state SELF. */
static ALWAYS_INLINE void use_state(capture_id_t *c, capture_thread_t *self) {
  c->cache = &self->cache;
  walk_stacks_init(&c->stacks, &self->window);
  c->new_frames.frames = c->cache->new_frames;
  c->new_frames.capacity = FRAME_CACHE_NEW_FRAMES;
}

static NOINLINE int find(uint32_t *id, const origin_t *origin, uint64_t sp) {
  /* Set field by field: clearing it first costs as much as walking three frames. */
  capture_id_t c;
  c.origin = origin;
  c.epoch = walk_epoch();
  if (UNLIKELY(!load_acquire(&stack_table.level[0])) &&
      (!frame_table_init() || !stack_table_init()))
    return SONDE_ENOMEM;
  if (UNLIKELY(load_relaxed(&follows_async)) && find_async(id, origin))
    return *id ? 0 : SONDE_EFULL;
  capture_thread_t *self = thread_state_enter(sp);
  if (LIKELY(self)) {
    use_state(&c, self);
    *id = find_id(&c);
    thread_state_leave(self);
  } else {
    c.cache = NULL;
    walk_stacks_init(&c.stacks, NULL);
    *id = find_id_nested(&c);
  }
  if (LIKELY(*id != STACK_TABLE_FULL)) return 0;
  *id = 0;
  return SONDE_EFULL;
}

/* Continues at AT the walk that did not meet SELF's cache. */
static NOINLINE uint32_t find_id_beyond(capture_thread_t *self, const origin_t *origin,
                                        const frame_cache_at_t *at, uint64_t epoch,
                                        const new_frames_t *new_frames) {
  capture_id_t c = {.origin = origin, .epoch = epoch};
  position_t p;
  use_state(&c, self);
  c.new_frames = *new_frames;
  position_after_return(&p, at->pc, at->sp, 0);
  p.fp_at = at->fp_at;
  uint32_t id = walk_on(&c, &p);
  return id != STACK_TABLE_FULL ? id : 0;
}

/* Returns the id of a stack whose prediction is wrong. The cache is of EPOCH. */
static NOINLINE READS_STACK uint32_t find_id_from(capture_thread_t *self, uint64_t pc, uint64_t sp,
                                                  uint64_t fp, uint64_t epoch) {
  frame_cache_t *cache = &self->cache;
  frame_cache_at_t at = {pc, sp, &fp};
  first_frames_t first;
  if (UNLIKELY(!frame_cache_walk_first(cache, &self->window, &at, epoch, &first) ||
               !(first.at->bits & ENTRY_STACK_ID))) {
    const origin_t from = {NULL, pc, sp, fp};
    const frame_cache_at_t beyond = at;
    const new_frames_t new_frames = frame_cache_first_frames(cache, &first);
    return find_id_beyond(self, &from, &beyond, epoch, &new_frames);
  }
  uint32_t id = first.at->id, end = frame_cache_extend_first(cache, &first, stack_table_child, &id);
  const new_frames_t new_frames = frame_cache_first_frames(cache, &first);
  if (UNLIKELY(end)) id = add_frames(&new_frames, 0, end, id);
  note_stack(cache, &new_frames, !end, pc, sp, id);
  return LIKELY(id != STACK_TABLE_FULL) ? id : 0;
}

/* Returns the id of the stack if the cache knows its outer part; otherwise 0. */
static ALWAYS_INLINE READS_STACK uint32_t find_with_cache(capture_thread_t *self, uint64_t pc,
                                                          uint64_t sp, uint64_t fp) {
  frame_cache_t *cache = &self->cache;
  uint64_t epoch = os_loader_epoch();
  if (UNLIKELY(cache->epoch != epoch || !epoch)) return 0;
  if (LIKELY(!cache->predictor.paused)) {
    uint32_t id = predicted_stack_find_in(cache, pc, sp, fp);
    if (LIKELY(id)) return id;
  }
  bool knows = PREDICTOR_ENABLED && cache->top != FRAME_CACHE_ENTRIES &&
               stack_window_holds(&self->window, sp) && load_relaxed(&stack_table.level[0]) &&
               !load_relaxed(&follows_async);
  return LIKELY(knows) ? find_id_from(self, pc, sp, fp, epoch) : 0;
}

/* Returns the id of the calling thread's stack, or 0 if find must find it. */
static ALWAYS_INLINE READS_STACK uint32_t find_known(uint64_t pc, uint64_t sp, uint64_t fp) {
  capture_thread_t *self = thread_state_idle();
  if (UNLIKELY(!self)) return 0;
  self->busy = sp; /* Before anything is read, since a handler's capture may change all of it. */
  signal_fence();
  uint32_t id = find_with_cache(self, pc, sp, fp);
  thread_state_leave(self);
  return id;
}

static NOINLINE uint32_t find_unknown(uint64_t pc, uint64_t sp, uint64_t fp) {
  uint32_t id = 0;
  const origin_t origin = {NULL, pc, sp, fp};
  return find(&id, &origin, sp) == 0 ? id : 0;
}

__attribute__((used)) HIDDEN READS_STACK int stack_id_here(uint32_t *id, uint64_t pc, uint64_t sp,
                                                           uint64_t fp) {
  if (UNLIKELY(!id)) return SONDE_EINVAL;
  if (LIKELY((*id = find_known(pc, sp, fp)) != 0)) return 0;
  const origin_t origin = {NULL, pc, sp, fp};
  return find(id, &origin, sp);
}
ENTRY_1(sonde_stack_id, stack_id_here);

static READS_STACK uint32_t id_of_event(uint64_t pc, uint64_t sp, uint64_t fp) {
  uint32_t id = find_known(pc, sp, fp);
  return LIKELY(id) ? id : find_unknown(pc, sp, fp);
}

HIDDEN stack_id_function_t *stack_id_of_event = id_of_event;

int stack_id_with_python(uint32_t *id, uint64_t pc, uint64_t sp, uint64_t fp) {
  if (UNLIKELY(capture_has_python) &&
      capture_with_python(id, &(python_origin_t){.pc = pc, .sp = sp, .fp = fp}))
    return *id ? 0 : SONDE_EFULL;
  return stack_id_here(id, pc, sp, fp);
}

static uint32_t id_of_rare_event(uint64_t pc, uint64_t sp, uint64_t fp) {
  uint32_t id = 0;
  return stack_id_with_python(&id, pc, sp, fp) == 0 ? id : 0;
}

HIDDEN stack_id_function_t *stack_id_of_rare_event = id_of_rare_event;

int stack_id_of_context(uint32_t *id, const void *ucontext) {
  if (UNLIKELY(capture_has_python) &&
      capture_with_python(id, &(python_origin_t){.ucontext = ucontext}))
    return *id ? 0 : SONDE_EFULL;
  const origin_t origin = {.ucontext = ucontext};
  return find(id, &origin, arch_context_frame(ucontext).sp);
}

uint32_t stack_id_innermost(uint32_t id, uint32_t depth) {
  uint32_t frames[STACK_INNER], count = 0, parent = id;
  if (depth > STACK_INNER) depth = STACK_INNER;
  while (parent && count < depth && stack_table_get(parent, &parent, &frames[count]))
    count++;
  if (!parent || count < depth) return id;
  uint32_t node = stack_table_child(0, marker(STACK_PC_TRUNCATED, walk_epoch()));
  while (count)
    node = stack_table_child(node, frames[--count]);
  return node == STACK_TABLE_FULL ? 0 : node;
}

/* The pc that a signal interrupted, outside of the signal's own frame, is exact. */
uint32_t stack_id_of_pcs(const uintptr_t *pcs, int count, bool exact, bool complete) {
  uint64_t epoch = walk_epoch();
  uint32_t node = count > 0 && !complete ? stack_table_child(0, marker(STACK_PC_BROKEN, epoch)) : 0;
  for (int n = count - 1; n >= 0; n--) {
    bool is_exact = n ? name_is_signal_frame(pcs[n - 1]) : exact;
    node = stack_table_child(node, frame_table_find(pcs[n], is_exact, epoch).id);
  }
  return node == STACK_TABLE_FULL ? 0 : node;
}

int sonde_stack_id_of(const uintptr_t *pcs, int count, unsigned flags, uint32_t *id) {
  if (!pcs || !id || count <= 0 || flags & ~(SONDE_STACK_EXACT | SONDE_STACK_PARTIAL))
    return SONDE_EINVAL;
  if (!load_acquire(&stack_table.level[0]) && (!frame_table_init() || !stack_table_init()))
    return SONDE_ENOMEM;
  *id = stack_id_of_pcs(pcs, count, flags & SONDE_STACK_EXACT, !(flags & SONDE_STACK_PARTIAL));
  return *id ? 0 : SONDE_EFULL;
}

void stack_follow_async(void) { store_relaxed(&follows_async, true); }

sonde_async_t stack_async_mode(void) {
  return load_relaxed(&follows_async) ? SONDE_ASYNC_FOLLOW : SONDE_ASYNC_IGNORE;
}

int sonde_stack_async(sonde_async_t how) {
  if (how != SONDE_ASYNC_IGNORE && how != SONDE_ASYNC_FOLLOW) return SONDE_EINVAL;
  if (load_acquire(&stack_table.level[0])) return SONDE_EBUSY;
  store_relaxed(&follows_async, how == SONDE_ASYNC_FOLLOW);
  return 0;
}

int sonde_stack_of_id(uint32_t id, uintptr_t *pcs, int max) {
  int count = 0;
  uint32_t frame;
  frame_info_t info;
  if (!pcs || max <= 0) return SONDE_EINVAL;
  if (id == 0) return SONDE_ENOTFOUND;
  while (id && count < max) {
    if (!stack_table_get(id, &id, &frame)) return SONDE_ENOTFOUND;
    if (python_frame_is(frame)) continue;
    if (!frame_table_get(frame, &info)) return SONDE_ENOTFOUND;
    if (info.pc > STACK_PC_TRUNCATED) pcs[count++] = info.pc;
  }
  return count;
}
