/* SPDX-License-Identifier: MIT
 *
 * Shared objects that are loaded into a running program without its loader. Checked beyond the
 * sanitizers: all that is mapped, relocated and called lies in the image, no segment is writable
 * and executable, and a refusal has a reason.
 */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "attach/object.h"
#include "file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds) {
  if (!holds) __builtin_trap();
}

static void check_object(const object_t *o, uint64_t page) {
  check(o->size > 0 && o->size % page == 0 && o->filled <= o->size);
  check(o->entry > 0 && o->entry < o->size);
  check(o->segment_count <= OBJECT_SEGMENTS_MAX);
  for (size_t i = 0; i < o->segment_count; i++) {
    const object_segment_t *s = &o->segments[i];
    check(s->start < s->end && s->end <= o->size && s->start % page == 0 && s->end % page == 0);
    check((s->protection & (PROT_WRITE | PROT_EXEC)) != (PROT_WRITE | PROT_EXEC));
  }
  check(o->init_start <= o->init_end && o->init_end <= o->size);
  check(o->build_id_size <= OBJECT_BUILD_ID_MAX && o->build_id_at <= o->size &&
        o->build_id_size <= o->size - o->build_id_at);
  check(o->relocation_count % 2 == 0);
  for (size_t i = 0; i < o->relocation_count; i += 2)
    check(o->relocations[i] <= o->size - 8);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char path[FUZZ_PATH_MAX];
  object_t object;
  problem_t problem = {{0}};
  fuzz_file(data, size, path);
  if (!object_open(&object, path, &problem)) {
    check(problem.text[0] != 0);
    return 0;
  }
  check_object(&object, (uint64_t)sysconf(_SC_PAGESIZE));
  object_relocate(&object, 0x7f0000000000u);
  object_close(&object);
  return 0;
}
