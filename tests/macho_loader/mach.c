/* SPDX-License-Identifier: MIT
 *
 * The Mach kernel's calls about tasks, threads and memory, answered by the Linux process itself.
 * Arguments that the real calls refuse are refused; what would be a mistake without notice there (a
 * count that is too small, a thread that is read while it runs) ends the process here.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "loader.h"

#define TASK 0x203u
static uint32_t mac_task_self = TASK;

#if defined(__aarch64__)
#define VM_PAGE 16384ull
#else
#define VM_PAGE 4096ull
#endif
static uint64_t mac_page_size = VM_PAGE;

static void check_task(uint32_t task) {
  if (task != TASK) die("%#x is not the task", task);
}

/* ---- threads -------------------------------------------------------------------------------- */

static int mac_task_threads(uint32_t task, uint32_t **list, uint32_t *count) {
  check_task(task);
  uint32_t *ports = mmap(NULL, THREADS_MAX * sizeof *ports, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (ports == MAP_FAILED) return FACT_KERN_NO_SPACE;
  uint32_t n = 0;
  sigset_t before = threads_lock(); /* the right to a thread is there before the thread can go */
  for (int i = 0; i < THREADS_MAX; i++) {
    if (!threads[i].is_used || !threads[i].tid) continue;
    __atomic_fetch_add(&threads[i].rights, 1, __ATOMIC_RELAXED);
    ports[n++] = threads[i].port;
  }
  threads_unlock(&before);
  *list = ports;
  *count = n;
  return FACT_KERN_SUCCESS;
}

static mac_thread_t *alive(uint32_t port) {
  mac_thread_t *thread = thread_of_port(port);
  return thread && thread->tid ? thread : NULL;
}

static int mac_mach_port_deallocate(uint32_t task, uint32_t port) {
  check_task(task);
  mac_thread_t *thread = thread_of_port(port);
  if (!thread || thread->rights <= 0) die("a right to port %#x is given back twice", port);
  __atomic_fetch_sub(&thread->rights, 1, __ATOMIC_RELEASE);
  return FACT_KERN_SUCCESS;
}

static int mac_mach_port_mod_refs(uint32_t task, uint32_t port, uint32_t right, int delta) {
  check_task(task);
  mac_thread_t *thread = thread_of_port(port);
  if (!thread || right != FACT_MACH_PORT_RIGHT_SEND) return FACT_KERN_INVALID_NAME;
  __atomic_fetch_add(&thread->rights, delta, __ATOMIC_RELAXED);
  return FACT_KERN_SUCCESS;
}

static int mac_thread_suspend(uint32_t port) {
  mac_thread_t *thread = alive(port);
  return thread && thread_stop(thread) ? FACT_KERN_SUCCESS : FACT_KERN_INVALID_ARGUMENT;
}

static int mac_thread_resume(uint32_t port) {
  mac_thread_t *thread = alive(port);
  if (!thread) return FACT_KERN_INVALID_ARGUMENT;
  thread_go_on(thread);
  return FACT_KERN_SUCCESS;
}

static void put(void *to, uint64_t offset, uint64_t value) {
  memcpy((uint8_t *)to + offset, &value, 8);
}

/* A thread that waits for a lock (kernel.S) has the registers of macOS's call: behind the
 * instruction, with number and arguments. The host's are those of a futex, and at the instruction
 * again when a signal has interrupted it. */
static void fill_call(void *state, const ucontext_t *context) {
  uint64_t at = (uint64_t)stand_in("_mac_lock_call");
#if defined(__aarch64__)
  const mcontext_t *m = &context->uc_mcontext;
  if (m->pc != at && m->pc != at + 4) return;
  bool is_ulock = m->regs[16] == 515;
  put(state, FACT_state_x, m->regs[9]);
  put(state, FACT_state_x + 8, is_ulock ? m->regs[0] : m->regs[2]);
  put(state, FACT_state_pc, at + 4);
#else
  const greg_t *g = context->uc_mcontext.gregs;
  uint64_t pc = (uint64_t)g[REG_RIP];
  if (pc != at && pc != at + 2) return;
  bool is_ulock = g[REG_R8] == 515;
  put(state, FACT_state_rax, 0x2000000u | (uint64_t)g[REG_R8]);
  put(state, FACT_state_rdi, (uint64_t)g[REG_R9]);
  put(state, FACT_state_rsi, (uint64_t)(is_ulock ? g[REG_RDI] : g[REG_RDX]));
  put(state, FACT_state_rip, at + 2);
#endif
}

void mac_fill_state(void *state, const void *host) {
  const ucontext_t *context = host;
#if defined(__aarch64__)
  const mcontext_t *m = &context->uc_mcontext;
  for (unsigned i = 0; i < 29; i++)
    put(state, FACT_state_x + 8 * i, m->regs[i]);
  put(state, FACT_state_fp, m->regs[29]);
  put(state, FACT_state_lr, m->regs[30]);
  put(state, FACT_state_sp, m->sp);
  put(state, FACT_state_pc, m->pc);
#else
  const greg_t *g = context->uc_mcontext.gregs;
  put(state, FACT_state_rax, (uint64_t)g[REG_RAX]);
  put(state, FACT_state_rbx, (uint64_t)g[REG_RBX]);
  put(state, FACT_state_rcx, (uint64_t)g[REG_RCX]);
  put(state, FACT_state_rdx, (uint64_t)g[REG_RDX]);
  put(state, FACT_state_rdi, (uint64_t)g[REG_RDI]);
  put(state, FACT_state_rsi, (uint64_t)g[REG_RSI]);
  put(state, FACT_state_rbp, (uint64_t)g[REG_RBP]);
  put(state, FACT_state_rsp, (uint64_t)g[REG_RSP]);
  for (unsigned i = 0; i < 8; i++)
    put(state, FACT_state_r8 + 8 * i, (uint64_t)g[REG_R8 + i]);
  put(state, FACT_state_rip, (uint64_t)g[REG_RIP]);
#endif
  fill_call(state, context);
}

static int mac_thread_get_state(uint32_t port, int flavor, void *state, uint32_t *count) {
  mac_thread_t *thread = alive(port);
  if (!thread || flavor != (int)FACT_state_flavor) return FACT_KERN_INVALID_ARGUMENT;
  if (*count < FACT_state_count) die("thread_get_state with room for %u words", *count);
  if (!thread->context) die("thread_get_state of a thread that runs");
  memset(state, 0, FACT_state_count * 4);
  mac_fill_state(state, thread->context);
  *count = FACT_state_count;
  return FACT_KERN_SUCCESS;
}

/* CPU time: the clock of the thread (clock_getcpuclockid(3)'s numbers, of a thread). False when it
 * ends meanwhile. */
static bool cpu_ns(int tid, uint64_t *ns) {
  struct timespec used;
  if (!tid || clock_gettime((clockid_t)(~(uint32_t)tid << 3 | 6), &used) != 0) return false;
  *ns = (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
  return true;
}

/* Sleeping or not, as the host's kernel sees it. */
static int run_state(const mac_thread_t *thread) {
  char path[64], text[256] = "";
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread->tid);
  FILE *file = fopen(path, "re");
  if (!file) return FACT_TH_STATE_WAITING;
  if (!fgets(text, sizeof text, file)) text[0] = 0;
  fclose(file);
  const char *after = strrchr(text, ')');
  return after && after[1] && after[2] == 'R' ? FACT_TH_STATE_RUNNING : FACT_TH_STATE_WAITING;
}

static int mac_thread_info(uint32_t port, uint32_t flavor, void *out, uint32_t *count) {
  mac_thread_t *thread = alive(port);
  if (!thread) return FACT_KERN_INVALID_ARGUMENT;
  if (flavor == FACT_THREAD_IDENTIFIER_INFO) {
    if (*count < FACT_THREAD_IDENTIFIER_INFO_COUNT) return FACT_KERN_INVALID_ARGUMENT;
    memset(out, 0, FACT_sizeof_identifier);
    put(out, FACT_identifier_thread_id, (uint64_t)thread->tid);
    put(out, FACT_identifier_thread_handle, (uint64_t)thread->data);
  } else if (flavor == FACT_THREAD_EXTENDED_INFO) {
    if (*count < FACT_THREAD_EXTENDED_INFO_COUNT) return FACT_KERN_INVALID_ARGUMENT;
    memset(out, 0, FACT_sizeof_extended);
    int state = run_state(thread);
    memcpy((uint8_t *)out + FACT_extended_run_state, &state, sizeof state);
    uint64_t used;
    if (!cpu_ns(thread->tid, &used)) return FACT_KERN_INVALID_ARGUMENT;
    memcpy((uint8_t *)out + FACT_extended_user_time, &used, sizeof used);
    strcpy((char *)out + FACT_extended_name, thread->name);
  } else {
    die("thread_info of flavor %u", flavor);
  }
  return FACT_KERN_SUCCESS;
}

static int mac_thread_switch(uint32_t port, int option, uint32_t ms) {
  (void)port, (void)option;
  struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};
  nanosleep(&time, NULL);
  return FACT_KERN_SUCCESS;
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Fails where something is mapped already, as without VM_FLAGS_OVERWRITE. */
static int allocate_at(uint64_t address, uint64_t size) {
  void *at = mmap((void *)address, size, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  return at == MAP_FAILED ? FACT_KERN_NO_SPACE : FACT_KERN_SUCCESS;
}

static int mac_vm_allocate(uint32_t task, uint64_t *address, uint64_t size, int flags) {
  check_task(task);
  size = (size + VM_PAGE - 1) & ~(VM_PAGE - 1);
  if (!(flags & (int)FACT_VM_FLAGS_ANYWHERE)) {
    *address &= ~(VM_PAGE - 1);
    return allocate_at(*address, size);
  }
  uint8_t *room =
      mmap(NULL, size + VM_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return FACT_KERN_NO_SPACE;
  uint64_t start = ((uint64_t)room + VM_PAGE - 1) & ~(VM_PAGE - 1);
  mprotect((void *)start, size, PROT_READ | PROT_WRITE);
  *address = start;
  return FACT_KERN_SUCCESS;
}

static int mac_vm_deallocate(uint32_t task, uint64_t address, uint64_t size) {
  check_task(task);
  return munmap((void *)address, size) == 0 ? FACT_KERN_SUCCESS : FACT_KERN_INVALID_ADDRESS;
}

static int mac_vm_inherit(uint32_t task, uint64_t address, uint64_t size, uint32_t how) {
  check_task(task);
  if (how != FACT_VM_INHERIT_NONE) die("vm_inherit %u", how);
  return madvise((void *)address, size, MADV_DONTFORK) == 0 ? FACT_KERN_SUCCESS
                                                            : FACT_KERN_INVALID_ADDRESS;
}

/* By whole pages of macOS; the protection of read-only data has to be asked for with VM_PROT_COPY,
 * as there. */
static int mac_vm_protect(uint32_t task, uint64_t address, uint64_t size, int maximum,
                          int protection) {
  check_task(task);
  if (maximum) die("vm_protect of the maximum");
  if ((protection & PROT_WRITE) && !(protection & (int)FACT_VM_PROT_COPY)) {
    const mac_image_t *image = image_holding(address);
    if (image) die("a page of %s is made writable without VM_PROT_COPY", image->path);
  }
  uint64_t start = address & ~(VM_PAGE - 1);
  uint64_t end = (address + size + VM_PAGE - 1) & ~(VM_PAGE - 1);
  protection &= PROT_READ | PROT_WRITE | PROT_EXEC;
  return mprotect((void *)start, end - start, protection) == 0 ? FACT_KERN_SUCCESS
                                                               : FACT_KERN_INVALID_ADDRESS;
}

/* Where process_vm_readv is not to be had (qemu): through a pipe, which says EFAULT. */
static bool read_by_pipe(uint64_t from, void *to, uint64_t size) {
  static __thread int ends[2];
  if (!ends[1] && pipe(ends) != 0) die("pipe: %s", strerror(errno));
  for (uint64_t done = 0; done < size;) {
    uint64_t part = size - done < 4096 ? size - done : 4096;
    ssize_t in = write(ends[1], (const void *)(from + done), part);
    if (in <= 0) return false;
    if (read(ends[0], (uint8_t *)to + done, (size_t)in) != in) die("a pipe lost bytes");
    done += (uint64_t)in;
  }
  return true;
}

/* All or nothing. */
static int mac_vm_read_overwrite(uint32_t task, uint64_t from, uint64_t size, uint64_t to,
                                 uint64_t *got) {
  check_task(task);
  struct iovec here = {(void *)to, size}, there = {(void *)from, size};
  int saved = errno;
  ssize_t count = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
  bool done = count == (ssize_t)size;
  if (count < 0 && errno == ENOSYS) done = read_by_pipe(from, (void *)to, size);
  errno = saved;
  if (!done) return FACT_KERN_INVALID_ADDRESS;
  *got = size;
  return FACT_KERN_SUCCESS;
}

/* The region at or behind *ADDRESS. */
static int mac_vm_region_64(uint32_t task, uint64_t *address, uint64_t *size, int flavor,
                            void *info, uint32_t *count, uint32_t *object) {
  check_task(task);
  if (flavor != (int)FACT_VM_REGION_BASIC_INFO_64) return FACT_KERN_INVALID_ARGUMENT;
  if (*count < FACT_VM_REGION_BASIC_INFO_COUNT_64) return FACT_KERN_INVALID_ARGUMENT;
  FILE *maps = fopen("/proc/self/maps", "re");
  char line[512], rights[8];
  unsigned long start, end;
  int result = FACT_KERN_INVALID_ADDRESS;
  while (maps && result && fgets(line, sizeof line, maps)) {
    if (sscanf(line, "%lx-%lx %7s", &start, &end, rights) != 3 || end <= *address) continue;
    int protection = (rights[0] == 'r') | (rights[1] == 'w') << 1 | (rights[2] == 'x') << 2;
    memset(info, 0, FACT_sizeof_region);
    memcpy((uint8_t *)info + FACT_region_protection, &protection, sizeof protection);
    *address = start;
    *size = end - start;
    *object = 0;
    result = FACT_KERN_SUCCESS;
  }
  if (maps) fclose(maps);
  return result;
}

const stand_in_t mach_stand_ins[] = {
    {"_mach_task_self_", &mac_task_self},
    {"_vm_page_size", &mac_page_size},
    {"_task_threads", mac_task_threads},
    {"_mach_port_deallocate", mac_mach_port_deallocate},
    {"_mach_port_mod_refs", mac_mach_port_mod_refs},
    {"_thread_suspend", mac_thread_suspend},
    {"_thread_resume", mac_thread_resume},
    {"_thread_get_state", mac_thread_get_state},
    {"_thread_info", mac_thread_info},
    {"_thread_switch", mac_thread_switch},
    {"_mac_host_vm_allocate", mac_vm_allocate},
    {"_mac_host_vm_deallocate", mac_vm_deallocate},
    {"_vm_inherit", mac_vm_inherit},
    {"_vm_protect", mac_vm_protect},
    {"_vm_read_overwrite", mac_vm_read_overwrite},
    {"_vm_region_64", mac_vm_region_64},
    {NULL, NULL},
};
