/* SPDX-License-Identifier: MIT */
#include "analysis/audit/audit.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/glob.h"
#include "base/varint.h"
#include "reader/body.h"

/* ---- the policy ----------------------------------------------------------------------------- */

/* The records of TYPE joined; NULL when there are none. */
static char *join(const reader_t *reader, uint8_t type, size_t *size) {
  size_t count;
  const sensor_record_t *others = reader_sensor_records(reader, &count);
  char *all = NULL;
  *size = 0;
  for (size_t i = 0; i < count; i++) {
    if (others[i].type != type) continue;
    char *larger = realloc(all, *size + others[i].size + 1);
    if (!larger) break;
    all = larger;
    memcpy(all + *size, others[i].body, others[i].size);
    *size += others[i].size;
    all[*size] = 0;
  }
  return all;
}

/* The record holds the user's YAML and, each after a 0, the YAML of the policies that it extends.
 */
static policy_t *read_text(const reader_t *reader) {
  char error[256];
  size_t size;
  char *text = join(reader, TABLE_POLICY_TEXT, &size);
  if (!text) return NULL;
  policy_source_t user = {.name = "the policy", .text = text, .size = strlen(text)};
  policy_sources_t bases = {.count = 0};
  size_t at = user.size + 1;
  while (at < size && bases.count < POLICY_BASES_MAX) {
    policy_source_t base = {.name = "its base", .text = text + at, .size = strlen(text + at)};
    at += base.size + 1;
    if (base.size) bases.items[bases.count++] = base;
  }
  policy_t *policy = policy_read(&user, bases.count ? &bases : NULL, 0, error, sizeof error);
  free(text);
  return policy;
}

/* Returns whether both forms have the same functions and categories. They differ when another
 * version compiled the YAML. */
static bool agree(const policy_t *p, const audit_policy_t *flat) {
  if (p->function_count != flat->function_count) return false;
  for (uint32_t i = 0; i < flat->function_count; i++)
    if (strcmp(p->functions[i].name, audit_string(flat, audit_functions(flat)[i].name)))
      return false;
  for (uint32_t i = 0; i < flat->rule_count; i++)
    if (audit_rules(flat)[i].category >= p->category_count) return false;
  return true;
}

static void read_reached(audit_t *a) {
  size_t count;
  const sensor_record_t *others = reader_sensor_records(a->reader, &count);
  for (size_t i = 0; i < count; i++) {
    const uint8_t *p = others[i].body, *end = p + others[i].size;
    uint64_t number, reached;
    if (others[i].type == TABLE_AUDITED && varint_get(&p, end, &number) &&
        varint_get(&p, end, &reached) && number < a->flat->function_count)
      a->reached[number] = reached != 0;
  }
}

static bool read_policy(audit_t *a) {
  size_t size;
  char *flat = join(a->reader, TABLE_POLICY, &size);
  a->policy = flat && audit_policy_valid(flat, size) ? read_text(a->reader) : NULL;
  if (!a->policy || !agree(a->policy, (audit_policy_t *)(void *)flat)) {
    policy_free(a->policy);
    a->policy = NULL;
    free(flat);
    return true;
  }
  a->flat = (audit_policy_t *)(void *)flat;
  a->reached = calloc(a->flat->function_count + 1, sizeof *a->reached);
  a->limits = calloc(a->policy->limit_count + 1, sizeof *a->limits);
  if (!a->reached || !a->limits) return false;
  read_reached(a);
  return true;
}

/* ---- calls ---------------------------------------------------------------------------------- */

static uint64_t hash_of(const audit_entry_t *e) {
  uint64_t hash = hash_pair(e->function, e->stack);
  return checksum_mix(hash_bytes(hash, e->arguments, e->arguments_size), 1);
}

static uint64_t hash_of_entry(const void *audit, size_t i) {
  return hash_of(&((const audit_t *)audit)->entries[i]);
}

static bool is_same_call(const audit_entry_t *a, const audit_entry_t *b) {
  return a->function == b->function && a->stack == b->stack &&
         a->arguments_size == b->arguments_size &&
         !memcmp(a->arguments, b->arguments, a->arguments_size);
}

/* The entry of CALL; a new one, with a copy of the arguments, has no calls yet. NULL when memory
 * runs out. */
static audit_entry_t *find(audit_t *a, const audit_entry_t *call) {
  uint32_t *slot;
  if (!ARRAY_GROW(a->entries, a->count, a->capacity) ||
      !hash_reserve(&a->index, a->count, hash_of_entry, a))
    return NULL;
  HASH_FIND(&a->index, hash_of(call), slot) {
    if (is_same_call(&a->entries[*slot - 1], call)) return &a->entries[*slot - 1];
  }
  uint8_t *arguments = malloc(call->arguments_size + 1u);
  if (!arguments) return NULL;
  memcpy(arguments, call->arguments, call->arguments_size);
  audit_entry_t *e = &a->entries[a->count++];
  *e = *call;
  e->arguments = arguments;
  e->count = 0;
  *slot = (uint32_t)a->count;
  return e;
}

