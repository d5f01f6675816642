/* SPDX-License-Identifier: MIT
 *
 * Threads through Mach calls. A thread's id is the lower 32 bits of its system-wide id
 * (THREAD_IDENTIFIER_INFO, pthread_threadid_np), which the kernel increments and never reuses. Mach
 * calls need the thread's port, which is searched in task_threads; all port rights are then
 * released.
 *
 * Another thread is read while it is suspended (os_thread_stop). Between suspend and resume this
 * code allocates nothing and takes no lock, since the suspended thread may hold any lock.
 */
#include <errno.h>
#include <mach/mach.h>
#include <mach/thread_info.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "base/bits.h"
#include "os/apple/thread.h"
#include "os/os.h"

pid_t os_pid(void) { return getpid(); }

static bool identify(thread_act_t thread, uint64_t *id, uint64_t *handle) {
  thread_identifier_info_data_t info;
  mach_msg_type_number_t count = THREAD_IDENTIFIER_INFO_COUNT;
  if (thread_info(thread, THREAD_IDENTIFIER_INFO, (thread_info_t)&info, &count) != KERN_SUCCESS)
    return false;
  *id = info.thread_id;
  if (handle) *handle = info.thread_handle;
  return true;
}

pid_t os_tid(void) {
  uint64_t id = 0;
  (void)pthread_threadid_np(NULL, &id);
  return (pid_t)(id & INT32_MAX);
}

/* Constructors of images that the program links run in its main thread. Constructors of an image
 * that dlopen loads run in the calling thread; then the main thread is the first one in the
 * kernel's list. */
static pid_t main_thread;

static bool take_first(pid_t tid, uint64_t identity, void *context) {
  (void)identity;
  *(pid_t *)context = tid;
  return false;
}

__attribute__((constructor)) static void note_main_thread(void) {
  if (pthread_main_np())
    main_thread = os_tid();
  else
    (void)os_threads(take_first, &main_thread);
}

pid_t os_main_thread(void) { return main_thread; }

/* Calls VISIT with each thread's port until it returns false. The port right is released
 * afterwards. */
static int each_thread(bool (*visit)(thread_act_t thread, void *context), void *context) {
  thread_act_array_t threads;
  mach_msg_type_number_t count = 0;
  if (task_threads(mach_task_self(), &threads, &count) != KERN_SUCCESS) return -EAGAIN;
  bool more = true;
  for (mach_msg_type_number_t i = 0; i < count; i++) {
    if (more) more = visit(threads[i], context);
    (void)mach_port_deallocate(mach_task_self(), threads[i]);
  }
  (void)vm_deallocate(mach_task_self(), (vm_address_t)threads, count * sizeof *threads);
  return 0;
}

typedef struct search {
  pid_t tid;
  thread_act_t found;
} search_t;

static bool match(thread_act_t thread, void *context) {
  search_t *search = context;
  uint64_t id;
  if (!identify(thread, &id, NULL) || (pid_t)(id & INT32_MAX) != search->tid) return true;
  search->found = thread;
  /* each_thread releases its right; this one belongs to the caller */
  (void)mach_port_mod_refs(mach_task_self(), thread, MACH_PORT_RIGHT_SEND, 1);
  return false;
}

static thread_act_t port_of(pid_t tid) {
  search_t search = {.tid = tid};
  return each_thread(match, &search) == 0 ? search.found : MACH_PORT_NULL;
}

static void release(thread_act_t thread) { (void)mach_port_deallocate(mach_task_self(), thread); }

bool os_thread_alive(pid_t tid) {
  thread_act_t thread = port_of(tid);
  if (thread == MACH_PORT_NULL) return false;
  release(thread);
  return true;
}

bool os_signal_stack(uint64_t *start, uint64_t *size) {
  stack_t stack;
  int saved = errno;
  bool there = sigaltstack(NULL, &stack) == 0 && !(stack.ss_flags & SS_DISABLE);
  errno = saved;
  *start = there ? (uint64_t)stack.ss_sp : 0;
  *size = there ? stack.ss_size : 0;
  return there;
}

