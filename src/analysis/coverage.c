/* SPDX-License-Identifier: MIT */
#include "analysis/coverage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/audit.h"
#include "record/body.h"

static bool add_calls(coverage_t *c, const record_event_t *e) {
  body_t b = {.p = e->body, .end = e->body + e->body_size};
  uint64_t class = body_number(&b), number = body_number(&b), size;
  coverage_call_t call = {.class = (coverage_class_t) class, .call = sensitive_call(number)};
  call.function = (uint32_t)body_number(&b);
  call.stack = (uint32_t)body_number(&b);
  call.count = body_number(&b);
  call.first = body_number(&b);
  call.last = body_number(&b);
  const uint8_t *arguments = body_string(&b, &size);
  if (b.short_of || !call.call || !class || class >= COVERAGE_CLASSES) {
    c->damaged++;
    return true;
  }
  if (c->count == c->room) {
    size_t room = c->room ? 2 * c->room : 256;
    coverage_call_t *larger = realloc(c->calls, room * sizeof *larger);
    if (!larger) return false;
    c->calls = larger;
    c->room = room;
  }
  call.arguments_size = (uint32_t)size;
  call.arguments = malloc(size + 1);
  if (!call.arguments) return false;
  memcpy(call.arguments, arguments, size);
  c->calls[c->count++] = call;
  c->totals[class] += call.count;
  return true;
}

bool coverage_add(coverage_t *c, const record_event_t *e) {
  if (e->kind != EVENT_EXTENDED ||
      (e->subtype != EXTENDED_SYSCALL && e->subtype != EXTENDED_COVERAGE))
    return true;
  c->watched = true;
  if (e->subtype == EXTENDED_SYSCALL) return add_calls(c, e);
  body_t b = {.p = e->body, .end = e->body + e->body_size};
  c->rings += body_number(&b);
  c->foreign += body_number(&b);
  c->crowded += body_number(&b);
  c->let_go |= body_number(&b) != 0;
  c->ended = true;
  return true;
}

void coverage_free(coverage_t *c) {
  for (size_t i = 0; i < c->count; i++)
    free(c->calls[i].arguments);
  free(c->calls);
  *c = (coverage_t){0};
}

uint64_t coverage_possible(const coverage_t *c) {
  return c->totals[COVERAGE_HOOKED] + c->totals[COVERAGE_BELOW] + c->totals[COVERAGE_UNEXPLAINED];
}

double coverage_ratio(const coverage_t *c) {
  uint64_t possible = coverage_possible(c);
  return possible ? (double)c->totals[COVERAGE_HOOKED] / (double)possible : 1;
}

static bool holds(const uint32_t *numbers, size_t count, uint32_t number) {
  for (size_t i = 0; i < count; i++)
    if (numbers[i] == number) return true;
  return false;
}

size_t coverage_categories(const audit_policy_t *flat, const coverage_call_t *call, uint32_t *out,
                           size_t max) {
  uint32_t found[32];
  char text[AUDIT_TEXT_MAX + 1];
  size_t count = 0;
  audit_text_of(call->call->arguments, call->arguments, call->arguments_size, text);
  for (uint32_t f = 0; f < flat->function_count; f++) {
    const char *name = audit_string(flat, audit_functions(flat)[f].name);
    size_t n = sensitive_means(call->call, name) ? policy_categories(flat, f, text, found, 32) : 0;
    for (size_t i = 0; i < n && count < max; i++)
      if (!holds(out, count, found[i])) out[count++] = found[i];
  }
  return count;
}

char *coverage_words(const coverage_call_t *call, char *out, size_t size) {
  char words[2048];
  audit_words_of(call->call->arguments, call->arguments, call->arguments_size, words, sizeof words);
  snprintf(out, size, "%s(%s)", call->call->name, words);
  return out;
}
