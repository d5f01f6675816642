/* SPDX-License-Identifier: MIT
 *
 * Runs in the copy: decides which memory is a root, and searches.
 *
 * Roots are:
 *   - writable segments of images, and their parts that are read-only after relocation;
 *   - stacks, from each thread's stack pointer (less the red zone) to the end of the mapping;
 *   - the registers of each thread, including vector registers if they are known;
 *   - all other private memory that belongs neither to an image nor to the allocator.
 *
 * The allocator's memory is searched through its blocks only: between them is freed memory, full of
 * stale pointers. If some allocated blocks are unknown, that memory is a root, too: a block that an
 * unknown block references is not leaked.
 *
 * The allocator's memory is recognized by its small blocks: [heap], and each window of 64 MB that
 * is mapped from its start and contains a small block (the layout of glibc's arenas). Large blocks
 * have their own mappings, which the kernel merges with neighbors; memory around them is searched.
 * In case of doubt memory is searched: that can hide a leak, but never reports a false one.
 *
 * Shared memory is not searched: reading untouched pages would allocate them.
 */
#include "sensor/leaks/leaks.h"

#include <string.h>

#include "base/text.h"
#include "os/os.h"
#include "sensor/leaks/reachability.h"
#include "sonde/status.h"

#define ROOTS_MAX 262144u
#define OWN_MAX   2048u
#define WINDOW    (UINT64_C(64) << 20)
/* Allocators do not give a smaller block its own mapping. */
#define SMALL_BYTES (UINT64_C(64) << 10)
/* Below the stack pointer: psABI 3.2.2. */
#define RED_ZONE 128u
#define POLL_NS  UINT64_C(1000000000)
/* How long it waits for a recorder that it cannot see. */
#define UNSEEN_NS UINT64_C(120000000000)

typedef struct root {
  uint64_t start, end;
  leaks_holder_t holder; /* BY_NOTHING: not a root after all */
  bool plain;            /* anonymous: readable in place */
} root_t;

typedef struct range {
  uint64_t start, end;
} range_t;

typedef struct scan {
  leaks_exchange_t *exchange;
  /* not searched: memory of the agent, lists of free memory, stacks of ended threads; ascending */
  range_t own[OWN_MAX];
  uint32_t own_count;
  reachability_t graph;
  root_t *roots;
  uint32_t count;
  root_t before; /* the previous mapping; the next one may show what it is */
  uint64_t before_inode, before_offset;
  uint32_t last; /* mapping that was read last */
} scan_t;

/* ---- waiting for the blocks ------------------------------------------------------------------ */

static bool is_requested(const leaks_exchange_t *x) {
  return os_process_alive((pid_t)x->recorder_pid) &&
         (!x->requester_pid || os_process_alive((pid_t)x->requester_pid));
}

static bool wait_until_ready(leaks_exchange_t *x) {
  uint64_t unseen_until = os_monotonic_ns() + UNSEEN_NS;
  for (;;) {
    uint32_t state = load_acquire(&x->state);
    if (state == LEAKS_READY) return true;
    bool wanted = x->recorder_pid ? is_requested(x) : os_monotonic_ns() < unseen_until;
    if (state == LEAKS_FAILED || !wanted) return false;
    (void)os_futex_wait_shared(&x->state, state, POLL_NS);
  }
}

static void report(leaks_exchange_t *x, int error) {
  x->error = error;
  store_release(&x->state, (uint32_t)(error ? LEAKS_FAILED : LEAKS_DONE));
  (void)os_futex_wake_shared(&x->state, INT32_MAX);
}

/* ---- mappings -------------------------------------------------------------------------------- */

static void add_part(scan_t *s, const root_t *r, uint64_t start, uint64_t end) {
  if (start >= end) return;
  if (s->count == ROOTS_MAX) {
    s->exchange->roots_skipped++;
    return;
  }
  s->roots[s->count] = *r;
  s->roots[s->count].start = start;
  s->roots[s->count++].end = end;
}

static void add_root(scan_t *s, const root_t *r) {
  uint64_t at = r->start;
  for (uint32_t i = 0; i < s->own_count && s->own[i].start < r->end; i++) {
    if (s->own[i].end <= at) continue;
    add_part(s, r, at, s->own[i].start);
    at = s->own[i].end;
  }
  add_part(s, r, at, r->end);
}