/* ---- all threads ---------------------------------------------------------------------------- */

typedef struct listing {
  os_thread_visit_t *visit;
  void *context;
} listing_t;

static bool list_one(thread_act_t thread, void *context) {
  listing_t *listing = context;
  uint64_t id;
  return !identify(thread, &id, NULL) ||
         listing->visit((pid_t)(id & INT32_MAX), id, listing->context);
}

int os_threads(os_thread_visit_t *visit, void *context) {
  listing_t listing = {visit, context};
  return each_thread(list_one, &listing);
}

/* There is no folder, but callers close the descriptor. */
int os_threads_open(void) { return os_open_read("/dev/null"); }

int os_threads_list(int folder, os_thread_visit_t *visit, void *context) {
  (void)folder;
  return os_threads(visit, context);
}

static char state_of(int run_state) {
  switch (run_state) {
  case TH_STATE_RUNNING: return 'R';
  case TH_STATE_STOPPED: return 'T';
  case TH_STATE_UNINTERRUPTIBLE: return 'D';
  case TH_STATE_HALTED: return 'X';
  default: return 'S';
  }
}

static bool read_extended(thread_act_t thread, thread_extended_info_data_t *out) {
  mach_msg_type_number_t count = THREAD_EXTENDED_INFO_COUNT;
  return thread_info(thread, THREAD_EXTENDED_INFO, (thread_info_t)out, &count) == KERN_SUCCESS;
}

int os_thread_read(int folder, pid_t tid, os_thread_t *out) {
  (void)folder;
  thread_act_t thread = port_of(tid);
  if (thread == MACH_PORT_NULL) return -ESRCH;
  thread_extended_info_data_t info;
  bool is_read = read_extended(thread, &info);
  release(thread);
  if (!is_read) return -ESRCH;
  *out = (os_thread_t){.tid = tid, .state = state_of(info.pth_run_state)};
  for (unsigned i = 0; i + 1 < OS_THREAD_NAME && info.pth_name[i]; i++)
    out->name[i] = info.pth_name[i];
  return 0;
}

pid_t os_thread_of_port(uint32_t port) {
  uint64_t id;
  return port != MACH_PORT_NULL && identify(port, &id, NULL) ? (pid_t)(id & INT32_MAX) : -ESRCH;
}

/* pthread_mach_thread_np returns no right. */
pid_t os_thread_of_handle(uint64_t handle) {
  return os_thread_of_port(pthread_mach_thread_np((pthread_t)handle));
}

typedef struct handle_search {
  uint64_t handle;
  pid_t found;
} handle_search_t;

static bool match_handle(thread_act_t thread, void *context) {
  handle_search_t *search = context;
  if ((uint64_t)pthread_from_mach_thread_np(thread) != search->handle) return true;
  search->found = os_thread_of_port(thread);
  return false;
}

pid_t os_thread_of_living_handle(uint64_t handle) {
  handle_search_t search = {handle, -ESRCH};
  if (handle) (void)each_thread(match_handle, &search);
  return search.found;
}

/* ---- Swift's task ---------------------------------------------------------------------------- */

/* The slot of the thread-specific data that holds the address of the thread's task
 * (__PTK_FRAMEWORK_SWIFT_KEY3), and the place of the id in it, which Swift's ABI fixes. Libc's
 * thread_stack_pcs.c reads both. */
#define SWIFT_TASK_SLOT 103
#define SWIFT_TASK_ID   36

static uint64_t task_id(uint64_t task) {
  uint32_t id;
  if (!task || os_read_memory(task + SWIFT_TASK_ID, &id, sizeof id) != sizeof id) return 0;
  return id;
}

uint64_t os_swift_task(void) {
  return task_id((uint64_t)pthread_getspecific((pthread_key_t)SWIFT_TASK_SLOT));
}

