/* SPDX-License-Identifier: MIT
 *
 * Opens a live process and reads its memory.
 *
 * All data comes from /proc/PID and process_vm_readv, which neither stop the process nor signal or
 * change it. A mapped file is opened by its path if device and inode match the mapping; else
 * through /proc/PID/root (another mount namespace); else through /proc/PID/map_files (deleted,
 * replaced, memfd; needs CAP_CHECKPOINT_RESTORE); else its bytes are copied from the target's
 * memory.
 */
#define _GNU_SOURCE
#include "target/process.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "target/access.h"
#include "target/modules.h"
#include "target/interpreter/interpreter.h"
#include "target/jit/images.h"

#define MAPS_BYTES_MAX ((size_t)256 << 20)

void problem_set(problem_t *problem, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(problem->text, sizeof problem->text, format, list);
  va_end(list);
}

/* ---- memory ------------------------------------------------------------------------------- */

static size_t read_remote(process_memory_t *m, uint64_t address, void *out, size_t size) {
  if (!m->no_readv) {
    struct iovec local = {out, size}, remote = {(void *)(uintptr_t)address, size};
    ssize_t n = process_vm_readv(m->pid, &local, 1, &remote, 1, 0);
    if (n >= 0) return (size_t)n;
    if (errno != ENOSYS && errno != EPERM) return 0;
    m->no_readv = true;
  }
  if (m->mem_fd < 0) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", m->pid);
    m->mem_fd = open(path, O_RDONLY | O_CLOEXEC);
  }
  ssize_t n = m->mem_fd < 0 ? -1 : pread(m->mem_fd, out, size, (off_t)address);
  return n < 0 ? 0 : (size_t)n;
}

bool process_read(process_memory_t *m, uint64_t address, void *out, size_t size) {
  return read_remote(m, address, out, size) == size;
}

void process_window_load(process_memory_t *m, uint64_t address) {
  const mapping_t *mapping = maps_find(m->maps, address);
  uint64_t size = WINDOW_BYTES;
  if (mapping && mapping->end - address < size) size = mapping->end - address;
  m->start = address;
  m->size = read_remote(m, address, m->window, (size_t)size);
}

static bool in_window(const process_memory_t *m, uint64_t address, size_t size) {
  return address >= m->start && address - m->start < m->size &&
         size <= m->size - (address - m->start);
}

/* A walk reads outward: a read above the window, in the same mapping, moves the window there. */
static bool is_next(const process_memory_t *m, uint64_t address) {
  const mapping_t *mapping = maps_find(m->maps, address);
  return mapping && (mapping->access & MAP_WRITE) && m->size > 0 && address >= m->start &&
         mapping->start <= m->start + m->size;
}

/* Whether memory of MAPPING may have changed since the window was loaded. Generated code is
 * writable in many runtimes, but is rarely replaced in the moment between. A stack can be
 * executable, too. */
static bool may_change(const process_memory_t *m, const mapping_t *mapping) {
  if (!(mapping->access & MAP_WRITE)) return false;
  bool has_stack = m->start >= mapping->start && m->start < mapping->end;
  return has_stack || !(mapping->access & MAP_EXEC);
}

static bool memory_read(memory_t *self, uint64_t address, void *out, size_t size) {
  process_memory_t *m = (process_memory_t *)self;
  if (!in_window(m, address, size)) {
    const mapping_t *mapping = m->sealed ? maps_find(m->maps, address) : NULL;
    if (m->sealed && (!mapping || may_change(m, mapping))) {
      m->missed = mapping != NULL;
      return false;
    }
    if (!m->sealed && is_next(m, address)) process_window_load(m, address & ~(uint64_t)0xf);
    if (!in_window(m, address, size)) return read_remote(m, address, out, size) == size;
  }
  memcpy(out, m->window + (address - m->start), size);
  return true;
}

/* ---- files of the target ------------------------------------------------------------------ */

static bool is_mapped_file(const char *path, const mapping_t *m) {
  struct stat st;
  return stat(path, &st) == 0 && st.st_ino == m->inode && major(st.st_dev) == m->dev_major &&
         minor(st.st_dev) == m->dev_minor;
}

/* btrfs and overlayfs report different devices in stat and in the memory map. */
static bool is_mapped_file_somehow(const char *path, const mapping_t *m) {
  struct stat st;
  return stat(path, &st) == 0 && st.st_ino == m->inode;
}

static void locate(target_t *target, module_t *module) {
  const mapping_t *m = &target->maps.items[module->first_mapping];
  char path[4200];
  if (!m->deleted) {
    if (is_mapped_file(m->path, m)) {
      module->open_path = strdup(m->path);
      return;
    }
    int n = snprintf(path, sizeof path, "/proc/%d/root%s", target->reader, m->path);
    if (n < (int)sizeof path && is_mapped_file_somehow(path, m)) {
      module->open_path = strdup(path);
      return;
    }
  }
  snprintf(path, sizeof path, "/proc/%d/map_files/%llx-%llx", target->reader,
           (unsigned long long)m->start, (unsigned long long)m->end);
  if (access(path, R_OK) == 0) {
    module->open_path = strdup(path);
    return;
  }
  if (!modules_from_memory(target, module)) module->problem = "its file is gone";
}

/* ---- opening ------------------------------------------------------------------------------ */

static char *read_all(const char *path, size_t *size) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return NULL;
  size_t capacity = 1 << 16, used = 0;
  char *text = malloc(capacity);
  while (text && used < MAPS_BYTES_MAX) {
    if (capacity - used < 4097) {
      char *more = realloc(text, capacity *= 2);
      if (!more) break;
      text = more;
    }
    ssize_t n = read(fd, text + used, capacity - used - 1);
    if (n <= 0) break;
    used += (size_t)n;
  }
  close(fd);
  if (text) text[used] = 0;
  *size = used;
  return text;
}