/* ---- limits --------------------------------------------------------------------------------- */

/* Adds a call at TIME. It exceeds the limit when it and the limit's number of calls before it lie
 * within the window. False when memory runs out. */
static bool add_to_limit(const audit_t *a, const policy_limit_t *limit, limit_state_t *state,
                         uint64_t time) {
  size_t capacity = (size_t)limit->calls + 1;
  if (!state->times && !(state->times = calloc(capacity, sizeof *state->times))) return false;
  state->times[state->next] = time;
  state->next = (state->next + 1) % capacity;
  if (state->count < capacity) state->count++;
  uint64_t oldest = state->times[state->count < capacity ? 0 : state->next];
  if (state->count == capacity &&
      reader_ns(a->reader, time) - reader_ns(a->reader, oldest) <= limit->window_ns) {
    if (!state->exceeded++) state->first = time;
  }
  return true;
}

static bool add_to_limits(audit_t *a, const audit_entry_t *s, uint64_t time) {
  uint32_t categories[32];
  char text[AUDIT_TEXT_SIZE];
  if (!a->policy || !a->policy->limit_count) return true;
  audit_text(a, s, text);
  size_t n = policy_categories(a->flat, s->function, text, categories, 32);
  for (size_t i = 0; i < a->policy->limit_count; i++)
    for (size_t k = 0; k < n; k++)
      if (glob_matches(a->policy->limits[i].category, a->policy->categories[categories[k]].id) &&
          !add_to_limit(a, &a->policy->limits[i], &a->limits[i], time))
        return false;
  return true;
}

/* A marker begins the phase with its name. */
static void begin_phase(audit_t *a, const record_event_t *e) {
  const char *name;
  size_t size = body_text(e, &name);
  for (size_t i = 0; a->policy && i < a->policy->phase_count && i < 64; i++) {
    const char *phase = a->policy->phases[i].phase;
    if (strlen(phase) == size && !memcmp(phase, name, size)) a->begun |= UINT64_C(1) << i;
  }
}

static bool is_audited_call(const record_event_t *e) {
  return e->kind == EVENT_EXTENDED && e->subtype == EXTENDED_AUDIT;
}

bool audit_decode(const audit_t *a, const record_event_t *e, audit_entry_t *out) {
  const uint8_t *p = e->body, *end = p + e->body_size;
  uint64_t function, stack;
  if (!is_audited_call(e) || !varint_get(&p, end, &function) || !varint_get(&p, end, &stack) ||
      stack > UINT32_MAX || function > UINT32_MAX ||
      (a->flat && function >= a->flat->function_count))
    return false;
  *out = (audit_entry_t){.function = (uint32_t)function,
                         .stack = (uint32_t)stack,
                         .stream = e->stream,
                         .arguments = p,
                         .arguments_size = (uint32_t)(end - p),
                         .count = 1,
                         .first = e->time,
                         .last = e->time};
  return true;
}

static call_results_t *results_of(void *audit, uint32_t entry) {
  return &((audit_t *)audit)->entries[entry].results;
}

bool audit_add(audit_t *a, const record_event_t *e) {
  audit_entry_t call;
  if (e->kind == EVENT_EXTENDED && e->subtype == EXTENDED_AUDIT_RESULT)
    audit_add_result(&a->open, e, results_of, a);
  if (e->kind == EVENT_EXTENDED && e->subtype == EXTENDED_MARKER) begin_phase(a, e);
  if (!is_audited_call(e)) return coverage_add(&a->coverage, e, a->dedup);
  if (!audit_decode(a, e, &call)) {
    a->damaged++;
    return true;
  }
  if (!stack_dedup_first(a->dedup, call.stack, &call.stack)) return false;
  audit_entry_t *s = find(a, &call);
  if (!s) return false;
  s->count++;
  s->last = e->time;
  s->early |= ~a->begun;
  a->calls++;
  return audit_open_call(&a->open, e->stream, s->function, (uint32_t)(s - a->entries)) &&
         add_to_limits(a, s, e->time);
}

bool audit_has_data(const audit_t *a) { return a->policy || a->calls; }

audit_t *audit_new(reader_t *reader) {
  audit_t *a = calloc(1, sizeof *a);
  if (!a) return NULL;
  a->reader = reader;
  a->machine = audit_machine(reader);
  a->dedup = stack_dedup_new(reader);
  if (a->dedup && read_policy(a)) return a;
  audit_free(a);
  return NULL;
}

void audit_free(audit_t *a) {
  if (!a) return;
  for (size_t i = 0; i < a->count; i++)
    free((uint8_t *)(uintptr_t)a->entries[i].arguments);
  for (size_t i = 0; a->policy && a->limits && i < a->policy->limit_count; i++)
    free(a->limits[i].times);
  coverage_free(&a->coverage);
  audit_open_free(&a->open);
  stack_dedup_free(a->dedup);
  free(a->entries);
  hash_free(&a->index);
  free(a->limits);
  free(a->reached);
  free(a->flat);
  policy_free(a->policy);
  free(a);
}
