/* SPDX-License-Identifier: MIT
 *
 * Prints what `sonde report FILE trace` prints, in the program itself: copies the chunks of calls,
 * sorts them, replays them into a tree in mapped memory, and prints it with names from mapped
 * symbol tables. No malloc, no stdio, no libc.
 */
#include "sensor/trace/print.h"

#include <errno.h>

#include "base/text.h"
#include "record/call_record.h"
#include "record/memory_recording.h"
#include "sensor/trace/trace.h"
#include "sonde/name.h"
#include "sonde/status.h"
#include "capture/frame_table.h"

#define CHUNKS_MAX (1u << 16)
/* Calls on more paths count for their callers. */
#define NODES_MAX (1u << 16)
#define SLOTS     (4u * NODES_MAX)
#define RATE_BITS 24
#define DEPTH_MAX 64 /* printed */

typedef struct print_node {
  /* times in units of the clock, not shifted; `callees`: time in traced callees */
  uint64_t calls, total, callees, least, worst;
  uint32_t parent, frame, first_child, next;
} print_node_t;

typedef struct chunk_place {
  uint32_t stream, sequence;
  uint64_t offset; /* in bytes */
} chunk_place_t;

typedef struct open_call {
  uint64_t start;
  uint32_t node;
  bool shown;
} open_call_t;

typedef struct printing {
  uint8_t *bytes; /* the chunks of calls */
  uint64_t used, room;
  chunk_place_t *places;
  uint32_t count;
  print_node_t *nodes; /* 0 is the root */
  uint32_t node_count;
  uint32_t *slots;
  open_call_t *calls;
  uint64_t depth;
  uint64_t rate;
  const print_filter_t *filter;
  uint64_t least; /* in units of the clock, not shifted */
  int fd, lines;
} printing_t;

/* ---- chunks ---------------------------------------------------------------------------------- */

static bool add_size(void *context, const chunk_header_t *chunk) {
  if (chunk->type == CHUNK_CALLS) *(uint64_t *)context += chunk->size;
  return true;
}

static bool add_chunk(void *context, const chunk_header_t *chunk) {
  printing_t *p = context;
  if (chunk->type != CHUNK_CALLS) return true;
  if (p->count == CHUNKS_MAX || chunk->size > p->room - p->used)
    return true; /* newer than the size query */
  memcpy(p->bytes + p->used, chunk, chunk->size);
  p->places[p->count++] = (chunk_place_t){chunk->stream, chunk->sequence, p->used};
  p->used += chunk->size;
  return true;
}

static bool is_before(const chunk_place_t *a, const chunk_place_t *b) {
  return a->stream != b->stream ? a->stream < b->stream : a->sequence < b->sequence;
}

static void sift_down(chunk_place_t *heap, uint32_t count, uint32_t i) {
  chunk_place_t one = heap[i];
  for (uint32_t c; (c = 2 * i + 1) < count; i = c) {
    if (c + 1 < count && is_before(&heap[c], &heap[c + 1])) c++;
    if (!is_before(&one, &heap[c])) break;
    heap[i] = heap[c];
  }
  heap[i] = one;
}

static void sort_places(printing_t *p) {
  for (uint32_t i = p->count / 2; i-- > 0;)
    sift_down(p->places, p->count, i);
  for (uint32_t end = p->count; end > 1; end--) {
    chunk_place_t last = p->places[end - 1];
    p->places[end - 1] = p->places[0];
    p->places[0] = last;
    sift_down(p->places, end - 1, 0);
  }
}

/* ---- the tree -------------------------------------------------------------------------------- */

/* The node of FRAME called from PARENT; 0: too many nodes. */
static uint32_t child(printing_t *p, uint32_t parent, uint32_t frame) {
  uint64_t hash = ((uint64_t)parent << 32 | frame) * UINT64_C(0x9e3779b97f4a7c15);
  uint32_t i = (uint32_t)(hash >> 40) % SLOTS;
  for (; p->slots[i]; i = (i + 1) % SLOTS) {
    const print_node_t *n = &p->nodes[p->slots[i]];
    if (n->parent == parent && n->frame == frame) return p->slots[i];
  }
  if (p->node_count == NODES_MAX) return 0;
  uint32_t number = p->node_count++;
  p->nodes[number] = (print_node_t){.parent = parent, .frame = frame};
  p->nodes[number].next = p->nodes[parent].first_child;
  p->nodes[parent].first_child = number;
  return p->slots[i] = number;
}

static void enter(printing_t *p, uint32_t frame, uint64_t time) {
  uint32_t parent = p->depth ? p->calls[p->depth - 1].node : 0;
  if (p->depth == TRACE_CALLS_MAX) return;
  bool hidden = p->filter->depth && p->depth >= p->filter->depth;
  uint32_t node = hidden ? 0 : child(p, parent, frame);
  p->calls[p->depth++] = (open_call_t){time, node ? node : parent, node != 0};
}

