/* SPDX-License-Identifier: MIT
 *
 * The protection of mappings, and mappings at chosen addresses.
 *
 * Linux 6.11 reports the mapping of one address (PROCMAP_QUERY of /proc/self/maps). On older
 * kernels each query reads that file as text from its beginning.
 */
#include <errno.h>

#include "arch/arch.h"
#include "base/bits.h"
#include "os/linux/calls/call.h"
#include "os/linux/internal.h"
#include "os/os.h"

/* struct procmap_query and its ioctl, copied here because older versions of linux/fs.h lack them.
 */
typedef struct map_query {
  uint64_t size, flags, address;
  uint64_t start, end, vma_flags, page_size, offset, inode;
  uint32_t device_major, device_minor, name_size, build_id_size;
  uint64_t name, build_id;
} map_query_t;
#define MAP_QUERY 0xc0686611u /* _IOWR(0x66, 17, struct procmap_query), 104 bytes */
_Static_assert(sizeof(map_query_t) == 104, "as the kernel declares it");

/* A file read character by character. */
typedef struct text {
  int fd;
  uint64_t offset;
  ssize_t at, count;
  char piece[1024];
} text_t;

static int next(text_t *t) {
  if (t->at == t->count) {
    t->count = os_pread(t->fd, t->piece, sizeof t->piece, t->offset);
    t->at = 0;
    if (t->count <= 0) return t->count = 0, -1;
    t->offset += (uint64_t)t->count;
  }
  return (unsigned char)t->piece[t->at++];
}

static int next_hex(text_t *t, uint64_t *value) {
  for (*value = 0;;) {
    int c = next(t);
    if (c >= '0' && c <= '9')
      *value = *value << 4 | (unsigned)(c - '0');
    else if (c >= 'a' && c <= 'f')
      *value = *value << 4 | (unsigned)(c - 'a' + 10);
    else
      return c;
  }
}

static int mapping_by_text(int maps, uint64_t address, uint64_t *start, uint64_t *end) {
  text_t t = {.fd = maps};
  while (next_hex(&t, start) == '-' && next_hex(&t, end) == ' ' && *start <= address) {
    int protection = 0;
    for (int bit = 1; bit <= 4; bit <<= 1)
      if (next(&t) != '-') protection |= bit;
    if (address < *end) return protection;
    for (int c = next(&t); c != '\n';)
      if ((c = next(&t)) < 0) return -ENOENT;
  }
  return -ENOENT;
}

int os_mappings_open(void) { return os_open_read("/proc/self/maps"); }

int os_own_memory_open(void) { return os_open_high("/proc/self/mem"); }

int os_mapping(int maps, uint64_t address, uint64_t *start, uint64_t *end) {
  map_query_t query = {.size = sizeof query, .address = address};
  long r = call3(ioctl_map, maps, MAP_QUERY, &query);
  if (r == -ENOENT) return -ENOENT;
  if (r < 0) return mapping_by_text(maps, address, start, end);
  *start = query.start;
  *end = query.end;
  return (int)(query.vma_flags & 7); /* readable, writable, executable: as PROT_… */
}

int os_protect(uint64_t start, uint64_t end, int protection) {
  uint64_t size = end - start;
  if (protection == PROT_READ) return (int)call3(mprotect_read, start, size, protection);
  if (protection == RW) return (int)call3(mprotect_data, start, size, protection);
  return (int)call3(mprotect_code, start, size, protection);
}

#define NEAR_STEP  (UINT64_C(1) << 20)
#define NEAR_BYTES (UINT64_C(1) << 30)

void *os_map_at(uint64_t address, size_t size) {
  const int flags = 0x22 | 0x100000; /* PRIVATE | ANONYMOUS | FIXED_NOREPLACE */
  if (address < NEAR_STEP || (address + size) >> ARCH_ADDRESS_BITS) return NULL;
  long r = call6(mmap_at, address, size, 3, flags, -1, 0);
  if (r > 0 && (uint64_t)r == address) {
    linux_list_own(address, size);
    return (void *)(uintptr_t)r;
  }
  if (r > 0) (void)call2(munmap, r, size); /* an old kernel took the address as a hint */
  return NULL;
}

void *os_map_code(size_t size) {
  long r = call6(mmap_code, 0, size, PROT_READ | PROT_EXEC, 0x22, -1, 0);
  return r > 0 ? (void *)r : NULL;
}

void *os_map_near(uint64_t address, size_t size) {
  uint64_t below = ALIGN_DOWN(address, NEAR_STEP), above = below;
  for (uint64_t away = NEAR_STEP; away < NEAR_BYTES; away += NEAR_STEP) {
    void *at = os_map_at(below - away, size);
    if (!at) at = os_map_at(above + away, size);
    if (at) return at;
  }
  return NULL;
}

bool os_sync_code(void) {
  const int command = 1 << 5, enroll = 1 << 6; /* PRIVATE_EXPEDITED_SYNC_CORE */
  if (call1(membarrier, command) == 0) return true;
  return call1(membarrier, enroll) == 0 && call1(membarrier, command) == 0;
}
