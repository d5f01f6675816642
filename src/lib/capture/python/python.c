/* SPDX-License-Identifier: MIT */
#include "capture/python/python.h"

#include <string.h>

#include "capture/python/python_codes.h"
#include "capture/python/python_event.h"
#include "capture/python/python_frames.h"
#include "capture/python/python_shapes.h"
#include "capture/stack.h"
#include "image/list.h"
#include "os/os.h"
#include "python/chain.h"
#include "python/code.h"
#include "python/states.h"

/* Deeper stacks have native frames only. */
#define NATIVE_MAX 4096u
#define PYTHON_MAX 4096u
#define CALLS_MAX  NATIVE_MAX

#define SCRATCHES       8u
#define PAGES_KNOWN     128u
#define PAGE_BYTES      4096u
#define PYTHON_NAME_MAX 256u
#define FILE_MAX        1024u
/* The places with the last threads' states. */
#define THREADS_KNOWN 256u
/* The evaluator links its anchor, and then sets it, in its first instructions: to byte 110 in
 * Debian's 3.11. No build comes back to so early a part of the function. */
#define ENTRY_BYTES 160u

typedef struct call {
  uint64_t anchor;
  uint32_t first, count;
} call_t;

/* The memory of one capture: too large for a handler's stack. */
typedef struct scratch {
  memory_t memory; /* must be first */
  uint32_t busy;
  uint64_t pages[PAGES_KNOWN];
  /* native frames: ids, and stack pointers with one more, that of the outermost frame's caller */
  uint32_t native_count;
  uint32_t native[NATIVE_MAX];
  uint64_t sp[NATIVE_MAX + 1];
  bool is_evaluator[NATIVE_MAX], is_call[NATIVE_MAX];
  uint64_t innermost_pc;
  /* Python frames: ids, by call of the evaluator, innermost first */
  uint32_t python_count, call_count, first;
  uint32_t python[PYTHON_MAX];
  call_t calls[CALLS_MAX];
  bool is_damaged, is_innermost, is_innermost_line_only;
  char function[PYTHON_NAME_MAX], file[FILE_MAX];
  uint32_t merged_count;
  uint32_t merged[NATIVE_MAX + PYTHON_MAX + 1];
} scratch_t;

HIDDEN bool capture_has_python;
static python_runtime_t runtime;
static bool has_all_lines;
static scratch_t *scratches[SCRATCHES];

/* ---- memory ------------------------------------------------------------------------------------
 */

static bool page_is_readable(scratch_t *s, uint64_t page) {
  uint64_t *known = &s->pages[page / PAGE_BYTES % PAGES_KNOWN];
  if (*known == page && page) return true;
  if (!os_readable(page)) return false;
  *known = page;
  return true;
}

static bool is_readable(scratch_t *s, uint64_t address, uint64_t size) {
  uint64_t page = ALIGN_DOWN(address, (uint64_t)PAGE_BYTES);
  if (address + size < address) return false;
  for (; page < address + size; page += PAGE_BYTES)
    if (!page_is_readable(s, page)) return false;
  return true;
}

static READS_STACK bool read_verified(memory_t *self, uint64_t address, void *out, size_t size) {
  if (!is_readable((scratch_t *)self, address, size)) return false;
  const volatile uint8_t *from = (const volatile uint8_t *)(uintptr_t)address;
  if (size == 8 && address % 8 == 0) {
    uint64_t word = *(const volatile uint64_t *)from;
    memcpy(out, &word, 8);
    return true;
  }
  for (size_t i = 0; i < size; i++)
    ((uint8_t *)out)[i] = from[i];
  return true;
}

static scratch_t *take_scratch(void) {
  for (uint32_t i = 0; i < SCRATCHES; i++) {
    scratch_t *s = load_acquire(&scratches[i]), *none = NULL;
    if (!s) {
      s = os_map(sizeof *s);
      if (!s) return NULL;
      s->busy = 1;
      if (cas_acq_rel(&scratches[i], &none, s)) return s;
      os_unmap(s, sizeof *s);
      s = none;
    }
    uint32_t is_free = 0;
    if (cas_acq_rel(&s->busy, &is_free, 1u)) return s;
  }
  return NULL;
}

/* ---- the thread's state ------------------------------------------------------------------------
 */