static void leave(printing_t *p, uint64_t time) {
  if (!p->depth) return;
  const open_call_t *c = &p->calls[--p->depth];
  if (!c->shown) return;
  print_node_t *n = &p->nodes[c->node];
  uint64_t took = time > c->start ? time - c->start : 0;
  if (took < p->least) return;
  if (!n->calls || took < n->least) n->least = took;
  if (took > n->worst) n->worst = took;
  n->calls++;
  n->total += took;
  p->nodes[n->parent].callees += took;
}

static void set_depth(printing_t *p, uint64_t depth, uint64_t time) {
  while (p->depth > depth)
    leave(p, time);
  while (p->depth < depth && p->depth < TRACE_CALLS_MAX)
    enter(p, 0, time);
}

/* Returns the time of its end. */
static uint64_t replay_chunk(printing_t *p, const chunk_header_t *h) {
  const uint8_t *at = (const uint8_t *)(h + 1), *end = at + h->used;
  unsigned shift = h->address_shift & 31;
  uint64_t time = h->base_time;
  while (at < end && *at) {
    uint8_t padded[8] = {0};
    memcpy(padded, at, end - at < 8 ? (size_t)(end - at) : 8);
    call_record_t r = call_record_get(padded);
    at += r.bytes;
    time += r.passed;
    switch (r.kind) {
    case CALL_RECORD_ENTER: enter(p, (uint32_t)r.value, time << shift); break;
    case CALL_RECORD_EXIT: leave(p, time << shift); break;
    case CALL_RECORD_UNWOUND:
      set_depth(p, p->depth > r.value ? p->depth - r.value : 0, time << shift);
      break;
    case CALL_RECORD_LOST: set_depth(p, 0, time << shift); break;
    case CALL_RECORD_DEPTH: set_depth(p, r.value, time << shift); break;
    default: break;
    }
  }
  return time << shift;
}

static void replay(printing_t *p) {
  uint64_t time = 0;
  const chunk_place_t *before = NULL;
  for (uint32_t i = 0; i < p->count; i++) {
    const chunk_place_t *place = &p->places[i];
    if (before && before->stream == place->stream && before->sequence == place->sequence) continue;
    bool follows =
        before && before->stream == place->stream && before->sequence + 1 == place->sequence;
    if (!follows) set_depth(p, 0, time);
    time = replay_chunk(p, (const chunk_header_t *)(const void *)(p->bytes + place->offset));
    before = place;
  }
  set_depth(p, 0, time);
}

/* ---- text ------------------------------------------------------------------------------------ */

/* An output line; longer text is truncated. */
typedef struct text {
  char bytes[1024];
  uint32_t used;
} text_t;

static void text_put(text_t *t, const char *text) {
  while (*text && t->used < sizeof t->bytes - 1)
    t->bytes[t->used++] = *text++;
}

static void text_right(text_t *t, uint64_t value, unsigned width) {
  char digits[DECIMAL_MAX + 1];
  char *end = decimal_append(digits, value);
  *end = 0;
  for (size_t n = (size_t)(end - digits); n < width; n++)
    text_put(t, " ");
  text_put(t, digits);
}

static void text_hex(text_t *t, uint64_t value) {
  text_put(t, "0x");
  for (int shift = 60; shift >= 0; shift -= 4) {
    const char digit[2] = {"0123456789abcdef"[value >> shift & 15], 0};
    if (value >> shift || !shift) text_put(t, digit);
  }
}

/* Writes the line and its end. */
static bool text_write(text_t *t, int fd) {
  t->bytes[t->used++] = '\n';
  for (uint32_t done = 0; done < t->used;) {
    ssize_t n = os_write(fd, t->bytes + done, t->used - done);
    if (n == -EINTR) continue;
    if (n <= 0) return false;
    done += (uint32_t)n;
  }
  return true;
}

static void put_ns(text_t *t, const printing_t *p, uint64_t units) {
  uint64_t whole = units >> RATE_BITS, rest = units & ((UINT64_C(1) << RATE_BITS) - 1);
  text_right(t, whole * p->rate + (rest * p->rate >> RATE_BITS), 12);
}

/* Nanoseconds per unit, times 2^RATE_BITS, measured since the recording began. */
static uint64_t rate_of_clock(void) {
  uint64_t ticks, ns;
  if (writer_control()->clock == RECORD_CLOCK_MONOTONIC) return UINT64_C(1) << RATE_BITS;
  memory_recording_start(&ticks, &ns);
  ns = os_monotonic_ns() - ns;
  ticks = arch_cycles() - ticks;
  for (; ns >> (63 - RATE_BITS); ns >>= 1)
    ticks >>= 1;
  return ticks ? (ns << RATE_BITS) / ticks : UINT64_C(1) << RATE_BITS;
}

