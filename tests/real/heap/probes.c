/* SPDX-License-Identifier: MIT
 *
 * Attaches to the probes of one process as an eBPF profiler does: by uprobes with semaphores.
 * Prints the arguments of each hit. usage: probes PID FILE ALLOC-OFFSET SEMAPHORE FREE-OFFSET
 * SEMAPHORE; ends when its standard input does.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGES 4096u
#if defined(__x86_64__)
#define REGISTERS                                                                                  \
  (1u << 5 | 1u << 4 | 1u << 3) /* rdi, rsi, rdx; samples have them in ascending order */
#define FIRST  2
#define SECOND 1
#define THIRD  0
#else
#define REGISTERS 7u
#define FIRST     0
#define SECOND    1
#define THIRD     2
#endif

static int type_of_uprobes(void) {
  int type = -1;
  FILE *file = fopen("/sys/bus/event_source/devices/uprobe/type", "r");
  if (file && fscanf(file, "%d", &type) != 1) type = -1;
  return type;
}

static int attach(pid_t pid, const char *path, uint64_t offset, uint64_t semaphore) {
  struct perf_event_attr a = {.size = sizeof a,
                              .type = (uint32_t)type_of_uprobes(),
                              .config = semaphore << 32,
                              .sample_period = 1,
                              .sample_type = PERF_SAMPLE_REGS_USER,
                              .sample_regs_user = REGISTERS,
                              .exclude_kernel = 1,
                              .uprobe_path = (uint64_t)(uintptr_t)path,
                              .probe_offset = offset};
  return (int)syscall(SYS_perf_event_open, &a, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

typedef struct sample {
  struct perf_event_header header;
  uint64_t abi, registers[3];
} sample_t;

static void copy(const uint8_t *ring, uint64_t at, void *out, size_t size) {
  for (size_t i = 0; i < size; i++)
    ((uint8_t *)out)[i] = ring[(at + i) % (PAGES * 4096u)];
}

static void print_all(const char *name, struct perf_event_mmap_page *map) {
  const uint8_t *ring = (const uint8_t *)map + 4096;
  uint64_t head = __atomic_load_n(&map->data_head, __ATOMIC_ACQUIRE), at = map->data_tail;
  while (at < head) {
    sample_t s;
    copy(ring, at, &s.header, sizeof s.header);
    if (s.header.type == PERF_RECORD_SAMPLE && s.header.size >= sizeof s) {
      copy(ring, at, &s, sizeof s);
      printf("%s %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", name, s.registers[FIRST],
             s.registers[SECOND], s.registers[THIRD]);
    } else if (s.header.type == PERF_RECORD_LOST) {
      printf("lost\n");
    }
    at += s.header.size;
  }
}

int main(int count, char **arguments) {
  struct perf_event_mmap_page *maps[2];
  char byte;
  if (count != 7) return 2;
  pid_t pid = (pid_t)atoi(arguments[1]);
  for (int i = 0; i < 2; i++) {
    int fd = attach(pid, arguments[2], strtoull(arguments[3 + 2 * i], NULL, 10),
                    strtoull(arguments[4 + 2 * i], NULL, 10));
    if (fd < 0) return perror("perf_event_open"), 77;
    maps[i] = mmap(NULL, (PAGES + 1) * 4096u, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (maps[i] == MAP_FAILED) return perror("mmap"), 77;
  }
  printf("attached\n");
  fflush(stdout);
  while (read(0, &byte, 1) > 0) {
  }
  print_all("alloc", maps[0]);
  print_all("free", maps[1]);
  return 0;
}
