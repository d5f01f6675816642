/* SPDX-License-Identifier: MIT */
#include "target/interpreter/interpreter.h"

#include <stdlib.h>
#include <string.h>

#include "target/modules.h"
#include "target/process.h"

static const interpreter_kind_t *const kinds[] = {&python_kind, &ruby_kind, &php_kind, &lua_kind,
                                                  &perl_kind};

static bool read_target(memory_t *self, uint64_t address, void *out, size_t size) {
  target_t *target = ((interpreter_t *)self)->target;
  if (target->live) return process_read(&process_of(target)->memory, address, out, size);
  return target->memory->read(target->memory, address, out, size);
}

/* A program that contains an interpreter may have any name; a library is named after it. */
static bool may_have(const interpreter_kind_t *kind, const target_t *target,
                     const module_t *module) {
  return strstr(module->path, kind->file) ||
         (target->exe && strcmp(module->path, target->exe) == 0);
}

static bool find(interpreter_t *self, target_t *target) {
  self->memory.read = read_target;
  self->target = target;
  for (size_t i = 0; i < target->modules.count; i++) {
    const module_t *module = &target->modules.items[i];
    if (!may_have(self->kind, target, module) || !target_module(target, module->start) ||
        module->state != MODULE_READY)
      continue;
    self->module = module;
    bool found = self->kind->find(self);
    modules_trim(module);
    if (found) return true;
  }
  return false;
}

interpreter_t *interpreter_open(target_t *target) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    interpreter_t *self = calloc(1, kinds[i]->size);
    if (!self) return NULL;
    self->kind = kinds[i];
    if (find(self, target)) return self;
    free(self);
  }
  return NULL;
}

void interpreter_close(interpreter_t *self) {
  if (!self) return;
  self->kind->close(self);
  interpreter_frames_free(&self->frames);
  free(self);
}

pid_t interpreter_inner_tid(const interpreter_t *self, pid_t tid) {
  pid_t inner = self->target->live ? process_inner_tid(process_of(self->target), tid) : tid;
  return inner > 0 ? inner : tid;
}

void interpreter_read(interpreter_t *self, pid_t tid, uint64_t sp, uint32_t depth) {
  interpreter_frames_clear(&self->frames);
  self->sp = sp;
  self->kind->read(self, interpreter_inner_tid(self, tid), depth);
}
