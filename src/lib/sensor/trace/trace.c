/* SPDX-License-Identifier: MIT
 *
 * The slow parts of the call tracer, and its start: see trace.h.
 *
 * All of this runs with the thread's state marked busy, so a signal handler in between uses the
 * second state. The order within an event: look up, write records that must precede it, write it,
 * change the call stack. A record is one store of at most 8 bytes.
 */
#include "sensor/trace/trace.h"

#include "sonde/status.h"
#include "capture/frame_table.h"
#include "sensor/trace/filter.h"

/* Addresses further apart are assumed to be in different stacks. */
#define SAME_STACK_BYTES (UINT64_C(64) << 20)
#define TIME_4_MAX       ((UINT64_C(1) << 26) - 1)

HIDDEN trace_gate_t *trace_gate;
SLOT_HERE(trace_thread_t, trace_tls);

static const uint64_t no_adds;

/* ---- records --------------------------------------------------------------------------------- */

static void put(stream_t *s, uint64_t word, unsigned bytes) {
  memcpy(s->next, &word, bytes); /* one store: BYTES is a constant wherever this is called */
  s->next += bytes;
  s->records++;
}

static void put_other_4(stream_t *s, unsigned what, uint64_t value) {
  put(s, CALL_OTHER | what << 3 | value << 6, 4);
}

static void put_other_8(stream_t *s, unsigned what, uint64_t value) {
  put(s, CALL_OTHER | CALL_8_BYTES | what << 3 | value << 6, 8);
}

static uint64_t trace_clock(const trace_thread_t *t) {
  return LIKELY(t->stream.writer->cycles) ? trace_cycle_clock() : os_monotonic_ns();
}

/* Ensures space for an event and the records before it. The first chunk identifies its thread. */
static bool ensure_space(trace_thread_t *t) {
  stream_t *s = &t->stream;
  if (LIKELY(s->next < s->limit)) return true;
  bool first = !s->id;
  if (!s->last_time) s->last_time = trace_clock(t);
  s->address_shift = s->writer->cycles ? TRACE_CLOCK_SHIFT : 0;
  if (!writer_reserve(s, EVENT_MAX_BYTES)) return false;
  t->lost += s->dropped;
  s->dropped = 0;
  uint32_t level = s == s->writer->more[0] ? 0 : 1;
  if (first) writer_thread_record(s, s->writer->tid, 2 + level);
  put_other_8(s, CALL_8_DEPTH, filter_recorded(t, t->top));
  t->flushed = t->top;
  return true;
}

/* Advances the stream's clock; returns the time since the previous event. A time above MAX gets a
 * record of its own, and 0 is returned. */
static uint64_t advance_clock(trace_thread_t *t, uint64_t max) {
  stream_t *s = &t->stream;
  uint64_t now = trace_clock(t);
  uint64_t passed = now > s->last_time ? now - s->last_time : 0;
  s->last_time += passed;
  if (passed <= max) return passed;
  put_other_8(s, CALL_8_TIME, passed);
  return 0;
}

/* CALL is the innermost call, or is about to be. */
static void put_enter(trace_thread_t *t, const trace_cached_t *known, trace_call_t *call) {
  uint64_t passed = advance_clock(t, TRACE_LONG_TIME - 1);
  call->record = t->stream.next;
  if (known->word && passed < TRACE_SHORT_TIME)
    put(&t->stream, known->word | passed << 18, 4);
  else
    put_other_8(&t->stream, CALL_8_ENTER, known->id | passed << 22);
}

static void put_exit(trace_thread_t *t) {
  uint64_t passed = advance_clock(t, TIME_4_MAX);
  if (passed < TRACE_SHORT_TIME)
    put(&t->stream, CALL_EXIT_2 | passed << 2, 2);
  else
    put_other_4(&t->stream, CALL_4_EXIT, passed);
}

/* ---- a thread's state ------------------------------------------------------------------------ */

static void forget_calls(trace_thread_t *t) {
  t->top = t->flushed = t->calls;
  t->calls[0] = (trace_call_t){0};
  t->too_deep = 0;
}

