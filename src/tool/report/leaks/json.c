/* SPDX-License-Identifier: MIT
 *
 * Lost blocks as JSON: docs/json.md, "sonde leaks".
 */
#include "report/json.h"
#include "report/leaks/leaks.h"

static const char *const verdicts[] = {"reached", "lost", "cycle", "held", "gone"};

static json_object *threads_json(const leaks_t *l) {
  static const char *const how[] = {"ended",   "ended",   "held", "held",
                                    "spilled", "unknown", "loose"};
  json_object *list = json_object_new_array();
  const leaks_exchange_t *x = l->exchange;
  for (uint32_t i = 0; i < x->thread_count && i < LEAKS_THREADS; i++) {
    const leaks_thread_t *t = &x->threads[i];
    json_object *o = json_object_new_object();
    json_add_number(o, "tid", t->tid);
    if (t->state <= LEAKS_THREAD_RUNNING) json_add_text(o, "registers", how[t->state]);
    json_object_array_add(list, o);
  }
  return list;
}

static json_object *head_json(const leaks_t *l, pid_t pid) {
  const leaks_exchange_t *x = l->exchange;
  json_object *o = json_object_new_object();
  json_add_number(o, "pid", pid);
  json_add_number(o, "pause_ns", (int64_t)x->pause_ns);
  json_add_number(o, "copying_ns", (int64_t)x->copying_ns);
  json_add_number(o, "search_ns", (int64_t)x->scan_ns);
  json_add_number(o, "root_bytes", (int64_t)x->root_bytes);
  json_add_number(o, "block_bytes", (int64_t)x->block_bytes);
  json_add_number(o, "tries", x->tries);
  json_add_number(o, "reallocs_under_way", x->reallocating);
  json_object_object_add(o, "every_block_recorded", json_object_new_boolean(!x->late));
  json_object_object_add(o, "threads", threads_json(l));
  return o;
}

static json_object *group_json(const report_t *r, const leaks_stack_t *g) {
  json_object *o = json_object_new_object();
  json_add_number(o, "stack", g->stack);
  json_object_object_add(o, "lost", report_tally_json(g->lost));
  json_object_object_add(o, "held", report_tally_json(g->indirect));
  json_add_number(o, "in_cycles", (int64_t)g->in_cycles);
  json_add_number(o, "unsure", (int64_t)g->uncertain);
  json_add_address(o, "example", g->example);
  json_object_object_add(o, "frames", report_frames_json(r, g->stack, NULL));
  return o;
}

/* Every block that was lost, or is held by one. */
static json_object *blocks_json(const leaks_t *l) {
  json_object *list = json_object_new_array();
  for (uint64_t i = 0; i < l->count; i++) {
    const leaks_block_t *b = &l->blocks[i];
    if (b->verdict == LEAKS_REACHED || b->verdict == LEAKS_GONE) continue;
    json_object *o = json_object_new_object();
    json_add_address(o, "address", b->address);
    json_add_number(o, "size", (int64_t)b->size);
    json_add_text(o, "verdict", verdicts[b->verdict]);
    json_add_number(o, "stack", l->stacks[i]);
    json_object_array_add(list, o);
  }
  return list;
}

json_object *leaks_json(const report_t *r, const leaks_t *l, pid_t pid) {
  json_object *o = head_json(l, pid), *reached = json_object_new_object();
  json_object *groups = json_object_new_array();
  json_object_object_add(o, "live", report_tally_json(l->live));
  json_object_object_add(o, "lost", report_tally_json(l->lost));
  json_object_object_add(o, "held", report_tally_json(l->indirect));
  json_add_number(o, "gone", (int64_t)l->unmapped);
  for (int i = LEAKS_BY_REGISTER; i < LEAKS_HOLDERS; i++)
    if (i != LEAKS_BY_TLS)
      json_add_number(reached, leaks_holder_word((leaks_holder_t)i), (int64_t)l->holders[i]);
  json_object_object_add(o, "reached_from", reached);
  for (size_t i = 0; i < l->by_stack_count && i < r->top; i++)
    json_object_array_add(groups, group_json(r, &l->by_stack[i]));
  json_object_object_add(o, "stacks", groups);
  json_object_object_add(o, "blocks", blocks_json(l));
  return o;
}

static json_object *referrer_json(const report_t *r, const leaks_t *l, pid_t pid,
                                  const leaks_referrer_t *referrer) {
  json_object *o = json_object_new_object();
  leaks_place_t p;
  leaks_place(r, l, pid, referrer, &p);
  json_add_text(o, "kind", leaks_holder_word(p.holder));
  json_add_text(o, "where", p.where);
  json_add_address(o, "value", referrer->value);
  if (p.holder != LEAKS_BY_REGISTER) json_add_address(o, "address", referrer->where);
  if (p.tid) json_add_number(o, "tid", p.tid);
  const leaks_block_t *holder = p.holder == LEAKS_BY_BLOCK ? leaks_find(l, referrer->where) : NULL;
  if (!holder) return o;
  uint32_t stack = l->stacks[holder - l->blocks];
  json_add_address(o, "block", holder->address);
  json_add_number(o, "size", (int64_t)holder->size);
  json_add_text(o, "verdict", verdicts[holder->verdict]);
  json_object_object_add(o, "frames", report_frames_json(r, stack, NULL));
  return o;
}

json_object *leaks_block_json(const report_t *r, const leaks_t *l, pid_t pid,
                              const leaks_block_t *b) {
  const leaks_exchange_t *x = l->exchange;
  json_object *o = head_json(l, pid), *list = json_object_new_array();
  const leaks_referrer_t *all = (const void *)((const uint8_t *)x + l->answers_at);
  json_add_address(o, "address", b->address);
  json_add_number(o, "size", (int64_t)b->size);
  json_add_text(o, "verdict", verdicts[b->verdict]);
  json_object_object_add(o, "frames", report_frames_json(r, l->stacks[b - l->blocks], NULL));
  for (uint64_t i = 0; i < x->referrer_count && i < LEAKS_REFERRERS; i++)
    json_object_array_add(list, referrer_json(r, l, pid, &all[i]));
  json_object_object_add(o, "referrers", list);
  json_add_number(o, "more_referrers", (int64_t)x->referrers_over);
  return o;
}
