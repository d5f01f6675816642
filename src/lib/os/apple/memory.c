/* SPDX-License-Identifier: MIT
 *
 * Memory through Mach calls, which leave errno unchanged and take no lock of the program:
 * vm_allocate, vm_map, vm_read_overwrite, vm_protect (mach/vm_map.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <mach/mach.h>
#include <mach/vm_map.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "os/os.h"

void *os_map(size_t size) {
  vm_address_t address = 0;
  if (vm_allocate(mach_task_self(), &address, size, VM_FLAGS_ANYWHERE) != KERN_SUCCESS) return NULL;
  return (void *)address;
}

void *os_map_at(uint64_t address, size_t size) {
  vm_address_t at = (vm_address_t)address;
  bool mapped = vm_allocate(mach_task_self(), &at, size, VM_FLAGS_FIXED) == KERN_SUCCESS;
  return mapped ? (void *)at : NULL;
}

void os_unmap(void *address, size_t size) {
  (void)vm_deallocate(mach_task_self(), (vm_address_t)address, size);
}

/* Reads all bytes, or as many whole pages as are mapped. */
ssize_t os_read_memory(uint64_t address, void *out, size_t size) {
  size_t done = 0;
  vm_size_t got = 0;
  if (vm_read_overwrite(mach_task_self(), address, size, (vm_address_t)out, &got) == KERN_SUCCESS)
    return (ssize_t)got;
  while (done < size) {
    uint64_t at = address + done;
    size_t page = vm_page_size, part = page - at % page;
    if (part > size - done) part = size - done;
    if (vm_read_overwrite(mach_task_self(), at, part, (vm_address_t)out + done, &got) !=
        KERN_SUCCESS)
      break;
    done += part;
  }
  return done ? (ssize_t)done : -EFAULT;
}

bool os_readable(uint64_t address) {
  uint64_t word;
  return os_read_memory(address, &word, sizeof word) == sizeof word;
}

/* There is no list to open, but callers close the descriptor. */
int os_mappings_open(void) { return os_open_read("/dev/null"); }

int os_own_memory_open(void) { return -ENOSYS; }

/* PROT_READ, … of mmap(2) have the values of VM_PROT_READ, …. */
int os_mapping(int maps, uint64_t address, uint64_t *start, uint64_t *end) {
  (void)maps;
  vm_address_t at = address;
  vm_size_t size = 0;
  vm_region_basic_info_data_64_t info;
  mach_msg_type_number_t count = VM_REGION_BASIC_INFO_COUNT_64;
  mach_port_t object = MACH_PORT_NULL;
  if (vm_region_64(mach_task_self(), &at, &size, VM_REGION_BASIC_INFO_64, (vm_region_info_t)&info,
                   &count, &object) != KERN_SUCCESS ||
      at > address)
    return -ENOENT;
  *start = at;
  *end = at + size;
  return info.protection;
}

/* VM_PROT_COPY gives the task private copies of pages that it shares with a file or with the shared
 * cache, when they become writable. */
int os_protect(uint64_t start, uint64_t end, int protection) {
  vm_prot_t wanted = protection;
  if (protection & PROT_WRITE) wanted |= VM_PROT_COPY;
  kern_return_t result = vm_protect(mach_task_self(), start, end - start, false, wanted);
  return result == KERN_SUCCESS ? 0 : -EACCES;
}

int os_map_file(const char *path, const void **data, uint64_t *size) {
  struct stat st;
  int saved = errno, result = 0;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0 || fstat(fd, &st) != 0) {
    result = -errno;
  } else if (!S_ISREG(st.st_mode) || st.st_size <= 0) {
    result = -EINVAL;
  } else {
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED) {
      result = -errno;
    } else {
      *data = map;
      *size = (uint64_t)st.st_size;
    }
  }
  if (fd >= 0) close(fd);
  errno = saved;
  return result;
}
