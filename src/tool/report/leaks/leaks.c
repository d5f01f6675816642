/* SPDX-License-Identifier: MIT
 *
 * Lost blocks as text: what the look cost and what it could not see first, then what was lost.
 */
#include "report/leaks/leaks.h"

#include <inttypes.h>

enum { REFERRERS_SHOWN = 20 };

static void print_cost(const leaks_t *l, FILE *out) {
  const leaks_exchange_t *x = l->exchange;
  char a[24], b[24], c[24];
  fprintf(out, "  paused     for %s, %s of that to copy the process; %" PRIu32 " thread%s\n",
          report_duration((double)x->pause_ns, a), report_duration((double)x->copying_ns, b),
          x->thread_count, x->thread_count == 1 ? "" : "s");
  fprintf(out, "  searched   %s of roots and %s of blocks, in %s, in the copy\n",
          report_bytes((int64_t)x->root_bytes, a), report_bytes((int64_t)x->block_bytes, b),
          report_duration((double)x->scan_ns, c));
}

static void print_doubts(const leaks_t *l, FILE *out) {
  const leaks_exchange_t *x = l->exchange;
  char a[24];
  if (l->unknown_threads)
    fprintf(out,
            "  unsure     %" PRIu32 " of them waits in a call that a signal would end: the %" PRIu64
            " registers\n             kept there are not known, and may hold as many blocks\n",
            l->unknown_threads, l->unknown_registers);
  if (l->running_threads)
    fprintf(out,
            "  unsure     %" PRIu32 " threads could not be held: what they had at that moment is "
            "not known\n",
            l->running_threads);
  if (x->reallocating)
    fprintf(out, "  unsure     %" PRIu32 " reallocs were under way all the time\n",
            x->reallocating);
  if (x->late)
    fprintf(out, "  unseen     not every block was recorded: what the allocator has is searched "
                 "whole, and\n             old pointers there may hide a leak\n");
  if (x->roots_skipped)
    fprintf(out, "  unseen     %" PRIu32 " mappings too many to be searched\n", x->roots_skipped);
  if (l->unmapped)
    fprintf(out, "  gone       %s blocks lie where there is no memory any more\n",
            report_count(l->unmapped, a));
}

static void print_group(const report_t *r, const leaks_stack_t *g, FILE *out) {
  char a[24], b[24], c[24], d[24];
  fprintf(out, "  %10s in %s block%s", report_bytes((int64_t)g->lost.bytes, a),
          report_count(g->lost.count, b), g->lost.count == 1 ? "" : "s");
  if (g->indirect.count)
    fprintf(out, ", leading to %s in %s more", report_bytes((int64_t)g->indirect.bytes, c),
            report_count(g->indirect.count, d));
  if (g->in_cycles) fprintf(out, "; %s in cycles", report_count(g->in_cycles, c));
  if (g->uncertain == g->lost.count)
    fprintf(out, "; unsure");
  else if (g->uncertain)
    fprintf(out, "; %s unsure", report_count(g->uncertain, d));
  fprintf(out, "  e.g. 0x%" PRIx64 "  stack %" PRIu32 "\n", g->example, g->stack);
  report_stack_text(r, g->stack, out);
}

void leaks_text(const report_t *r, const leaks_t *l, FILE *out) {
  char a[24], b[24];
  fprintf(out, "  live       %s in %s blocks\n", report_bytes((int64_t)l->live.bytes, a),
          report_count(l->live.count, b));
  print_cost(l, out);
  print_doubts(l, out);
  fprintf(out, "\n%slost%s  %s in %s blocks that nothing points to", r->bold, r->plain,
          report_bytes((int64_t)l->lost.bytes, a), report_count(l->lost.count, b));
  if (l->indirect.count)
    fprintf(out, ", and %s in %s that these lead to", report_bytes((int64_t)l->indirect.bytes, a),
            report_count(l->indirect.count, b));
  fputc('\n', out);
  for (size_t i = 0; i < l->by_stack_count && i < r->top; i++)
    print_group(r, &l->by_stack[i], out);
  if (l->by_stack_count > r->top)
    fprintf(out, "  … and %zu more stacks\n", l->by_stack_count - (size_t)r->top);
}

/* ---- one block ------------------------------------------------------------------------------ */

static const leaks_referrer_t *referrers_of(const leaks_t *l, uint64_t *count) {
  const leaks_exchange_t *x = l->exchange;
  uint64_t n = x->referrer_count;
  *count = n < LEAKS_REFERRERS ? n : LEAKS_REFERRERS;
  return (const void *)((const uint8_t *)x + l->answers_at);
}

static const char *verdict_of(const leaks_block_t *b) {
  static const char *const words[] = {
      "reached", "lost: nothing points to it", "lost: only what it leads to points to it",
      "lost: only lost blocks point to it", "gone: there is no memory at its address"};
  return words[b->verdict];
}

static void print_referrer(const report_t *r, const leaks_t *l, pid_t pid,
                           const leaks_referrer_t *referrer, uint64_t start, FILE *out) {
  leaks_place_t p;
  leaks_place(r, l, pid, referrer, &p);
  fprintf(out, "  %s", leaks_holder_word(p.holder));
  if (p.tid) fprintf(out, " of thread %" PRIu32 " %s:", p.tid, p.thread);
  fprintf(out, " %s", p.where);
  if (referrer->value != start) fprintf(out, ", to byte %" PRIu64, referrer->value - start);
  const leaks_block_t *holder = p.holder == LEAKS_BY_BLOCK ? leaks_find(l, referrer->where) : NULL;
  if (!holder) {
    fputc('\n', out);
    return;
  }
  uint32_t stack = l->stacks[holder - l->blocks];
  fprintf(out, " of %" PRIu64 " bytes, itself %s, stack %" PRIu32 "\n", holder->size,
          verdict_of(holder), stack);
  report_stack_text(r, stack, out);
}

void leaks_block_text(const report_t *r, const leaks_t *l, pid_t pid, const leaks_block_t *b,
                      FILE *out) {
  uint64_t count;
  const leaks_referrer_t *all = referrers_of(l, &count);
  fprintf(out, "0x%" PRIx64 "  %" PRIu64 " bytes, %s\n", b->address, b->size, verdict_of(b));
  report_stack_text(r, l->stacks[b - l->blocks], out);
  print_cost(l, out);
  print_doubts(l, out);
  fprintf(out, "\n%swhat points to it%s\n", r->bold, r->plain);
  if (!count) fprintf(out, "  nothing\n");
  for (uint64_t i = 0; i < count && i < REFERRERS_SHOWN; i++)
    print_referrer(r, l, pid, &all[i], b->address, out);
  uint64_t more = count > REFERRERS_SHOWN ? count - REFERRERS_SHOWN : 0;
  more += l->exchange->referrers_over;
  if (more) fprintf(out, "  … and %" PRIu64 " more\n", more);
}