/* The kernel's handle of a thread is the address of its thread-specific data. */
uint64_t os_swift_task_slot(pid_t tid) {
  thread_act_t thread = port_of(tid);
  uint64_t id, data = 0;
  if (thread == MACH_PORT_NULL) return 0;
  if (!identify(thread, &id, &data)) data = 0;
  release(thread);
  return data ? data + SWIFT_TASK_SLOT * sizeof(void *) : 0;
}

uint64_t os_swift_task_in(uint64_t slot) {
  uint64_t task;
  return slot && os_read_memory(slot, &task, sizeof task) == sizeof task ? task_id(task) : 0;
}

int64_t os_thread_cpu_ns(pid_t tid) {
  thread_act_t thread = port_of(tid);
  if (thread == MACH_PORT_NULL) return -ESRCH;
  thread_extended_info_data_t info;
  bool is_read = read_extended(thread, &info);
  release(thread);
  return is_read ? (int64_t)(info.pth_user_time + info.pth_system_time) : -ESRCH;
}

typedef struct use_listing {
  os_thread_use_visit_t *visit;
  void *context;
} use_listing_t;

static bool list_use(thread_act_t thread, void *context) {
  const use_listing_t *listing = context;
  thread_extended_info_data_t info;
  uint64_t id;
  if (identify(thread, &id, NULL) && read_extended(thread, &info))
    listing->visit((pid_t)(id & INT32_MAX), id, info.pth_user_time + info.pth_system_time,
                   listing->context);
  return true;
}

int os_threads_use(os_thread_use_visit_t *visit, void *context) {
  use_listing_t listing = {visit, context};
  return each_thread(list_use, &listing);
}

bool os_thread_times(pid_t tid, uint64_t *run_ns, uint64_t *ready_ns) {
  int64_t used = os_thread_cpu_ns(tid);
  *run_ns = used < 0 ? 0 : (uint64_t)used;
  *ready_ns = 0;
  return used >= 0;
}

bool os_thread_stack(uint64_t *low, uint64_t *high) {
  pthread_t self = pthread_self();
  *high = (uint64_t)pthread_get_stackaddr_np(self);
  *low = *high - pthread_get_stacksize_np(self);
  return true;
}

/* Apple's processors have no shadow stacks. */
bool os_shadow_stack(void) { return false; }

/* ---- a stopped thread ----------------------------------------------------------------------- */

static bool read_state(thread_act_t thread, arch_frame_t *out) {
#if defined(__aarch64__)
  arm_thread_state64_t state;
  mach_msg_type_number_t count = ARM_THREAD_STATE64_COUNT;
  if (thread_get_state(thread, ARM_THREAD_STATE64, (thread_state_t)&state, &count) != KERN_SUCCESS)
    return false;
  *out = (arch_frame_t){.pc = arch_strip((uint64_t)arm_thread_state64_get_pc(state)),
                        .sp = (uint64_t)arm_thread_state64_get_sp(state),
                        .fp = (uint64_t)arm_thread_state64_get_fp(state),
                        .lr = arch_strip((uint64_t)arm_thread_state64_get_lr(state))};
#else
  x86_thread_state64_t state;
  mach_msg_type_number_t count = x86_THREAD_STATE64_COUNT;
  if (thread_get_state(thread, x86_THREAD_STATE64, (thread_state_t)&state, &count) != KERN_SUCCESS)
    return false;
  *out = (arch_frame_t){.pc = state.__rip, .sp = state.__rsp, .fp = state.__rbp};
#endif
  return true;
}

int os_thread_stop(pid_t tid, void (*look)(const arch_frame_t *frame, void *context),
                   void *context) {
  thread_act_t thread = tid == os_tid() ? MACH_PORT_NULL : port_of(tid);
  arch_frame_t frame;
  if (thread == MACH_PORT_NULL) return -ESRCH;
  int result = -ESRCH;
  if (thread_suspend(thread) == KERN_SUCCESS) {
    if (read_state(thread, &frame)) {
      look(&frame, context);
      result = 0;
    }
    (void)thread_resume(thread);
  }
  release(thread);
  return result;
}