/* Prepares the state of an ended thread for W; its streams continue. */
static void adopt(trace_thread_t *t, writer_t *w) {
  memset(&t->stream, 0, sizeof t->stream);
  t->stream.type = CHUNK_CALLS;
  t->stream.writer = w;
  t->busy = 0;
  t->lost = 0;
  t->generation = t->fast_generation = t->filtered_generation = 0;
  forget_calls(t);
}

/* The calls follow the state in one mapping. A forked child finds the state zeroed, not the calls.
 */
#define STATE_BYTES ALIGN_UP(sizeof(trace_thread_t), (uint64_t)16384) /* pages of any system */
#define CALLS_BYTES ((TRACE_CALLS_MAX + 1) * sizeof(trace_call_t))

/* calls[-1] is read, and its stack pointer is 0. */
static trace_call_t *calls_of(trace_thread_t *t) {
  return (trace_call_t *)(void *)((uint8_t *)t + STATE_BYTES) + 1;
}

static trace_thread_t *make(writer_t *w) {
  trace_thread_t *t = os_map(STATE_BYTES + CALLS_BYTES);
  if (!t) return NULL;
  if (!os_wipe_on_fork(t, STATE_BYTES)) {
    os_unmap(t, STATE_BYTES + CALLS_BYTES);
    return NULL;
  }
  t->calls = calls_of(t);
  adopt(t, w);
  return t;
}

static trace_thread_t *of_stream(stream_t *s) {
  return (trace_thread_t *)(void *)((uint8_t *)s - offsetof(trace_thread_t, stream));
}

/* The calling thread's state for LEVEL: new, or reused from an ended thread. */
static trace_thread_t *state_of_level(unsigned level) {
  writer_t *w = writer_tls;
  if (!w || !w->control) w = writer_enter_slow();
  if (!w) return NULL;
  if (w->more[level]) {
    trace_thread_t *t = of_stream(w->more[level]);
    if (!level && trace_tls != t) adopt(t, w);
    return t;
  }
  trace_thread_t *t = make(w);
  if (t) w->more[level] = &t->stream;
  return t;
}

static ALWAYS_INLINE uint64_t own_sp(void) {
  return (uint64_t)(uintptr_t)__builtin_frame_address(0);
}

/* True if a signal handler jumped out of the event at BUSY: SP is then further out. */
static bool was_abandoned(uint64_t busy, uint64_t sp) {
  switch (os_stack_side(busy, own_sp())) {
  case OS_STACK_SAME: return sp > busy && sp - busy < SAME_STACK_BYTES;
  case OS_STACK_LEFT: return true;
  default: return false;
  }
}

static void begin_generation(trace_thread_t *t, uint32_t generation) {
  forget_calls(t);
  memset(t->known, 0, sizeof t->known);
  t->adds_now = os_epoch_words.adds ? os_epoch_words.adds : &no_adds;
  t->adds = load_relaxed(t->adds_now);
  t->generation = generation;
  filter_start(t);
}

/* ---- the cost -------------------------------------------------------------------------------- */

#define COST_PAIRS  64
#define COST_ROUNDS 16

/* The sum of the times between enter and exit of the pairs in [P, END). */
static uint64_t units_within(const uint8_t *p, const uint8_t *end) {
  uint64_t sum = 0;
  while (p < end) {
    uint32_t word;
    memcpy(&word, p, 4);
    bool exit = (word & CALL_KIND_MASK) == CALL_EXIT_2;
    if (exit) sum += (word & UINT16_MAX) >> 2;
    p += exit ? 2 : (word & CALL_KIND_MASK) == CALL_ENTER_4 ? 4 : word & CALL_8_BYTES ? 8 : 4;
  }
  return sum;
}

static uint64_t cost[2]; /* of a pair, and within it; 0: not measured yet */

static void record_cost(void) {
  if (cost[0]) writer_table(TABLE_TRACER, cost, 2, NULL);
  filter_record();
}

/* Runs the hooks around nothing, into a local buffer, and records the time of a pair: the least of
 * several rounds, since interruptions only add time. */