static uint64_t units_of(const printing_t *p, uint64_t ns) {
  if (ns >> (64 - RATE_BITS)) return UINT64_MAX;
  return p->rate ? (ns << RATE_BITS) / p->rate : 0;
}

/* Puts TEXT on one line. */
static void put_line(text_t *t, const char *text) {
  for (; *text; text++) {
    const char c[2] = {(unsigned char)*text >= ' ' ? *text : '?', 0};
    text_put(t, c);
  }
}

static void put_name(text_t *t, uint32_t frame) {
  frame_info_t info;
  sonde_name_t name;
  const char *scope = NULL;
  if (!frame || !frame_table_get(frame, &info)) {
    text_put(t, "[a call that began before]");
    return;
  }
  scope = trace_scope_name(info.pc);
  if (!scope) scope = trace_kept_name(info.pc); /* an Objective-C method */
  if (!scope && sonde_name(info.pc, SONDE_NAME_EXACT, &name) == 0) scope = name.symbol;
  if (scope)
    put_line(t, scope);
  else
    text_hex(t, info.pc);
}

static bool put_node(printing_t *p, const print_node_t *n, unsigned depth) {
  text_t t;
  t.used = 0;
  put_ns(&t, p, n->total);
  put_ns(&t, p, n->total > n->callees ? n->total - n->callees : 0);
  text_right(&t, n->calls, 12);
  put_ns(&t, p, n->total / n->calls);
  put_ns(&t, p, n->least);
  put_ns(&t, p, n->worst);
  text_put(&t, "  ");
  for (unsigned i = 0; i < depth; i++)
    text_put(&t, "  ");
  put_name(&t, n->frame);
  p->lines++;
  return text_write(&t, p->fd);
}

/* The child of PARENT that follows the child AFTER, which has TIME, in order of time; 0: no more.
 */
static uint32_t next_child(const printing_t *p, uint32_t parent, uint64_t time, uint32_t after) {
  uint32_t best = 0;
  for (uint32_t i = p->nodes[parent].first_child; i; i = p->nodes[i].next) {
    const print_node_t *n = &p->nodes[i];
    bool later = n->total < time || (n->total == time && i > after);
    if (n->calls && later &&
        (!best || n->total > p->nodes[best].total ||
         (n->total == p->nodes[best].total && i < best)))
      best = i;
  }
  return best;
}

static bool put_children(printing_t *p, uint32_t parent, unsigned depth, uint64_t least) {
  uint64_t time = UINT64_MAX;
  uint32_t i = 0;
  while (depth < DEPTH_MAX && (i = next_child(p, parent, time, i))) {
    time = p->nodes[i].total;
    if (time < least) return true;
    if (!put_node(p, &p->nodes[i], depth) || !put_children(p, i, depth + 1, least)) return false;
  }
  return true;
}

static bool print_tree(printing_t *p) {
  text_t t;
  t.used = 0;
  text_put(&t, "    total_ns     self_ns       calls     mean_ns    least_ns    worst_ns");
  p->lines++;
  uint64_t least = p->filter->share ? p->nodes[0].callees / p->filter->share : 0;
  return text_write(&t, p->fd) && put_children(p, 0, 0, least);
}

/* ---- entry point ----------------------------------------------------------------------------- */

static void *memory(uint64_t bytes) { return os_map(ALIGN_UP(bytes, UINT64_C(4096))); }

int trace_print(int fd, const print_filter_t *filter) {
  uint64_t size = 0;
  printing_t p = {.fd = fd, .node_count = 1, .filter = filter};
  if (!memory_recording_each(add_size, &size)) return SONDE_ENOMEM;
  p.room = size + (UINT64_C(1) << 20);
  p.bytes = memory(p.room);
  p.places = memory(CHUNKS_MAX * sizeof *p.places);
  p.nodes = memory(NODES_MAX * sizeof *p.nodes);
  p.slots = memory(SLOTS * sizeof *p.slots);
  p.calls = memory(TRACE_CALLS_MAX * sizeof *p.calls);
  int status = SONDE_ENOMEM;
  if (p.bytes && p.places && p.nodes && p.slots && p.calls &&
      memory_recording_each(add_chunk, &p)) {
    p.rate = rate_of_clock();
    p.least = units_of(&p, filter->least_ns);
    sort_places(&p);
    replay(&p);
    status = print_tree(&p) ? p.lines : SONDE_EIO;
  }
  if (p.bytes) os_unmap(p.bytes, p.room);
  if (p.places) os_unmap(p.places, CHUNKS_MAX * sizeof *p.places);
  if (p.nodes) os_unmap(p.nodes, NODES_MAX * sizeof *p.nodes);
  if (p.slots) os_unmap(p.slots, SLOTS * sizeof *p.slots);
  if (p.calls) os_unmap(p.calls, TRACE_CALLS_MAX * sizeof *p.calls);
  return status;
}