/* States that were found, by tid. An entry is verified before each use. */
static struct {
  int32_t tid;
  uint64_t state;
} known_threads[THREADS_KNOWN];

typedef struct search {
  scratch_t *scratch;
  int32_t tid;
  uint64_t found;
} search_t;

static bool is_own(scratch_t *s, uint64_t state, int32_t tid) {
  python_thread_t thread;
  return python_thread_of(runtime.layout, &s->memory, state, &thread) &&
         python_thread_is(&thread, MACHINE_HERE, &s->memory, tid);
}

static bool visit_state(void *context, uint64_t state) {
  search_t *search = context;
  if (!is_own(search->scratch, state, search->tid)) return true;
  search->found = state;
  return false;
}

/* 0: the thread has none, as one that the interpreter does not know. */
static uint64_t own_state(scratch_t *s, int32_t tid) {
  uint32_t i = (uint32_t)tid % THREADS_KNOWN;
  uint64_t state = load_relaxed(&known_threads[i].state);
  if (load_relaxed(&known_threads[i].tid) == tid && state && is_own(s, state, tid)) return state;
  search_t search = {s, tid, 0};
  python_states(&runtime, &s->memory, visit_state, &search);
  store_relaxed(&known_threads[i].tid, tid);
  store_relaxed(&known_threads[i].state, search.found);
  return search.found;
}

/* ---- Python frames -----------------------------------------------------------------------------
 */

static uint32_t line_of(scratch_t *s, const python_code_t *code, uint32_t position) {
  uint64_t data, size;
  if (!python_bytes(&s->memory, code->lines, &data, &size) || size > UINT32_MAX ||
      !is_readable(s, data, size))
    return 0;
  return python_line(runtime.layout->minor, code->first_line, (const uint8_t *)(uintptr_t)data,
                     (size_t)size, position);
}

/* As capture_python_frame, without what was remembered. */
static uint32_t read_frame(scratch_t *s, uint64_t address, uint64_t instruction) {
  const python_layout_t *l = runtime.layout;
  python_code_t code;
  uint32_t position;
  if (!python_code_read(l, &s->memory, address, &code) || code.type != runtime.code_type) return 0;
  if (!code.file) return PYTHON_FRAME_INSERTED;
  if (!python_code_name(l, &s->memory, &code, s->function, PYTHON_NAME_MAX) ||
      !python_text(l, &s->memory, code.file, s->file, FILE_MAX))
    return 0;
  if (instruction == PYTHON_WHOLE_FUNCTION) return python_frame_id(s->function, s->file, 0);
  if (!python_position(l, address, instruction, &position)) return 0;
  return python_frame_id(s->function, s->file, line_of(s, &code, position));
}

static uint32_t find_frame(scratch_t *s, uint64_t code, uint64_t instruction) {
  uint32_t id = python_codes_find(code, instruction);
  if (LIKELY(id)) return id;
  uint32_t generation = python_codes_generation(code);
  id = read_frame(s, code, instruction);
  if (id && id != FRAME_TABLE_FULL) python_codes_store(code, instruction, generation, id);
  return id;
}

static bool add_frame(scratch_t *s, const python_chain_t *chain) {
  bool has_line = s->is_innermost || !s->is_innermost_line_only;
  uint64_t instruction = has_line ? chain->instruction : PYTHON_WHOLE_FUNCTION;
  uint32_t id = s->python_count < PYTHON_MAX ? find_frame(s, chain->code, instruction) : 0;
  if (id && id != PYTHON_FRAME_INSERTED) s->python[s->python_count++] = id;
  return id != 0;
}

static bool end_call(scratch_t *s, uint64_t anchor) {
  if (s->call_count == CALLS_MAX) return false;
  s->calls[s->call_count++] = (call_t){anchor, s->first, s->python_count - s->first};
  s->first = s->python_count;
  return true;
}

/* Whether the thread is in the first instructions of the evaluator and has linked an anchor, which
 * may have no content yet. */
static bool is_entering(const scratch_t *s, uint64_t anchor) {
  return runtime.layout->cframe_current != PYTHON_NO_FIELD &&
         s->innermost_pc - runtime.evaluator < ENTRY_BYTES && anchor >= s->sp[0] &&
         anchor < s->sp[1];
}