static void measure_cost(trace_thread_t *t, uint32_t generation) {
  void (*volatile enter)(void *, void *) = trace_hook_enter;
  void (*volatile leave)(void *, void *) = trace_hook_exit;
  /* Fits the longest records: an interrupted round or a large id must not fill it. */
  uint8_t buffer[COST_PAIRS * 32 + 2 * EVENT_MAX_BYTES + 8];
  stream_t *s = &t->stream, before = *s;
  uint64_t pair = UINT64_MAX, inside = UINT64_MAX;
  begin_generation(t, generation);
  if (t->least) t->least = 1; /* the same path, but every call is recorded */
  void *function = (void *)(uintptr_t)measure_cost;
  for (int round = 0; round < COST_ROUNDS; round++) {
    memset(buffer, 0, sizeof buffer);
    s->next = buffer;
    s->limit = buffer + sizeof buffer - EVENT_MAX_BYTES;
    uint64_t from = s->last_time = trace_clock(t);
    for (int i = 0; i < COST_PAIRS; i++) {
      enter(function, NULL);
      leave(function, NULL);
    }
    uint64_t took = trace_clock(t) - from, within = units_within(buffer, s->next);
    if (took >= pair) continue;
    pair = took;
    inside = within;
  }
  *s = before;
  t->generation = 0; /* begins again */
  uint64_t scale = (s->writer->cycles ? 256u << TRACE_CLOCK_SHIFT : 256u);
  cost[0] = pair * scale / COST_PAIRS;
  cost[1] = inside * scale / COST_PAIRS;
  record_cost();
}

static uint32_t measured; /* the cost, in this recording */

/* Once per recording, by its first traced thread. The measured calls are events of T themselves, so
 * T is not busy, and `measures` keeps the agent from leaving. */
static void measure_once(trace_thread_t *t, uint32_t generation) {
  uint32_t none = 0;
  if (!cas_acq_rel(&measured, &none, 1u)) return;
  t->measures = true;
  signal_fence();
  if (trace_on() == generation) /* else switched since: see trace_leave_program */
    measure_cost(t, generation);
  else
    store_relaxed(&measured, 0u);
  signal_fence();
  t->measures = false;
}

/* ---- an event -------------------------------------------------------------------------------- */

/* Acquires the calling thread's state for an event at SP; NULL if there is none. */
static trace_thread_t *acquire(uint64_t sp, uint32_t generation) {
  trace_thread_t *t = trace_tls;
  /* none yet; or zeroed in a forked child */
  if (!t || !t->calls) {
    t = state_of_level(0);
    SLOT_SET(trace_tls, SLOT_TRACE, t);
  }
  if (t && !t->busy && UNLIKELY(!load_relaxed(&measured))) measure_once(t, generation);
  if (t && t->busy && !was_abandoned(t->busy, sp)) {
    if (!t->inner) t->inner = state_of_level(1);
    trace_thread_t *inner = t->inner;
    if (inner && inner->stream.writer != t->stream.writer) adopt(inner, t->stream.writer);
    if (inner && inner->busy && !was_abandoned(inner->busy, sp)) {
      inner->lost++;
      return NULL;
    }
    t = inner;
  }
  if (!t) return NULL;
  t->busy = sp;
  signal_fence();
  if (trace_on() != generation) { /* switched since: see trace_leave_program */
    t->busy = 0;
    return NULL;
  }
  if (t->generation != generation) {
    begin_generation(t, generation);
    if (t->stream.chunk && ensure_space(t)) put_other_8(&t->stream, CALL_8_DEPTH, 0);
  }
  return t;
}

/* The fast path does not check the depth: it is allowed while all calls that fit in the chunk also
 * fit in the call stack. */
static uint32_t fast_generation(const trace_thread_t *t) {
  const stream_t *s = &t->stream;
  uint64_t more = s->next < s->limit ? (uint64_t)(s->limit - s->next) / 4 + 1 : 0;
  uint64_t deepest = (uint64_t)(t->top - t->calls) + more;
  return s->writer->cycles && deepest < TRACE_CALLS_MAX ? t->generation : 0;
}

static void leave(trace_thread_t *t) {
  uint32_t generation = fast_generation(t);
  bool filtered = t->deepest || t->least;
  t->fast_generation = filtered ? 0 : generation;
  t->filtered_generation = filtered ? generation : 0;
  signal_fence();
  t->busy = 0;
}