bool process_read_maps(pid_t pid, pid_t reader, maps_t *maps, problem_t *problem) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/maps", reader);
  size_t size = 0;
  char *text = read_all(path, &size);
  if (!text) {
    access_explain(pid, errno, problem);
    return false;
  }
  if (!maps_parse(maps, text, size)) {
    problem_set(problem, "out of memory");
    return false;
  }
  if (maps->count > 0) return true;
  access_explain_empty(pid, problem);
  return false;
}

static char *read_exe(pid_t pid) {
  char path[64], exe[4096];
  snprintf(path, sizeof path, "/proc/%d/exe", pid);
  ssize_t n = readlink(path, exe, sizeof exe - 1);
  if (n <= 0) return NULL;
  exe[n] = 0;
  static const char suffix[] = " (deleted)";
  if ((size_t)n > sizeof suffix - 1 && strcmp(exe + n - (sizeof suffix - 1), suffix) == 0)
    exe[(size_t)n - (sizeof suffix - 1)] = 0;
  return strdup(exe);
}

/* Refuses a 32-bit program and one of another CPU (qemu-user). */
static bool check_machine(const target_t *target, problem_t *problem) {
  char path[64];
  unsigned char ident[20] = {0};
  snprintf(path, sizeof path, "/proc/%d/exe", target->reader);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return true; /* not a reason to refuse it */
  ssize_t n = read(fd, ident, sizeof ident);
  close(fd);
  if (n < (ssize_t)sizeof ident || ident[EI_CLASS] != ELFCLASS32) return true;
  problem_set(problem,
              "process %d is a 32-bit program, which `sonde stacks` does not read; use gdb -p %d",
              target->pid, target->pid);
  return false;
}

static void process_close(target_t *target) {
  process_t *process = process_of(target);
  if (!process) return;
  if (process->task >= 0) close(process->task);
  if (process->memory.mem_fd >= 0) close(process->memory.mem_fd);
  free(process->memory.window);
  free(process);
}

static bool is_nested(pid_t pid) {
  struct stat ours, theirs;
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/ns/pid", pid);
  return stat("/proc/self/ns/pid", &ours) == 0 && stat(path, &theirs) == 0 &&
         ours.st_ino != theirs.st_ino;
}

void process_unread(pid_t pid, problem_t *problem) {
  char path[64], byte;
  snprintf(path, sizeof path, "/proc/%d/exe", pid);
  if (readlink(path, &byte, 1) > 0) /* a process that has ended has none */
    problem_set(problem, "out of memory");
  else
    problem_set(problem, "process %d ended while it was read", pid);
}

static bool process_open(target_t *target) {
  process_t *process = calloc(1, sizeof *process);
  if (!process) return false;
  target->own = process;
  process->memory.memory.read = memory_read;
  process->memory.pid = target->reader;
  process->memory.mem_fd = -1;
  process->memory.maps = &target->maps;
  process->memory.window = malloc(WINDOW_BYTES);
  process->nested = is_nested(target->pid);
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/task", target->pid);
  process->task = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  target->memory = &process->memory.memory;
  return process->memory.window && process->task >= 0;
}

static const image_t *find_generated(target_t *target, uint64_t pc) {
  const mapping_t *m = maps_find(&target->maps, pc);
  if (!m || !(m->access & MAP_EXEC)) return NULL;
  if (!target->generated_tried) {
    target->generated_tried = true; /* first: opening looks for images, too */
    target->generated = jit_images_open(target);
  }
  return target->generated ? jit_images_find(target->generated, pc) : NULL;
}

static const image_t *find_image(images_t *self, uint64_t pc) {
  target_t *target = (target_t *)self;
  module_t *module = target_module(target, pc);
  if (!module) return find_generated(target, pc);
  return module->state == MODULE_READY ? &module->image : NULL;
}

target_t *target_new(void) {
  target_t *target = calloc(1, sizeof *target);
  if (target) target->images.find = find_image;
  return target;
}

target_t *target_open_process(pid_t pid, problem_t *problem) {
  target_t *target = target_new();
  if (!target) {
    problem_set(problem, "out of memory");
    return NULL;
  }
  target->pid = pid;
  target->live = true;
  target->close = process_close;
  target->locate = locate;
#if defined(__aarch64__)
  target->machine = MACHINE_AARCH64;
#else
  target->machine = MACHINE_X86_64;
#endif
  if (!access_check(pid, &target->reader, problem) || !check_machine(target, problem) ||
      !process_read_maps(pid, target->reader, &target->maps, problem)) {
    target_close(target);
    return NULL;
  }
  target->exe = read_exe(target->reader);
  if (!process_open(target) || !modules_build(target)) {
    process_unread(pid, problem);
    target_close(target);
    return NULL;
  }
  return target;
}

void target_forget_threads(target_t *target) {
  for (size_t i = 0; i < target->thread_count; i++) {
    free(target->threads[i].frames);
    free(target->threads[i].wait.path);
  }
  free(target->threads);
  target->threads = NULL;
  target->thread_count = 0;
}

void target_close(target_t *target) {
  if (!target) return;
  target_forget_threads(target);
  interpreter_close(target->interpreter);
  jit_images_close(target->generated);
  modules_free(target);
  if (target->close) target->close(target);
  maps_free(&target->maps);
  free(target->exe);
  free(target);
}
