/* SPDX-License-Identifier: MIT
 *
 * The command cannot read running programs on Apple's systems, so a target never exists there, and
 * numbers of system calls in a recording are Linux's.
 */
#include "target/jit.h"
#include "target/python/python.h"
#include "target/sensitive.h"

module_t *target_module(target_t *target, uint64_t address) {
  (void)target, (void)address;
  return NULL;
}

jit_t *jit_open(target_t *target) {
  (void)target;
  return NULL;
}

void jit_close(jit_t *jit) { (void)jit; }

const jit_symbol_t *jit_find(const jit_t *jit, uint64_t address) {
  (void)jit, (void)address;
  return NULL;
}

const char *jit_source(const jit_t *jit) {
  (void)jit;
  return NULL;
}

const sensitive_call_t *sensitive_call(uint64_t number) {
  (void)number;
  return NULL;
}

bool sensitive_means(const sensitive_call_t *call, const char *name) {
  (void)call, (void)name;
  return false;
}

const module_t *python_module(const python_t *python) {
  (void)python;
  return NULL;
}

bool python_name(const python_t *python, uint64_t pc, python_name_t *out) {
  (void)python, (void)pc, (void)out;
  return false;
}