/* Loses an event of a call deeper than TRACE_CALLS_MAX. */
static void lose_deep_event(trace_thread_t *t, uint32_t too_deep) {
  t->too_deep = too_deep;
  writer_lost_event(t->stream.writer->control);
}

/* Ensures space, and records earlier lost events first. False: this event is lost. */
static bool begin_event(trace_thread_t *t) {
  if (!ensure_space(t)) {
    t->lost++;
    writer_lost_event(t->stream.writer->control);
    return false;
  }
  if (LIKELY(!t->lost)) return true;
  put_other_8(&t->stream, CALL_8_LOST, t->lost);
  t->lost = 0;
  forget_calls(t);
  return true;
}

/* ---- functions ------------------------------------------------------------------------------- */

/* The cache entry of FUNCTION, filled if necessary. */
static const trace_cached_t *look_up(trace_thread_t *t, uint64_t function) {
  if (load_relaxed(t->adds_now) != t->adds) {
    t->adds = load_relaxed(t->adds_now);
    memset(t->known, 0, sizeof t->known);
  }
  trace_cached_t *known = &t->known[trace_hash(function)];
  if ((known->function & ~TRACE_LONG_ENTER) == function && function) return known;
  uint32_t id = frame_table_find(function, true, os_loader_epoch()).id;
  if (id > CALL_FRAME_MAX) { /* the table is full */
    id = 0;
    writer_lost_event(t->stream.writer->control);
  }
  known->word = id && id < 1u << 16 ? id << 2 | CALL_ENTER_4 : 0;
  known->id = id;
  known->function = known->word ? function : function | TRACE_LONG_ENTER;
  return known;
}

/* ---- events ---------------------------------------------------------------------------------- */

/* True if two stack pointers may be compared. Calls of a handler on the alternate stack are inside
 * the interrupted call, wherever that stack lies. */
static bool same_stack(uint64_t a, uint64_t b) {
  uint64_t apart = a > b ? a - b : b - a;
  return apart < SAME_STACK_BYTES && os_stack_side(a, own_sp()) == OS_STACK_SAME;
}

static bool is_popped(uint64_t call_sp, uint64_t sp) {
  if (call_sp >= sp && call_sp - sp < SAME_STACK_BYTES) return false;
  switch (os_stack_side(call_sp, own_sp())) {
  case OS_STACK_LEFT: return true;
  case OS_STACK_BENEATH: return false;
  default: return call_sp < sp && same_stack(call_sp, sp);
  }
}

/* True if the call C has ended when the thread's stack pointer is SP. */
static bool has_ended(const trace_call_t *c, uint64_t sp) {
  bool at_its_end =
      c->function == TRACE_SLED || (c->call_site == TRACE_CALLER && c->hook_site == 0);
  return is_popped(c->sp, sp) || (at_its_end && c->sp == sp);
}

/* Ends the calls above NEW_TOP, which had no exit. */
static void drop_calls(trace_thread_t *t, trace_call_t *new_top) {
  uint64_t count = filter_recorded(t, t->top) - filter_recorded(t, new_top);
  if (count) put_other_4(&t->stream, CALL_4_UNWOUND, count);
  t->top = new_top;
}

/* The innermost call that contains a new call with this SP, CALL_SITE and HOOK_SITE. */
static trace_call_t *outer_of(trace_thread_t *t, uint64_t sp, uint64_t call_site,
                              uint64_t hook_site) {
  trace_call_t *c = t->top;
  while (c > t->calls && has_ended(c, sp))
    c--;
  if (!hook_site) return c;
  trace_call_t *outer = c;
  for (; c > t->calls && c->sp == sp; c--)
    if (c->hook_site == hook_site || c->call_site != call_site) outer = c - 1;
  return outer;
}

