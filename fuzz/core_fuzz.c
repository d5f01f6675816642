/* SPDX-License-Identifier: MIT
 *
 * Arbitrary core files: parses them, lists their modules and walks their stacks. Mapped files are
 * not opened, because files of this machine are not part of the input.
 */
#include <stdlib.h>
#include <string.h>

#include "target/core.h"
#include "target/modules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool read_held(memory_t *self, uint64_t address, void *out, size_t size) {
  return core_read_held((core_t *)self, address, out, size);
}

static void from_memory(target_t *target, module_t *module) {
  if (module->end - module->start < (1 << 20)) modules_from_memory(target, module);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  target_t *target = target_new();
  core_t core = {.memory.read = read_held};
  problem_t problem = {{0}};
  if (!target) return 0;
  target->memory = &core.memory;
  target->locate = from_memory;
  core.target = target;
  if (core_parse(target, &core, data, size, &problem) && modules_build(target)) {
    stacks_options_t options = {.depth = 64};
    if (target->thread_count > 8) target->thread_count = 8;
    stacks_capture(target, &options, &problem);
  }
  core_free(&core);
  target_close(target);
  return 0;
}