/* Begins CHAIN at the next call of the evaluator further out. All calls of one function keep their
 * variables at the same distance from their end. False: there is none. */
static bool start_outside(const scratch_t *s, python_chain_t *chain) {
  uint64_t distance = s->sp[1] - chain->cframe;
  for (uint32_t i = 1; i < s->native_count; i++)
    if (s->is_evaluator[i]) return python_chain_start_at(chain, s->sp[i + 1] - distance);
  return false;
}

static void read_frames(scratch_t *s, uint64_t state) {
  python_chain_t chain;
  python_step_t step = PYTHON_DAMAGED;
  s->python_count = s->call_count = s->first = 0;
  s->is_damaged = false;
  s->is_innermost = true;
  bool started = python_chain_start(&chain, runtime.layout, &s->memory, state);
  if (started && is_entering(s, chain.cframe) && !start_outside(s, &chain)) return;
  if (started) do {
      step = python_chain_next(&chain);
      if (step == PYTHON_FRAME && !add_frame(s, &chain)) step = PYTHON_DAMAGED;
      if (step == PYTHON_CALL && !end_call(s, chain.anchor)) step = PYTHON_DAMAGED;
      s->is_innermost = false;
    } while (step < PYTHON_END);
  s->is_damaged = step == PYTHON_DAMAGED;
}

/* ---- native frames -----------------------------------------------------------------------------
 */

static void add_native(scratch_t *s, uint32_t id, uint64_t pc, uint64_t sp, bool exact) {
  s->native[s->native_count] = id;
  s->is_evaluator[s->native_count] = pc - !exact - runtime.evaluator < runtime.evaluator_bytes;
  s->sp[s->native_count++] = sp;
}

static bool add_with_registers(void *scratch, uint64_t pc, uint64_t sp, bool exact) {
  scratch_t *s = scratch;
  if (s->native_count == NATIVE_MAX) return false;
  add_native(s, frame_table_find(pc, exact, walk_epoch()).id, pc, sp, exact);
  return true;
}

static READS_STACK bool read_native(scratch_t *s, const python_origin_t *origin) {
  position_t p;
  uint64_t epoch = walk_epoch();
  walk_step_t step = WALK_CALLER;
  stack_window_t w = stack_window_of_process();
  if (origin->ucontext)
    position_of_context(&p, origin->ucontext);
  else
    position_after_return(&p, origin->pc, origin->sp, origin->fp);
  s->innermost_pc = p.pc;
  s->native_count = 0;
  if (!w.move(&w, p.sp)) return false;
  while (step == WALK_CALLER && s->native_count < NATIVE_MAX) {
    frame_ref_t frame = frame_table_find(p.pc, p.exact, epoch);
    add_native(s, frame.id, p.pc, p.sp, p.exact);
    step = walk_by_rule(&w, frame.rule, &p);
    if (step == WALK_SLOW) step = walk_slow_step_any_stack(&w, &p);
  }
  if (step == WALK_NEEDS_REGISTER) {
    s->native_count = 0;
    if (capture_each_with_registers(origin->ucontext, origin->sp, add_with_registers, s))
      step = WALK_END;
  }
  s->sp[s->native_count] = s->native_count ? s->sp[s->native_count - 1] : 0;
  return step == WALK_END;
}

/* ---- both --------------------------------------------------------------------------------------
 */

static bool holds(const scratch_t *s, uint32_t native, uint64_t anchor) {
  return s->sp[native] <= anchor && anchor < s->sp[native + 1];
}

/* The number of calls of the evaluator that have no Python frames, without anchors: the innermost
 * ones. UINT32_MAX: there are fewer calls than Python frames. */
static uint32_t count_without(const scratch_t *s) {
  uint32_t calls = 0;
  for (uint32_t i = 0; i < s->native_count; i++)
    calls += s->is_evaluator[i];
  return calls < s->call_count ? UINT32_MAX : calls - s->call_count;
}

static void add_call(scratch_t *s, const call_t *call) {
  for (uint32_t i = 0; i < call->count; i++)
    s->merged[s->merged_count++] = s->python[call->first + i];
}