void trace_enter_slow(uint64_t function, uint64_t sp, uint64_t call_site, uint64_t hook_site) {
  uint32_t generation = trace_on();
  trace_thread_t *t = generation ? acquire(sp, generation) : NULL;
  if (!t) return;
  const trace_cached_t *known = look_up(t, function);
  if (known->id && begin_event(t)) {
    drop_calls(t, outer_of(t, sp, call_site, hook_site));
    if (t->top == t->calls + TRACE_CALLS_MAX - 1) {
      lose_deep_event(t, t->too_deep + 1);
    } else {
      t->too_deep = 0;
      if (t->top == t->calls) t->calls[0].sp = sp + TRACE_NEAR / 2;
      bool is_sled = !hook_site && call_site == TRACE_SLED;
      t->top[1] = (trace_call_t){is_sled ? TRACE_SLED : function, sp, call_site, hook_site, NULL};
      filter_begin(t);
      if (!filter_hides(t, t->top + 1)) put_enter(t, known, t->top + 1);
      t->top++;
    }
  }
  leave(t);
}

/* The call of a popped frame whose caller's stack pointer is SP: the outermost below it. Calls
 * inlined into it, and calls left by a jump, are further in. */
static trace_call_t *call_of_popped_frame(trace_thread_t *t, uint64_t function, uint64_t sp) {
  trace_call_t *found = NULL;
  for (trace_call_t *c = t->top; c > t->calls && c->sp < sp; c--)
    if (c->function == function && sp - c->sp < SAME_STACK_BYTES) found = c;
  return found;
}

/* The call that an exit of FUNCTION at SP ends; NULL: none. A function that moves its stack pointer
 * (alloca) exits at a lower one; then its innermost call ends. */
static trace_call_t *call_of_exit(trace_thread_t *t, uint64_t function, uint64_t sp) {
  for (trace_call_t *c = t->top; c > t->calls; c--) {
    if (c->function == function && c->sp == sp) return c;
    if (c->sp > sp && c->sp - sp < SAME_STACK_BYTES) break;
  }
  for (trace_call_t *c = t->top; c > t->calls; c--) {
    if (c->function == function && c->sp > sp && c->sp - sp < SAME_STACK_BYTES) return c;
    if (c->sp > sp && c->sp != t->top->sp) break;
  }
  return NULL;
}

static void end_call(trace_thread_t *t, trace_call_t *call) {
  t->too_deep = 0;
  if (!begin_event(t) || t->top < call) return; /* lost events made it forget all calls */
  drop_calls(t, call);
  if (!filter_hides(t, call) && !(t->least && filter_take_back(t, trace_clock(t)))) put_exit(t);
  t->top--;
}

void trace_exit_slow(uint64_t function, uint64_t sp, uint64_t frame_popped, uint64_t unused) {
  (void)unused;
  uint32_t generation = trace_on();
  trace_thread_t *t = generation ? acquire(sp, generation) : NULL;
  if (!t) return;
  if (t->too_deep && sp < t->top->sp && same_stack(sp, t->top->sp)) {
    lose_deep_event(t, t->too_deep - 1);
  } else if (function == TRACE_SLED || look_up(t, function)->id) {
    trace_call_t *call =
        frame_popped ? call_of_popped_frame(t, function, sp) : call_of_exit(t, function, sp);
    if (call) {
      end_call(t, call);
    } else if (t->too_deep) { /* on another stack */
      lose_deep_event(t, t->too_deep - 1);
    } else if (begin_event(t)) {
      put_other_4(&t->stream, CALL_4_UNMATCHED, advance_clock(t, TIME_4_MAX));
    }
  }
  leave(t);
}

void trace_unwound(uint64_t sp) {
  uint32_t generation = trace_on();
  trace_thread_t *t = trace_tls;
  if (!generation || !t || t->busy || t->generation != generation) return;
  t->busy = sp;
  signal_fence();
  trace_call_t *c = t->top;
  while (c > t->calls && has_ended(c, sp))
    c--;
  if (c != t->top && begin_event(t) && c < t->top) {
    (void)advance_clock(t, 0); /* as a record of its own */
    drop_calls(t, c);
  }
  leave(t);
}

/* ---- fork ------------------------------------------------------------------------------------ */

/* The number of calls that the forking thread is in. It is in calls[-1], which a child has. */
static uint64_t *open_at_fork(trace_thread_t *t) { return &calls_of(t)[-1].function; }

