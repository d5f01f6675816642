/* SPDX-License-Identifier: MIT
 *
 * Mapped memory, and reads of memory whose state is unknown.
 *
 * A guarded read is process_vm_readv on this process: the kernel copies the bytes and returns
 * EFAULT where a direct read would raise a signal. Some sandboxes refuse this call (EPERM from a
 * seccomp filter), and qemu's user mode does not implement it (ENOSYS). Then each page is probed by
 * a system call that only reads its argument, and copied directly. Another thread may unmap the
 * page between the probe and the copy. So this fallback is safe against bad addresses, but not
 * against a concurrent munmap. A second probe serves if a filter forbids the first.
 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "base/bits.h"
#include "os/linux/calls/call.h"
#include "os/linux/internal.h"
#include "os/os.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

/* The smallest page size of both CPUs: no mapping begins or ends inside such a page. */
#define PROBE_STEP 4096u

bool linux_read_by_probe;
bool linux_memory_is_trusted;

#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif

#define MAP_FLAGS (MAP_PRIVATE | MAP_ANONYMOUS)
#ifdef UNDER_TSAN
/* ThreadSanitizer must see these calls. Otherwise it reports a race between the old and the new
 * owner of an address. */
static void *map(size_t size) {
  int saved = errno;
  void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_FLAGS, -1, 0);
  errno = saved;
  return memory == MAP_FAILED ? NULL : memory;
}

static void unmap(void *address, size_t size) {
  int saved = errno;
  (void)munmap(address, size);
  errno = saved;
}
#else
static void *map(size_t size) {
  long r = call6(mmap, 0, size, RW, MAP_FLAGS, -1, 0);
  return r < 0 && r > -4096 ? NULL : (void *)r;
}

static void unmap(void *address, size_t size) { (void)call2(munmap, address, size); }
#endif

/* ---- the list of own mappings
 * ------------------------------------------------------------------------- */

/* An attached agent has to find all of its mappings at its end. */
#if defined(SONDE_ATTACHED)
#define OWN_MAPPINGS 32768u
#else
#define OWN_MAPPINGS 1024u
#endif

/* A writer takes a free entry by setting its start. The entry is valid once its end is not 0. */
static struct { uint64_t start, end; } own[OWN_MAPPINGS];
static uint32_t own_used;

void linux_list_own(uint64_t start, size_t size) {
  for (uint32_t i = 0; start && i < OWN_MAPPINGS; i++) {
    uint64_t none = 0;
    if (load_relaxed(&own[i].start) || !cas_acq_rel(&own[i].start, &none, start)) continue;
    store_release(&own[i].end, start + size);
    uint32_t used = load_relaxed(&own_used);
    while (used <= i && !cas_acq_rel(&own_used, &used, i + 1)) {
    }
    return;
  }
}

static void remove_from_list(uint64_t start) {
  uint32_t used = load_acquire(&own_used);
  for (uint32_t i = 0; i < used; i++)
    if (load_relaxed(&own[i].start) == start && load_relaxed(&own[i].end)) {
      store_relaxed(&own[i].end, (uint64_t)0);
      store_release(&own[i].start, (uint64_t)0);
      return;
    }
}

void os_own_mappings(void (*visit)(uint64_t start, uint64_t end, void *context), void *context) {
  uint32_t used = load_acquire(&own_used);
  for (uint32_t i = 0; i < used; i++) {
    uint64_t end = load_acquire(&own[i].end), start = load_relaxed(&own[i].start);
    if (start && end > start) visit(start, end, context);
  }
}

#if defined(SONDE_ATTACHED)
void linux_unmap_own(void) {
  for (uint32_t i = 0; i < own_used; i++)
    if (own[i].end) unmap((void *)(uintptr_t)own[i].start, own[i].end - own[i].start);
}
#endif

void *os_map(size_t size) {
  void *memory = map(size);
  linux_list_own((uint64_t)(uintptr_t)memory, size);
  return memory;
}

void os_unmap(void *address, size_t size) {
  remove_from_list((uint64_t)(uintptr_t)address);
  unmap(address, size);
}