/* Puts the frames of each call before the native frame of the call. False: some have none. */
static bool merge(scratch_t *s) {
  bool has_anchors = s->call_count && s->calls[0].anchor;
  uint32_t call = 0, skip = has_anchors ? 0 : count_without(s);
  bool is_missing = s->is_damaged;
  s->merged_count = 0;
  for (uint32_t i = 0; i < s->native_count; i++) {
    const call_t *next = call < s->call_count ? &s->calls[call] : NULL;
    s->is_call[i] = false;
    bool is_call = has_anchors ? next && holds(s, i, next->anchor)
                               : next && s->is_evaluator[i] && !(skip && skip--);
    if (is_call) {
      add_call(s, next);
      s->is_call[i] = true;
      call++;
    } else if (is_missing && call == s->call_count && s->is_evaluator[i]) {
      s->merged[s->merged_count++] = python_frame_id(PYTHON_MISSING_NAME, "", 0);
      is_missing = false;
    }
    s->merged[s->merged_count++] = s->native[i];
  }
  return call == s->call_count;
}

/* A stack that the merge cannot explain is marked, too. */
static void set_missing(scratch_t *s) {
  s->call_count = 0;
  s->is_damaged = true;
  (void)merge(s);
}

static uint32_t node_of_merged(const scratch_t *s) {
  uint32_t node = 0, count = s->merged_count;
  bool is_deep = count > STACK_OUTER + STACK_INNER;
  for (uint32_t i = count; i-- > 0;) {
    if (is_deep && i == count - STACK_OUTER - 1) {
      node = stack_table_child(node, frame_table_find(STACK_PC_TRUNCATED, true, walk_epoch()).id);
      i = STACK_INNER;
      continue;
    }
    node = stack_table_child(node, s->merged[i]);
  }
  return node;
}

/* The calls of a stack that the merge explains, at return addresses. */
static void know_calls(const scratch_t *s, bool has_origin) {
  for (uint32_t i = has_origin ? 1 : 0; i < s->native_count; i++)
    if (s->is_call[i]) python_shape_know_call(s->native[i]);
}

static bool capture_in(scratch_t *s, uint32_t *id, const python_origin_t *origin) {
  s->memory.read = read_verified;
  memset(s->pages, 0, sizeof s->pages);
  uint64_t state = own_state(s, os_tid());
  if (!state || !read_native(s, origin)) return false;
  s->is_innermost_line_only = origin->is_event && !has_all_lines;
  read_frames(s, state);
  if (!s->call_count && !s->is_damaged) return false;
  if (!merge(s))
    set_missing(s);
  else if (!s->is_damaged)
    know_calls(s, origin->ucontext);
  *id = node_of_merged(s);
  if (*id == STACK_TABLE_FULL) *id = 0;
  return true;
}

bool capture_with_python(uint32_t *id, const python_origin_t *origin) {
  if (!frame_table_init() || !stack_table_init()) return false;
  scratch_t *s = take_scratch();
  if (!s) return false;
  bool done = capture_in(s, id, origin);
  store_release(&s->busy, 0u);
  return done;
}

uint32_t capture_python_frame(uint64_t code, uint64_t instruction) {
  scratch_t *s = take_scratch();
  if (!s) return 0;
  s->memory.read = read_verified;
  memset(s->pages, 0, sizeof s->pages);
  uint32_t id = find_frame(s, code, instruction);
  store_release(&s->busy, 0u);
  return id;
}

/* ---- start -------------------------------------------------------------------------------------
 */

static bool read_memory(memory_t *self, uint64_t address, void *out, size_t size) {
  (void)self;
  return os_read_memory(address, out, size) == (ssize_t)size;
}

void capture_python_start(bool all_lines, uint64_t deallocator) {
  static const char *const name[] = {"_PyRuntime"};
  memory_t memory = {read_memory};
  uint64_t address = 0;
  os_symbols(0, name, &address, 1);
  uint16_t id = address ? image_id_of_pc(address) : 0;
  const image_entry_t *entry = id ? image_entry(id) : NULL;
  if (!entry || !python_find(&entry->image, entry->path, &memory, &runtime)) return;
  capture_has_python = runtime.layout != NULL;
  has_all_lines = all_lines;
  if (capture_has_python && python_codes_start(runtime.code_type, deallocator))
    python_event_start(&runtime, has_all_lines);
}