void trace_fork(bool now) {
  trace_thread_t *t = trace_tls;
  if (t && t->calls) *open_at_fork(t) = now ? (uint64_t)(t->top - t->calls) : 0;
}

/* Records the first COUNT calls of T as if they began now. */
static void enter_again(trace_thread_t *t, uint64_t count) {
  for (uint64_t i = 1; i <= count && begin_event(t); i++) {
    if (filter_hides(t, &t->calls[i])) {
      t->top = &t->calls[i];
      continue;
    }
    bool known = t->calls[i].function != TRACE_SLED;
    const trace_cached_t *function = known ? look_up(t, t->calls[i].function) : NULL;
    if (function && function->id)
      put_enter(t, function, &t->calls[i]);
    else
      put_other_8(&t->stream, CALL_8_DEPTH, i);
    t->top = &t->calls[i];
  }
}

/* The state of the forking thread, of which only the calls remain: they go on. */
static void resume(trace_thread_t *t, writer_t *w, uint32_t generation) {
  uint64_t count = *open_at_fork(t);
  *open_at_fork(t) = 0;
  t->calls = calls_of(t);
  trace_call_t none = t->calls[0];
  adopt(t, w);
  w->more[0] = &t->stream;
  if (!generation) return;
  t->busy = own_sp();
  signal_fence();
  begin_generation(t, generation);
  t->calls[0] = none;
  enter_again(t, count);
  leave(t);
}

void trace_restart(const shm_control_t *control) {
  if (!trace_gate) return;
  trace_gate->generation = &control->trace_generation;
  trace_names_again();
  record_cost();
  trace_thread_t *t = trace_tls;
  writer_t *w = writer_tls;
  if (!w || !w->control) w = writer_enter_slow();
  if (t && w) resume(t, w, trace_on());
}

/* ---- end ------------------------------------------------------------------------------------- */

#define PAUSE_NS UINT64_C(100000)

/* False if the thread of T is still in an event at DEADLINE_NS. */
static bool wait_until_idle(const trace_thread_t *t, uint64_t deadline_ns) {
  const uint32_t never = 0;
  while ((load_relaxed(&t->busy) || load_relaxed(&t->measures)) &&
         os_thread_alive(load_relaxed(&t->stream.writer->tid))) {
    if (os_monotonic_ns() > deadline_ns) return false;
    (void)os_futex_wait(&never, 0, PAUSE_NS);
  }
  return true;
}

bool trace_leave_program(uint64_t timeout_ns) {
  uint64_t deadline_ns = os_monotonic_ns() + timeout_ns;
  os_barrier(); /* a thread that has not seen that tracing is off is now seen inside an event */
  writer_t *all = writer_global ? load_acquire(&writer_global->writers) : NULL;
  for (writer_t *w = all; w; w = w->next)
    for (uint32_t level = 0; level < WRITER_LEVELS; level++)
      if (w->more[level] && !wait_until_idle(of_stream(w->more[level]), deadline_ns)) return false;
  for (writer_t *w = all; w; w = w->next)
    for (uint32_t level = 0; level < WRITER_LEVELS; level++)
      if (w->more[level]) adopt(of_stream(w->more[level]), w);
  measured = 0;
  cost[0] = 0;
  return true;
}

/* ---- start ----------------------------------------------------------------------------------- */

void trace_switch(bool on) {
  shm_control_t *c = writer_control();
  if (!c) return;
  uint32_t now = load_acquire(&c->trace_generation);
  while ((now & 1) != on && !cas_acq_rel(&c->trace_generation, &now, now + 1))
    continue;
}

int trace_prepare(void) {
  shm_control_t *control = writer_control();
  if (!control) return SONDE_EINVAL;
  if (trace_gate) { /* an agent that was asleep */
    trace_gate->generation = &control->trace_generation;
    return 0;
  }
  trace_gate_t *gate = os_map(4096);
  if (!gate) return SONDE_ENOMEM;
  if (!os_wipe_on_fork(gate, 4096)) {
    os_unmap(gate, 4096);
    return SONDE_EUNSUPPORTED;
  }
  gate->generation = &control->trace_generation;
  store_release(&trace_gate, gate);
  return 0;
}