void *os_map_over(void *place, void *at, size_t size) {
  const int flags = 3; /* MREMAP_MAYMOVE | MREMAP_FIXED */
  if (call5(mremap, at, size, size, flags, place) != (long)place) {
    os_unmap(at, size);
    return NULL;
  }
  remove_from_list((uint64_t)(uintptr_t)at);
  return place;
}

bool os_wipe_on_fork(void *address, size_t size) {
  return call3(madvise_wipe, address, size, MADV_WIPEONFORK) == 0;
}

/* A wait for a value that is not there returns at once; so does one whose time limit is 0. */
static bool readable_by_futex(uint64_t address) {
  const struct kernel_timespec no_time = {0, 0};
  long r = call4(futex_wait, ALIGN_DOWN(address, (uint64_t)4), 128, 0x736f6e64, &no_time);
  return r == -EAGAIN || r == -ETIMEDOUT;
}

/* rt_sigprocmask copies the new set before it checks HOW, which is invalid here. EFAULT means that
 * the 8 bytes cannot be read, EINVAL that they can. The mask stays unchanged in both cases. */
bool os_readable(uint64_t address) {
  if (address == 0) return false;
  long r = call4(sigprocmask_probe, -1, address, 0, 8);
  if (LIKELY(r != -EPERM)) return r == -EINVAL;
  return readable_by_futex(address) || linux_memory_is_trusted;
}

ssize_t linux_read_probed(uint64_t address, void *to, size_t size) {
  uint8_t *out = to;
  size_t done = 0;
  while (done < size) {
    uint64_t at = address + done;
    size_t in_page = PROBE_STEP - (size_t)(at % PROBE_STEP);
    size_t piece = size - done < in_page ? size - done : in_page;
    /* The probe reads 8 aligned bytes, which are all in this page. */
    if (at < address || !os_readable(ALIGN_DOWN(at, (uint64_t)8))) break;
    memcpy(out + done, (const void *)(uintptr_t)at, piece);
    done += piece;
  }
  return done == 0 && size != 0 ? -EFAULT : (ssize_t)done;
}

ssize_t os_read_memory(uint64_t address, void *out, size_t size) {
  if (LIKELY(!load_relaxed(&linux_read_by_probe))) {
    struct iovec local = {out, size};
    struct iovec remote = {(void *)(uintptr_t)address, size};
    long r = call6(process_vm_readv, call0(getpid), &local, 1, &remote, 1, 0);
    if (LIKELY(r >= 0 || r == -EFAULT)) return (ssize_t)r;
    /* Another error, such as ENOMEM, says nothing of the address. */
    if (r == -ENOSYS || r == -EPERM) store_relaxed(&linux_read_by_probe, true);
  }
  return linux_read_probed(address, out, size);
}

#define PIECES_AT_ONCE 32

/* Reads pieces with one system call, which ends at the first piece that is not wholly readable.
 * Returns the number of pieces whose result is known. */
static int read_pieces(pid_t self, os_piece_t *pieces, int count) {
  struct iovec local[PIECES_AT_ONCE], remote[PIECES_AT_ONCE];
  for (int i = 0; i < count; i++) {
    local[i] = (struct iovec){pieces[i].out, pieces[i].size};
    remote[i] = (struct iovec){(void *)(uintptr_t)pieces[i].address, pieces[i].size};
  }
  long left = call6(process_vm_readv, self, local, count, remote, count, 0);
  if (left < 0) {
    pieces[0].got =
        left == -EFAULT ? left : os_read_memory(pieces[0].address, pieces[0].out, pieces[0].size);
    return 1;
  }
  for (int i = 0; i < count; i++) {
    bool whole = (size_t)left >= pieces[i].size;
    pieces[i].got = whole ? (ssize_t)pieces[i].size : left > 0 ? left : -EFAULT;
    if (!whole) return i + 1;
    left -= (long)pieces[i].size;
  }
  return count;
}

void os_read_pieces(os_piece_t *pieces, int count) {
  pid_t self = os_pid();
  for (int done = 0; done < count;) {
    int some = count - done < PIECES_AT_ONCE ? count - done : PIECES_AT_ONCE;
    done += read_pieces(self, pieces + done, load_relaxed(&linux_read_by_probe) ? 1 : some);
  }
}
