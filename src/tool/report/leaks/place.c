/* SPDX-License-Identifier: MIT
 *
 * Describes the place of a pointer: a register, a stack, thread-local storage, data or a mapping.
 */
#include <inttypes.h>
#include <string.h>

#include "report/leaks/leaks.h"

#define PTHREAD_BYTES 4096u /* the thread descriptor of the C library, beside the storage */

const char *leaks_holder_name(leaks_holder_t holder) {
  static const char *const words[] = {
      [LEAKS_BY_NOTHING] = "nothing", [LEAKS_BY_REGISTER] = "register",
      [LEAKS_BY_STACK] = "stack",     [LEAKS_BY_TLS] = "thread-local",
      [LEAKS_BY_DATA] = "data",       [LEAKS_BY_MAPPING] = "mapping",
      [LEAKS_BY_BLOCK] = "block"};
  return (unsigned)holder < LEAKS_HOLDERS ? words[holder] : "";
}

/* DWARF numbers: psABI figure 3.36; aadwarf64 table 4.1. */
static void name_register(uint32_t number, char *out, size_t size) {
#if defined(__x86_64__)
  static const char *const names[] = {"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8",
                                      "r9",  "r10", "r11", "r12", "r13", "r14", "r15", "rip"};
  if (number < sizeof names / sizeof *names) {
    snprintf(out, size, "%s", names[number]);
    return;
  }
#endif
  if (number == LEAKS_SP || number == 31)
    snprintf(out, size, "the stack pointer");
  else if (number == 32)
    snprintf(out, size, "pc");
  else
    snprintf(out, size, "x%" PRIu32, number);
}

static void set_thread(const report_t *r, const leaks_t *l, uint32_t index, leaks_place_t *out) {
  size_t count;
  const record_thread_t *threads = reader_threads(r->reader, &count);
  if (index >= l->exchange->thread_count || index >= LEAKS_THREADS) return;
  out->tid = l->exchange->threads[index].tid;
  for (size_t i = 0; i < count; i++)
    if (threads[i].tid == out->tid && threads[i].name) out->thread = threads[i].name;
}

/* Thread-local storage lies below the thread pointer on x86_64 and above it on aarch64; the C
 * library's own block on the other side (Drepper, ELF Handling For Thread-Local Storage, 3). */
static bool in_tls(const leaks_t *l, uint64_t address, uint32_t *index) {
  const leaks_exchange_t *x = l->exchange;
  for (uint32_t i = 0; i < x->thread_count && i < LEAKS_THREADS; i++) {
    uint64_t pointer = x->threads[i].pointer;
    *index = i;
    if (pointer && address >= pointer - (address < pointer ? x->tls_bytes : 0) &&
        address < pointer + PTHREAD_BYTES)
      return true;
  }
  return false;
}

/* "libfoo.so+0x4010", or the mapping's bounds. */
static void name_mapping(pid_t pid, uint64_t address, char *out, size_t size) {
  char path[40], line[4352], image[256] = "";
  uint64_t base = 0, image_end = 0;
  snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
  snprintf(out, size, "0x%" PRIx64, address);
  FILE *maps = fopen(path, "re");
  while (maps && fgets(line, sizeof line, maps)) {
    uint64_t start, end, offset, inode;
    int name = 0;
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %*s %" SCNu64 " %n", &start, &end,
               &offset, &inode, &name) < 4)
      continue;
    line[strcspn(line, "\n")] = 0;
    const char *slash = strrchr(line + name, '/');
    if (inode && offset == 0) {
      base = start;
      snprintf(image, sizeof image, "%s", slash ? slash + 1 : line + name);
    }
    bool of_image = inode || (!line[name] && start == image_end); /* .bss has no file */
    if (of_image) image_end = end;
    if (address < start || address >= end) continue;
    if (of_image)
      snprintf(out, size, "%s+0x%" PRIx64, image, address - base);
    else
      snprintf(out, size, "0x%" PRIx64 " of 0x%" PRIx64 "-0x%" PRIx64 "%s%s", address, start, end,
               line[name] ? " " : "", line + name);
    break;
  }
  if (maps) fclose(maps);
}

void leaks_place(const report_t *r, const leaks_t *l, pid_t pid, const leaks_referrer_t *referrer,
                 leaks_place_t *out) {
  const leaks_exchange_t *x = l->exchange;
  uint32_t index = referrer->index;
  *out = (leaks_place_t){.holder = (leaks_holder_t)referrer->holder, .thread = ""};
  if (out->holder != LEAKS_BY_REGISTER && out->holder != LEAKS_BY_BLOCK)
    if (in_tls(l, referrer->where, &index)) out->holder = LEAKS_BY_TLS;
  switch (out->holder) {
  case LEAKS_BY_REGISTER:
    set_thread(r, l, (uint32_t)(referrer->where >> 8), out);
    name_register((uint32_t)(referrer->where & 255), out->where, sizeof out->where);
    break;
  case LEAKS_BY_TLS:
    set_thread(r, l, index, out);
    snprintf(out->where, sizeof out->where, "0x%" PRIx64, referrer->where);
    break;
  case LEAKS_BY_STACK:
    set_thread(r, l, index, out);
    if (index < LEAKS_THREADS && referrer->where >= x->threads[index].sp)
      snprintf(out->where, sizeof out->where, "%" PRIu64 " bytes above its stack pointer",
               referrer->where - x->threads[index].sp);
    else
      snprintf(out->where, sizeof out->where, "saved below its stack pointer");
    break;
  case LEAKS_BY_BLOCK: {
    const leaks_block_t *b = leaks_find(l, referrer->where);
    snprintf(out->where, sizeof out->where, "0x%" PRIx64 " + %" PRIu64,
             b ? b->address : referrer->where, b ? referrer->where - b->address : 0);
    break;
  }
  default: name_mapping(pid, referrer->where, out->where, sizeof out->where);
  }
}
