/* SPDX-License-Identifier: MIT
 *
 * The image of a frame, for the program's unwinders (libgcc_s, libunwind).
 *
 * They find the unwind table of a pc by _dl_find_object (glibc 2.35 and later) or dl_iterate_phdr.
 * The loader does not know the agent. Without an answer for it, an exception or a thread's
 * cancellation that passes a frame of the agent would end the program, or skip destructors.
 */
#include "agent/agent.h"
#include "agent/attached/attached.h"
#include "os/linux/loader.h"
#include "os/os.h"

#define EXPORT __attribute__((visibility("default")))

/* struct dl_phdr_info of link.h. */
typedef struct phdr_info {
  uint64_t slide;
  const char *path;
  const Elf64_Phdr *phdr;
  uint16_t phdr_count;
  uint64_t adds, subs;
  uint64_t tls_module;
  void *tls_data;
} phdr_info_t;

typedef int visit_t(phdr_info_t *info, size_t size, void *context);

static struct {
  int (*find_object)(void *pc, found_object_t *out);
  int (*iterate)(visit_t *visit, void *context);
} real;

void unwinders_find_real(void) {
  static const char *const names[] = {"_dl_find_object", "dl_iterate_phdr"};
  _Static_assert(sizeof real == sizeof(uint64_t) * ARRAY_COUNT(names), "one name a function");
  agent_real(names, (uint64_t *)&real, ARRAY_COUNT(names));
}

static bool own_image(os_image_t *out) {
  return os_image_of_pc((uint64_t)(uintptr_t)&unwinders_find_real, out);
}

/* The address of the image's PT_GNU_EH_FRAME; 0: none. */
static uint64_t eh_frame_of(const os_image_t *image) {
  const Elf64_Phdr *phdr = (const Elf64_Phdr *)(uintptr_t)image->phdr;
  for (uint32_t i = 0; i < image->phdr_count; i++)
    if (phdr[i].p_type == PT_GNU_EH_FRAME) return phdr[i].p_vaddr + image->slide;
  return 0;
}

EXPORT int _dl_find_object(void *pc, found_object_t *out);

int _dl_find_object(void *pc, found_object_t *out) {
  os_image_t own;
  if (!own_image(&own) || (uint64_t)(uintptr_t)pc < own.start || (uint64_t)(uintptr_t)pc >= own.end)
    return real.find_object ? real.find_object(pc, out) : -1;
  *out = (found_object_t){.start = own.start, .end = own.end, .eh_frame = eh_frame_of(&own)};
  return 0;
}

/* The agent's image is visited last, with the counters of the others. */
typedef struct visiting {
  visit_t *visit;
  void *context;
  uint64_t adds, subs;
} visiting_t;

static int pass_on(phdr_info_t *info, size_t size, void *context) {
  visiting_t *v = context;
  if (size >= offsetof(phdr_info_t, tls_module)) {
    v->adds = info->adds;
    v->subs = info->subs;
  }
  return v->visit(info, size, v->context);
}

EXPORT int dl_iterate_phdr(visit_t *visit, void *context);

int dl_iterate_phdr(visit_t *visit, void *context) {
  visiting_t v = {.visit = visit, .context = context};
  os_image_t own;
  int result = real.iterate ? real.iterate(pass_on, &v) : 0;
  if (result != 0 || !own_image(&own)) return result;
  phdr_info_t info = {.slide = own.slide,
                      .path = own.path,
                      .phdr = (const Elf64_Phdr *)(uintptr_t)own.phdr,
                      .phdr_count = (uint16_t)own.phdr_count,
                      .adds = v.adds,
                      .subs = v.subs};
  return visit(&info, sizeof info, context);
}