/* A thread that waits in a system call is behind its instruction and has the number and the
 * arguments in its registers. On x86_64 the number has the class of BSD calls, 2, in its upper
 * byte. */
static bool read_call(thread_act_t thread, os_call_t *out) {
#if defined(__aarch64__)
  const uint32_t instruction = 0xd4001001; /* svc #0x80 */
  arm_thread_state64_t state;
  mach_msg_type_number_t count = ARM_THREAD_STATE64_COUNT;
  if (thread_get_state(thread, ARM_THREAD_STATE64, (thread_state_t)&state, &count) != KERN_SUCCESS)
    return false;
  uint64_t pc = arch_strip((uint64_t)arm_thread_state64_get_pc(state)), number = state.__x[16];
  *out = (os_call_t){(int64_t)number, {state.__x[0], state.__x[1], state.__x[2], state.__x[3]}};
  bool is_bsd = number <= INT16_MAX;
  uint32_t before;
#else
  const uint16_t instruction = 0x050f; /* syscall */
  x86_thread_state64_t state;
  mach_msg_type_number_t count = x86_THREAD_STATE64_COUNT;
  if (thread_get_state(thread, x86_THREAD_STATE64, (thread_state_t)&state, &count) != KERN_SUCCESS)
    return false;
  uint64_t pc = state.__rip, number = state.__rax;
  *out = (os_call_t){(int64_t)(number & 0xffffff),
                     {state.__rdi, state.__rsi, state.__rdx, state.__r10}};
  bool is_bsd = number >> 24 == 2;
  uint16_t before;
#endif
  if (!is_bsd || os_read_memory(pc - sizeof before, &before, sizeof before) != sizeof before ||
      before != instruction)
    out->number = -1;
  return true;
}

int os_thread_call(pid_t tid, os_call_t *out) {
  thread_act_t thread = tid == os_tid() ? MACH_PORT_NULL : port_of(tid);
  if (thread == MACH_PORT_NULL) return -ESRCH;
  int result = -ESRCH;
  if (thread_suspend(thread) == KERN_SUCCESS) {
    if (read_call(thread, out)) result = 0;
    (void)thread_resume(thread);
  }
  release(thread);
  return result;
}

static bool interrupt(thread_act_t thread, void *context) {
  uint64_t id;
  if (identify(thread, &id, NULL) && (pid_t)(id & INT32_MAX) != *(pid_t *)context &&
      thread_suspend(thread) == KERN_SUCCESS)
    (void)thread_resume(thread);
  return true;
}

void os_threads_interrupt(void) {
  pid_t own = os_tid();
  (void)each_thread(interrupt, &own);
}

/* ---- the capture mark of a thread
 * --------------------------------------------------------------------------------- */

static pthread_key_t mark;
static bool has_mark;

bool os_thread_marks(void) {
  if (!has_mark) has_mark = pthread_key_create(&mark, NULL) == 0;
  return has_mark;
}

bool os_thread_enter(void) {
  return !pthread_getspecific(mark) && pthread_setspecific(mark, &mark) == 0;
}

void os_thread_leave(void) { (void)pthread_setspecific(mark, NULL); }

/* ---- functions for Linux only -------------------------------------------------------------------
 */

bool os_initial_stack(os_initial_stack_t *out) {
  *out = (os_initial_stack_t){0};
  return false;
}

int os_thread_blocked(int folder, pid_t tid, os_blocked_t *out) {
  (void)folder, (void)tid, (void)out;
  return -ENOSYS;
}

int os_signal_prepare(os_signaled_t *asked) {
  (void)asked;
  return -ENOSYS;
}

int os_signal_thread(pid_t tid) {
  (void)tid;
  return -ENOSYS;
}

bool os_blocks_signal(const os_thread_t *thread) {
  (void)thread;
  return true;
}

bool os_waits_for_signals(int64_t call) {
  (void)call;
  return false;
}

bool os_call_restarts(const os_blocked_t *at) {
  (void)at;
  return false;
}
