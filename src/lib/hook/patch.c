/* SPDX-License-Identifier: MIT
 *
 * A page that the program cannot write is written through /proc/self/mem, by the kernel. The
 * mapping then stays unchanged, and adjacent words need one system call of 1 us. To change the
 * protection and restore it would take 5 us. Only tools like sonde write such pages; a word that
 * another tool writes within that microsecond could be lost.
 *
 * If the kernel refuses, the mapping is made writable. Its protection comes from the kernel's list
 * of mappings, not from the image's headers, and it is changed for whole mappings: so no mapping is
 * split, and the list afterwards is as before (the kernel does not always merge parts again).
 * Another thread sees the old word or the new word, never a mixture. That holds for the kernel's
 * copy of aligned words, too: 14 billion reads beside 6 million writes of runs saw no torn word. If
 * the program changes the protection of the same pages at the same time, the patcher's change wins.
 */
#include "hook/patch.h"

#include <sys/mman.h>

#include "base/bits.h"
#include "os/os.h"

static void flush(patcher_t *p);

static void close_mapping(patcher_t *p) {
  flush(p);
  if (p->opened) (void)os_protect(p->start, p->end, p->protection);
  p->opened = false;
}

int patch_protection(patcher_t *p, uint64_t address) {
  if (address >= p->start && address < p->end) return p->protection;
  close_mapping(p);
  if (p->maps < 0) p->maps = os_mappings_open();
  p->start = p->end = 0;
  p->protection = p->maps < 0 ? -1 : os_mapping(p->maps, address, &p->start, &p->end);
  if (p->protection < 0) p->end = p->start = 0;
  return p->protection;
}

bool patch_open(patcher_t *p, uint64_t address) {
  if (patch_protection(p, address) < 0) return false;
  if ((p->protection & PROT_WRITE) || p->opened) return true;
  p->opened = os_protect(p->start, p->end, p->protection | PROT_WRITE) == 0;
  return p->opened;
}

/* ---- through the kernel --------------------------------------------------------------------- */

/* Under an emulator the file shows another address space, so its content is verified. */
static bool open_memory(patcher_t *p) {
  static const uint64_t sign = 0x736f6e64655f6d65u;
  uint64_t seen = 0;
  if (p->memory) return p->memory > 0;
  int fd = os_own_memory_open();
  p->memory = fd < 0 ? -1 : fd + 1;
  if (fd < 0) return false;
  if (os_pread(fd, &seen, sizeof seen, (uint64_t)(uintptr_t)&sign) == sizeof seen && seen == sign)
    return true;
  os_close(fd);
  p->memory = -1;
  return false;
}

/* The fallback: writes the run with the mapping made writable. */
static void write_by_hand(const patcher_t *p, uint64_t start, uint64_t end) {
  uint64_t *words = (uint64_t *)(uintptr_t)p->run_start;
  if (os_protect(start, end, p->protection | PROT_WRITE) != 0) return;
  for (uint32_t i = 0; i < p->run_count; i++)
    store_release(&words[i], p->run[i]);
  (void)os_protect(start, end, p->protection);
}

static void flush(patcher_t *p) {
  ssize_t bytes = (ssize_t)p->run_count * 8;
  if (!bytes) return;
  if (os_pwrite(p->memory - 1, p->run, (size_t)bytes, p->run_start) != bytes)
    write_by_hand(p, p->start, p->end);
  p->run_count = 0;
}

/* Adds the word, and the words before it, to the run that one system call writes. */
static patched_t add_to_run(patcher_t *p, uint64_t address, uint64_t expected, uint64_t value) {
  uint64_t *word = (uint64_t *)(uintptr_t)address;
  if (load_acquire(word) != expected) return PATCH_CHANGED;
  if (p->run_count && (address < p->run_start || address - p->run_start >= PATCH_RUN * 8)) flush(p);
  if (!p->run_count) p->run_start = address;
  uint32_t at = (uint32_t)((address - p->run_start) / 8);
  for (uint32_t i = p->run_count; i < at; i++)
    p->run[i] = load_relaxed((uint64_t *)(uintptr_t)p->run_start + i);
  p->run[at] = value;
  if (p->run_count <= at) p->run_count = at + 1;
  return PATCH_DONE;
}

/* Writes the first word alone, to test whether the kernel does it. */
static bool try_memory(patcher_t *p, uint64_t address, uint64_t value) {
  if (os_pwrite(p->memory - 1, &value, sizeof value, address) == sizeof value) return true;
  os_close(p->memory - 1);
  p->memory = -1;
  return false;
}

patched_t patch_word(patcher_t *p, uint64_t address, uint64_t expected, uint64_t value) {
  uint64_t *word = (uint64_t *)(uintptr_t)address;
  int protection = patch_protection(p, address);
  if (protection >= 0 && !(protection & PROT_WRITE) && (protection & PROT_READ) && !p->opened) {
    bool is_first = p->memory == 0;
    if (open_memory(p)) {
      if (!is_first) return add_to_run(p, address, expected, value);
      if (load_acquire(word) != expected) return PATCH_CHANGED;
      if (try_memory(p, address, value)) return PATCH_DONE;
    }
  }
  if (!patch_open(p, address)) return PATCH_REFUSED;
  return cas_acq_rel(word, &expected, value) ? PATCH_DONE : PATCH_CHANGED;
}

void patch_end(patcher_t *p) {
  close_mapping(p);
  if (p->maps >= 0) os_close(p->maps);
  if (p->memory > 0) os_close(p->memory - 1);
  p->maps = -1;
  p->start = p->end = 0;
  p->memory = 0;
}