static void add_own(uint64_t start, uint64_t end, void *context) {
  scan_t *s = context;
  if (s->own_count == OWN_MAX) return;
  uint32_t at = s->own_count++;
  for (; at && s->own[at - 1].start > start; at--)
    s->own[at] = s->own[at - 1];
  s->own[at] = (range_t){start, end};
}

static bool find_bins(const os_region_t *r, void *context) {
  uint64_t from, to;
  bool data = r->inode && !r->is_shared && (r->protection & 3) == 3;
  if (data && leaks_find_bins(r->start, r->end, &from, &to)) add_own(from, to, context);
  return true;
}

/* Reads nothing below a thread that runs there: most pages of its stack were never touched. */
static bool find_ended(const os_region_t *r, void *context) {
  const leaks_exchange_t *x = ((scan_t *)context)->exchange;
  uint64_t start = r->end;
  if (r->inode || r->is_shared || (r->protection & 3) != 3 || r->name[0]) return true;
  for (uint32_t i = 0; i < x->thread_count; i++) {
    uint64_t sp = x->threads[i].sp;
    if (x->threads[i].state != LEAKS_THREAD_NONE && sp >= r->start && sp < start) start = sp;
  }
  leaks_find_ended(start < r->end ? start : r->start, r->end, add_own, context);
  return true;
}

static void find_own(scan_t *s) {
  os_image_t image;
  os_own_mappings(add_own, s);
  if (os_image_of_pc((uint64_t)(uintptr_t)&find_own, &image)) add_own(image.start, image.end, s);
  (void)os_regions(find_bins, s);
  (void)os_regions(find_ended, s);
}

/* True if the previous mapping is read-only memory directly before the image's data, in the file
 * and in memory: made read-only after relocation. It is a root too. */
static bool is_relocated(const scan_t *s, const os_region_t *r) {
  return s->before_inode == r->inode && s->before.end == r->start &&
         s->before.holder == LEAKS_BY_NOTHING;
}

static bool add_mapping(const os_region_t *r, void *context) {
  scan_t *s = context;
  const leaks_exchange_t *x = s->exchange;
  uint64_t own = (uint64_t)(uintptr_t)x;
  root_t now = {.start = r->start, .end = r->end, .plain = !r->inode && !r->is_shared};
  bool readable = r->protection & 1, writable = r->protection & 2;
  if (r->is_shared || !readable || (own >= r->start && own < r->end) ||
      text_after(r->name, "[v")) /* [vdso], [vvar], [vsyscall] */
    now.plain = false;
  else if (r->inode && writable) {
    if (is_relocated(s, r)) {
      s->before.holder = LEAKS_BY_DATA;
      add_root(s, &s->before);
    }
    now.holder = LEAKS_BY_DATA;
  } else if (!r->inode && s->before.holder == LEAKS_BY_DATA && s->before.end == r->start &&
             !r->name[0])
    now.holder = LEAKS_BY_DATA; /* .bss, which is not in the file */
  else if (!r->inode && text_after(r->name, "[stack"))
    now.holder = LEAKS_BY_STACK;
  else if (!r->inode)
    now.holder = LEAKS_BY_MAPPING;
  s->before = now;
  s->before_inode = r->is_shared ? 0 : r->inode;
  if (now.holder != LEAKS_BY_NOTHING) add_root(s, &now);
  return true;
}

static const root_t *root_of(scan_t *s, uint64_t address) {
  const root_t *r = &s->roots[s->last];
  if (s->last < s->count && address >= r->start && address < r->end) return r;
  uint32_t low = 0, high = s->count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (s->roots[middle].end <= address)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == s->count || address < s->roots[low].start) return NULL;
  s->last = low;
  return &s->roots[low];
}

/* Anonymous memory is read in place; reading a mapped file beyond its end would raise SIGBUS. */
static const void *read_memory(void *context, uint64_t address, uint64_t size, void *buffer,
                               uint64_t *got) {
  scan_t *s = context;
  const root_t *r = root_of(s, address);
  if (r && r->plain) {
    *got = size < r->end - address ? size : r->end - address;
    return (const void *)(uintptr_t)address;
  }
  ssize_t n = os_read_memory(address, buffer, size);
  *got = n > 0 ? (uint64_t)n : 0;
  return buffer;
}

/* ---- searching ------------------------------------------------------------------------------- */

