/* SPDX-License-Identifier: MIT
 *
 * The command cannot read running programs on Apple's systems, so a target never exists there, and
 * numbers of system calls in a recording are Linux's.
 */
#include "target/jit/live.h"
#include "target/sensitive.h"
#include "target/state.h"

module_t *target_module(target_t *target, uint64_t address) {
  (void)target, (void)address;
  return NULL;
}

void jit_live_open(jit_live_t *live, target_t *target) {
  (void)target;
  *live = (jit_live_t){0};
}

void jit_live_close(jit_live_t *live) { (void)live; }

const jit_symbol_t *jit_find(jit_t *jit, uint64_t address) {
  (void)jit, (void)address;
  return NULL;
}

size_t state_wait_descriptors(target_t *target, const thread_t *thread, int *out, size_t max) {
  (void)target, (void)thread, (void)out, (void)max;
  return 0;
}

bool state_descriptor(const target_t *target, int fd, char *out, size_t size) {
  (void)target, (void)fd, (void)out, (void)size;
  return false;
}

const sensitive_call_t *sensitive_call(uint64_t number) {
  (void)number;
  return NULL;
}

bool sensitive_means(const sensitive_call_t *call, const char *name) {
  (void)call, (void)name;
  return false;
}

void sensitive_kinds(const sensitive_call_t *call, uint8_t withheld,
                     uint8_t kinds[AUDIT_ARGUMENTS]) {
  (void)call, (void)withheld, (void)kinds;
}
