/* SPDX-License-Identifier: MIT */
#include "analysis/audit/coverage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/varint.h"
#include "analysis/audit/audit.h"
#include "reader/body.h"

static bool is_same_call(const coverage_call_t *a, const coverage_call_t *b) {
  return a->class == b->class && a->call == b->call && a->function == b->function &&
         a->stack == b->stack && a->arguments_size == b->arguments_size &&
         !memcmp(a->kinds, b->kinds, sizeof a->kinds) &&
         !memcmp(a->arguments, b->arguments, a->arguments_size);
}

static uint64_t hash_of_call(const coverage_call_t *call) {
  uint64_t hash = hash_pair((uintptr_t)call->call, call->stack) + call->function;
  return hash_pair(hash_bytes(hash, call->arguments, call->arguments_size), call->class);
}

static uint64_t hash_of_item(const void *coverage, size_t i) {
  return hash_of_call(&((const coverage_t *)coverage)->calls[i]);
}

static void add_to(coverage_call_t *known, const coverage_call_t *more) {
  known->count += more->count;
  if (more->first < known->first) known->first = more->first;
  if (more->last > known->last) known->last = more->last;
  const call_results_t *r = &more->results;
  uint64_t named = 0;
  call_results_add_succeeded(&known->results, r->value, r->varies, r->succeeded);
  for (int i = 0; i < CALL_ERRORS_KEPT && r->errors[i].calls; i++) {
    call_results_add_failed(&known->results, r->errors[i].number, r->errors[i].calls);
    named += r->errors[i].calls;
  }
  known->results.failed += r->failed - named;
}

/* Copies the arguments. */
static bool add_call(coverage_t *c, const coverage_call_t *call) {
  uint32_t *slot;
  if (!ARRAY_GROW(c->calls, c->count, c->capacity) ||
      !hash_reserve(&c->index, c->count, hash_of_item, c))
    return false;
  HASH_FIND(&c->index, hash_of_call(call), slot) {
    if (!is_same_call(&c->calls[*slot - 1], call)) continue;
    add_to(&c->calls[*slot - 1], call);
    return true;
  }
  uint8_t *arguments = malloc(call->arguments_size + 1);
  if (!arguments) return false;
  memcpy(arguments, call->arguments, call->arguments_size);
  c->calls[c->count] = *call;
  c->calls[c->count++].arguments = arguments;
  *slot = (uint32_t)c->count;
  return true;
}

void coverage_read_results(body_t *b, call_results_t *r) {
  r->succeeded = body_number(b);
  r->value = unzigzag(body_number(b));
  r->varies = body_number(b) != 0;
  r->failed = body_number(b);
  uint64_t count = body_number(b);
  for (uint64_t i = 0; i < count && i < CALL_ERRORS_KEPT && !b->truncated; i++) {
    r->errors[i].number = (uint32_t)body_number(b);
    r->errors[i].calls = body_number(b);
  }
}

static bool add_row(coverage_t *c, const record_event_t *e, stack_dedup_t *dedup) {
  body_t b = {.p = e->body, .end = e->body + e->body_size};
  uint64_t class = body_number(&b), number = body_number(&b), size;
  coverage_call_t call = {.class = (coverage_class_t) class, .call = sensitive_call(number)};
  call.function = (uint32_t)body_number(&b);
  call.stack = (uint32_t)body_number(&b);
  call.count = body_number(&b);
  call.first = body_number(&b);
  call.last = body_number(&b);
  call.arguments = body_string(&b, &size);
  call.arguments_size = (uint32_t)size;
  uint64_t withheld = b.p < b.end ? body_number(&b) : 0;
  if (b.p < b.end) coverage_read_results(&b, &call.results);
  if (call.call) sensitive_kinds(call.call, (uint8_t)withheld, call.kinds);
  if (b.truncated || !call.call || !class || class >= COVERAGE_CLASSES) {
    c->damaged++;
    return true;
  }
  c->totals[class] += call.count;
  return stack_dedup_first(dedup, call.stack, &call.stack) && add_call(c, &call);
}

bool coverage_add(coverage_t *c, const record_event_t *e, stack_dedup_t *dedup) {
  if (e->kind != EVENT_EXTENDED ||
      (e->subtype != EXTENDED_SYSCALL && e->subtype != EXTENDED_COVERAGE))
    return true;
  c->recorded = true;
  if (e->subtype == EXTENDED_SYSCALL) return add_row(c, e, dedup);
  body_t b = {.p = e->body, .end = e->body + e->body_size};
  c->io_uring_ops += body_number(&b);
  c->other_abi_calls += body_number(&b);
  c->unobserved_threads += body_number(&b);
  c->detached |= body_number(&b) != 0;
  c->ended = true;
  return true;
}

void coverage_free(coverage_t *c) {
  for (size_t i = 0; i < c->count; i++)
    free((uint8_t *)(uintptr_t)c->calls[i].arguments);
  free(c->calls);
  hash_free(&c->index);
  *c = (coverage_t){0};
}

uint64_t coverage_possible(const coverage_t *c) {
  return c->totals[COVERAGE_HOOKED] + c->totals[COVERAGE_BELOW] + c->totals[COVERAGE_UNEXPLAINED];
}

double coverage_ratio(const coverage_t *c) {
  uint64_t possible = coverage_possible(c);
  return possible ? (double)c->totals[COVERAGE_HOOKED] / (double)possible : 1;
}

static bool contains(const uint32_t *numbers, size_t count, uint32_t number) {
  for (size_t i = 0; i < count; i++)
    if (numbers[i] == number) return true;
  return false;
}

size_t coverage_categories(const audit_policy_t *flat, const coverage_call_t *call, uint32_t *out,
                           size_t max) {
  uint32_t found[32];
  char text[AUDIT_TEXT_MAX + 1];
  size_t count = 0;
  audit_text_of(call->kinds, call->arguments, call->arguments_size, text);
  for (uint32_t f = 0; f < flat->function_count; f++) {
    const char *name = audit_string(flat, audit_functions(flat)[f].name);
    size_t n = sensitive_means(call->call, name) ? policy_categories(flat, f, text, found, 32) : 0;
    for (size_t i = 0; i < n && count < max; i++)
      if (!contains(out, count, found[i])) out[count++] = found[i];
  }
  return count;
}

char *coverage_words(const coverage_call_t *call, uint32_t machine, char *out, size_t size) {
  char words[2048];
  audit_words_of(call->call->name, machine, call->kinds, call->arguments, call->arguments_size,
                 words, sizeof words);
  snprintf(out, size, "%s(%s)", call->call->name, words);
  return out;
}