/* The first block that ends after ADDRESS. */
static uint32_t first_after(const reachability_t *g, uint64_t address) {
  uint32_t low = 0, high = g->count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (g->blocks[middle].address + g->blocks[middle].size <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static bool has_small(const reachability_t *g, uint64_t start, uint64_t end) {
  for (uint32_t i = first_after(g, start); i < g->count && g->blocks[i].address < end; i++)
    if (g->blocks[i].size < SMALL_BYTES) return true;
  return false;
}

/* Searches everything from START to END that is in no block. */
static void search_around(scan_t *s, uint64_t start, uint64_t end, leaks_holder_t holder,
                          uint32_t index) {
  reachability_t *g = &s->graph;
  uint64_t at = start;
  for (uint32_t i = first_after(g, start); i < g->count && g->blocks[i].address < end; i++) {
    if (g->blocks[i].address > at)
      s->exchange->root_bytes += reachability_root(g, at, g->blocks[i].address, holder, index);
    at = g->blocks[i].address + g->blocks[i].size;
  }
  if (at < end) s->exchange->root_bytes += reachability_root(g, at, end, holder, index);
}

static void search_mapping(scan_t *s, const root_t *r, uint64_t start) {
  uint32_t late = s->exchange->late;
  for (uint64_t at = start; at < r->end;) {
    uint64_t next = ALIGN_DOWN(at, WINDOW) + WINDOW, end = next < r->end ? next : r->end;
    bool arena = ALIGN_DOWN(at, WINDOW) >= r->start && has_small(&s->graph, at, end);
    if (late || !arena) search_around(s, at, end, LEAKS_BY_MAPPING, 0);
    at = end;
  }
}

/* The innermost thread whose stack is in R, or NULL. A stack that the program has allocated is a
 * block like others, reached through the stack pointer. */
static const leaks_thread_t *runs_in(const scan_t *s, const root_t *r) {
  const leaks_exchange_t *x = s->exchange;
  const leaks_thread_t *found = NULL;
  for (uint32_t i = 0; i < x->thread_count; i++) {
    const leaks_thread_t *t = &x->threads[i];
    if (t->state != LEAKS_THREAD_NONE && t->sp >= r->start && t->sp < r->end &&
        (!found || t->sp < found->sp) && reachability_find(&s->graph, t->sp) == REACHABILITY_NONE)
      found = t;
  }
  return found;
}

static bool is_heap(const reachability_t *g, const root_t *r, uint64_t heap_start) {
  return r->start == heap_start && first_after(g, r->start) < g->count &&
         g->blocks[first_after(g, r->start)].address < r->end;
}

static void search_stacks(scan_t *s) {
  const leaks_exchange_t *x = s->exchange;
  for (uint32_t i = 0; i < s->count; i++) {
    const root_t *r = &s->roots[i];
    const leaks_thread_t *t = runs_in(s, r);
    if (!t) continue;
    uint32_t index = (uint32_t)(t - x->threads);
    uint64_t start = t->sp - r->start < RED_ZONE ? r->start : t->sp - RED_ZONE;
    search_around(s, start, r->end, LEAKS_BY_STACK, index);
  }
}

static void search_registers(scan_t *s) {
  const leaks_exchange_t *x = s->exchange;
  for (uint32_t i = 0; i < x->thread_count; i++) {
    const leaks_thread_t *t = &x->threads[i];
    if (t->state == LEAKS_THREAD_NONE) continue;
    reachability_word(&s->graph, t->sp, (uint64_t)i << 8 | LEAKS_SP, LEAKS_BY_REGISTER);
    for (uint32_t k = 0; k < t->register_count && k < LEAKS_REGISTERS; k++)
      reachability_word(&s->graph, t->registers[k], (uint64_t)i << 8 | k, LEAKS_BY_REGISTER);
    if (t->vectors)
      (void)reachability_root(&s->graph, t->vectors, t->vectors + t->vectors_size, LEAKS_BY_STACK,
                              i);
  }
}

static void search_others(scan_t *s, uint64_t heap_start) {
  for (uint32_t i = 0; i < s->count; i++) {
    const root_t *r = &s->roots[i];
    if (r->holder == LEAKS_BY_DATA || runs_in(s, r)) continue;
    if (is_heap(&s->graph, r, heap_start) && !s->exchange->late) continue;
    search_mapping(s, r, r->start);
  }
}

static void search(scan_t *s, uint64_t heap_start) {
  for (uint32_t i = 0; i < s->count; i++)
    if (s->roots[i].holder == LEAKS_BY_DATA)
      search_around(s, s->roots[i].start, s->roots[i].end, LEAKS_BY_DATA, 0);
  search_stacks(s);
  search_registers(s);
  search_others(s, heap_start);
}

/* Blocks at unmapped addresses: freed unnoticed, or of a program before an execve. */
static void set_gone(scan_t *s) {
  for (uint32_t i = 0; i < s->graph.count; i++)
    if (!root_of(s, s->graph.blocks[i].address)) s->graph.blocks[i].verdict = LEAKS_GONE;
}

/* ---- referrers ------------------------------------------------------------------------------- */

static void add_referrer(void *context, uint64_t where, uint64_t value, leaks_holder_t holder,
                         uint32_t index) {
  const scan_t *s = context;
  leaks_exchange_t *x = s->exchange;
  leaks_referrer_t *out = (leaks_referrer_t *)(void *)((uint8_t *)x + x->answers_at);
  if (x->referrer_count == LEAKS_REFERRERS)
    x->referrers_over++;
  else
    out[x->referrer_count++] = (leaks_referrer_t){where, value, holder, index};
}

/* ---- entry point ----------------------------------------------------------------------------- */

static bool find_heap(const os_region_t *r, void *context) {
  if (!text_after(r->name, "[heap]")) return true;
  *(uint64_t *)context = r->start;
  return false;
}

static bool add_tls(const os_image_t *image, void *context) {
  uint64_t *bytes = context;
  for (uint32_t i = 0; i < image->phdr_count; i++) {
    uint64_t header[7]; /* Elf64_Phdr: type and flags, offset, vaddr, paddr, filesz, memsz, align */
    if (os_read_memory(image->phdr + UINT64_C(56) * i, header, sizeof header) != 56) break;
    if ((uint32_t)header[0] == 7 /* PT_TLS */) *bytes += ALIGN_UP(header[5], UINT64_C(64));
  }
  return true;
}

static bool is_sound(const leaks_exchange_t *x) {
  uint64_t room = x->size - sizeof *x, answers = LEAKS_REFERRERS * sizeof(leaks_referrer_t);
  return x->thread_count <= LEAKS_THREADS && x->blocks_at >= sizeof *x && x->blocks_at % 32 == 0 &&
         x->answers_at % 8 == 0 && x->block_count <= room / sizeof(leaks_block_t) &&
         x->answers_at >= x->blocks_at + x->block_count * sizeof(leaks_block_t) &&
         x->answers_at <= x->size - answers;
}

static int run(leaks_exchange_t *x) {
  uint64_t heap_start = 0, start = os_monotonic_ns();
  if (!is_sound(x)) return SONDE_EINVAL;
  scan_t *s = os_map(sizeof *s);
  if (!s || !(s->roots = os_map(ROOTS_MAX * sizeof *s->roots))) return SONDE_ENOMEM;
  s->exchange = x;
  find_own(s);
  x->referrer_count = x->referrers_over = x->root_bytes = x->tls_bytes = 0;
  x->roots_skipped = 0;
  if (os_regions(add_mapping, s) != 0 || os_regions(find_heap, &heap_start) != 0)
    return SONDE_EUNSUPPORTED;
  os_images(add_tls, &x->tls_bytes);
  leaks_block_t *blocks = (leaks_block_t *)(void *)((uint8_t *)x + x->blocks_at);
  if (!reachability_open(&s->graph, blocks, x->block_count, read_memory, s)) return SONDE_ENOMEM;
  set_gone(s);
  search(s, heap_start);
  reachability_judge(&s->graph);
  x->block_bytes = s->graph.block_bytes;
  uint32_t wanted = x->wanted ? reachability_find(&s->graph, x->wanted) : REACHABILITY_NONE;
  if (wanted != REACHABILITY_NONE) {
    reachability_list_referrers(&s->graph, wanted, add_referrer);
    search(s, heap_start);
    reachability_search_blocks(&s->graph);
  }
  x->scan_ns = os_monotonic_ns() - start;
  return 0;
}

void leaks_copy(leaks_exchange_t *x) {
  os_process_copy_settle("sonde-leaks");
  if (wait_until_ready(x)) report(x, run(x));
  os_exit(0);
}
