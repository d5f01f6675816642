/* SPDX-License-Identifier: MIT
 *
 * libsonde-dormant.so, preloaded into a program that may be recorded later.
 *
 * Asleep, malloc, calloc, realloc and free compare two words and jump to the real functions. The
 * waits of event loops do the same after the real call. There is no thread, no signal handler and
 * no descriptor; the environment stays, so programs that are executed sleep, too. One page of
 * memory is shared with the command (dormant/board.h).
 *
 * The program notices a call at its next malloc, free or wait. The thread that notices it maps a
 * stack and starts a thread that the C library does not know; it waits for nothing. The new thread
 * loads libsonde-attached.so and calls it as the command does in a program that it attaches to
 * (agent/attach_block.h).
 *
 * fork: a child has the board. Its number is set by a handler of pthread_atfork(3); a child that a
 * system call made has none, and cannot be woken. A vfork child is not its parent and leaves the
 * call to it. System calls are made only for a call to this process: a seccomp filter of another
 * one may kill for them. The command refuses processes with a filter.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "arch/arch.h"
#include "base/bits.h"
#include "base/text.h"
#include "dormant/board.h"
#include "dormant/load.h"
#include "dormant/thread.h"
#include "os/os.h"

#define EXPORT      __attribute__((visibility("default")))
#define AGENT_NAME  "libsonde-attached.so"
#define AREA_BYTES  (UINT64_C(16) << 10)
#define STACK_BYTES (UINT64_C(256) << 10)
#define GUARD_ALIGN (UINT64_C(64) << 10) /* the largest page of both CPUs */

/* CLONE_VM, FS, FILES, SIGHAND, THREAD, SYSVSEM, SETTLS, CHILD_CLEARTID: linux/sched.h */
#define THREAD_FLAGS 0x2d0f00u

typedef int wait_t(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

/* X(name, number of arguments): all arguments are words. */
#define WAIT_TABLE(X)                                                                              \
  X(epoll_wait, 4)                                                                                 \
  X(epoll_pwait, 5)                                                                                \
  X(epoll_pwait2, 5)                                                                               \
  X(poll, 3)                                                                                       \
  X(ppoll, 4)                                                                                      \
  X(__poll_chk, 4)                                                                                 \
  X(__ppoll_chk, 5)                                                                                \
  X(select, 5)                                                                                     \
  X(pselect, 6)

static const uint32_t never = 0, first = 1;

/* What each call reads, in one line of the cache. Until the first call, *CALLS differs from SEEN.
 */
static struct {
  const uint32_t *calls;
  uint32_t seen;
  void *(*malloc)(size_t);
  void (*free)(void *);
  void *(*calloc)(size_t, size_t);
  void *(*realloc)(void *, size_t);
#define POINTER(name, count) wait_t *name;
  WAIT_TABLE(POINTER)
#undef POINTER
  int *(*errno_location)(void);
} asleep __attribute__((aligned(64))) = {.calls = &first};

/* Zero in children of fork. */
typedef struct own {
  uint32_t pid;
} own_t;

static own_t *own;
static board_t *board;
static char agent_path[ATTACH_PATH_MAX];

/* ---- at work: in a thread that the C library does not know ---------------------------------- */

typedef struct area {
  uint8_t thread[AREA_BYTES];
  attach_block_t block;
  uint8_t guard[2 * GUARD_ALIGN];
  uint8_t stack[STACK_BYTES];
} area_t;

static loaded_t agent;
static area_t *area;
static uint32_t at_work; /* the kernel clears it when the thread has ended */

static void answer(board_slot_t *slot, int32_t status, const char *message) {
  uint32_t n = 0;
  for (; message[n] && n + 1 < sizeof slot->message; n++)
    slot->message[n] = message[n];
  slot->message[n] = 0;
  slot->status = status;
  store_release(&slot->state, BOARD_DONE);
}

static const char *find_agent(const board_slot_t *slot) {
  uint32_t size = load_relaxed(&slot->build_id_size);
  if (size > sizeof slot->build_id) return "the request is damaged";
  if (agent.start)
    return dormant_is_build(&agent, slot->build_id, size) ? NULL : dormant_other_build;
  if (!*agent_path) return "libsonde-dormant.so was not preloaded by an absolute path";
  return dormant_load(&agent, agent_path, slot->build_id, size);
}

static void work(void *argument) {
  board_slot_t *slot = argument;
  attach_block_t *block = &area->block;
  const char *problem = find_agent(slot);
  if (problem) {
    answer(slot, -ENOEXEC, problem);
    return;
  }
  memset(block, 0, sizeof *block);
  block->size = sizeof *block;
  block->image_start = agent.start;
  block->image_size = agent.size;
  block->stack_start = (uint64_t)(uintptr_t)area->stack;
  block->stack_size = sizeof area->stack;
  block->request = slot->request;
  memcpy(block->settings, slot->settings, sizeof slot->settings - 1);
  (void)text_append(block->path, agent_path);
  agent.entry(block);
  block->message[sizeof block->message - 1] = 0;
  answer(slot, block->status, block->message);
}

/* A stack overflow meets the guard. */
static area_t *make_area(void) {
  area_t *made = os_map(sizeof *made);
  uint64_t guard = made ? ALIGN_UP((uint64_t)(uintptr_t)made->guard, GUARD_ALIGN) : 0;
  if (made) (void)os_protect(guard, guard + GUARD_ALIGN, 0);
  return made;
}

/* Returns 0 or a negative errno. */
static int64_t start_thread(board_slot_t *slot) {
  if (!area && !(area = make_area())) return -ENOMEM;
  uint64_t tls = (uint64_t)(uintptr_t)area->thread + sizeof area->thread / 2;
  uint64_t top = ALIGN_DOWN((uint64_t)(uintptr_t)(area->stack + sizeof area->stack), UINT64_C(16));
  memset(area->thread, 0, sizeof area->thread);
  dormant_thread_area(tls);
  uint64_t mask = os_signals_block();
  int64_t tid = dormant_thread_start(THREAD_FLAGS, top, tls, work, slot, &at_work);
  os_signals_restore(mask);
  return tid < 0 ? tid : 0;
}

/* ---- noticing ------------------------------------------------------------------------------- */

static board_slot_t *find_call(void) {
  uint32_t pid = load_relaxed(&own->pid);
  for (uint32_t i = 0; pid && i < BOARD_SLOTS; i++)
    if (load_relaxed(&board->slots[i].pid) == pid &&
        load_acquire(&board->slots[i].state) == BOARD_ASKED)
      return &board->slots[i];
  return NULL;
}

static void take(board_slot_t *slot) {
  uint32_t asked = BOARD_ASKED, none = 0;
  if (!cas_acq_rel(&at_work, &none, 1u)) return;
  if (!cas_acq_rel(&slot->state, &asked, BOARD_TAKEN)) {
    store_release(&at_work, 0u);
    return;
  }
  int64_t status = start_thread(slot);
  if (status == 0) return;
  answer(slot, (int32_t)status, "the program cannot start a thread for the agent");
  store_release(&at_work, 0u);
}

static void start(void);

/* The board has changed, or this is the first call. */
static NOINLINE void look(void) {
  static uint32_t started;
  if (load_acquire(&started) != 2) {
    uint32_t none = 0;
    if (!cas_acq_rel(&started, &none, 1u)) {
      while (load_acquire(&started) != 2)
        arch_relax();
      return;
    }
    start();
    store_release(&started, 2u);
    return;
  }
  uint32_t now = load_acquire(asleep.calls);
  board_slot_t *slot = find_call();
  if (slot && load_relaxed(&own->pid) != (uint32_t)os_pid()) return; /* a vfork child */
  if (slot) take(slot);
  if (!find_call()) store_relaxed(&asleep.seen, now);
}

static ALWAYS_INLINE bool is_called(void) {
  return UNLIKELY(load_relaxed(asleep.calls) != load_relaxed(&asleep.seen));
}

/* ---- the start ------------------------------------------------------------------------------ */

static void find_real(void) {
  static const char *const names[] = {"malloc", "free", "calloc", "realloc",
#define NAME(name, count) #name,
                                      WAIT_TABLE(NAME)
#undef NAME
                                          "__errno_location"};
  _Static_assert(sizeof asleep - offsetof(__typeof__(asleep), malloc) >=
                     sizeof(uint64_t) * ARRAY_COUNT(names),
                 "one pointer a name");
  uint64_t addresses[ARRAY_COUNT(names)];
  os_symbols((uint64_t)(uintptr_t)find_real, names, addresses, ARRAY_COUNT(names));
  memcpy(&asleep.malloc, addresses, sizeof addresses);
}

/* libsonde-attached.so in the folder of this library. */
static void find_agent_path(void) {
  os_image_t self;
  if (!os_image_of_pc((uint64_t)(uintptr_t)find_real, &self) || !self.path || *self.path != '/')
    return;
  size_t folder = (size_t)(text_base_name(self.path) - self.path);
  if (folder + sizeof AGENT_NAME > sizeof agent_path) return;
  memcpy(agent_path, self.path, folder);
  *text_append(agent_path + folder, AGENT_NAME) = 0;
}

static board_t *open_board(void) {
  static const char *const folders[] = {"/dev/shm/", "/tmp/"};
  char path[64];
  board_t *found = NULL;
  for (uint32_t i = 0; !found && i < ARRAY_COUNT(folders); i++) {
    char *end = text_append(text_append(path, folders[i]), BOARD_NAME);
    *decimal_append(end, os_user()) = 0;
    found = os_map_own_file(path, BOARD_BYTES);
  }
  return found;
}

static bool make_own(void) {
  own = os_map(sizeof *own);
  if (own && os_wipe_on_fork(own, sizeof *own)) return true;
  if (own) os_unmap(own, sizeof *own);
  own = NULL;
  return false;
}

/* A program with more rights than its user is never recorded: the loader does not preload into it,
 * unless an administrator demands it (ld.so(8), "Secure-execution mode"). */
static void start(void) {
  find_real();
  const uint32_t *calls = &never;
  if (!os_is_secure() && !arch_on_valgrind() && make_own() && (board = open_board())) {
    store_release(&own->pid, (uint32_t)os_pid());
    find_agent_path();
    calls = &board->calls;
  }
  asleep.seen = load_acquire(calls); /* without memory of its own it must never look again */
  store_release(&asleep.calls, calls);
}

static void in_child(void) {
  if (!own) return;
  store_relaxed(&at_work, 0u);
  store_release(&own->pid, (uint32_t)os_pid());
}

/* pthread_atfork(3), under the name that glibc exports; its fourth argument is unused elsewhere. */
__attribute__((constructor)) static void at_start(void) {
  if (is_called()) look();
  uint64_t atfork = os_libc_symbol("__register_atfork");
  if (!atfork) atfork = os_libc_symbol("pthread_atfork");
  if (!atfork || !board) return;
  typedef void handler_t(void);
  int (*add)(handler_t *, handler_t *, handler_t *, void *) =
      (int (*)(handler_t *, handler_t *, handler_t *, void *))(uintptr_t)atfork;
  (void)add(NULL, NULL, in_child, NULL);
}

/* ---- the functions -------------------------------------------------------------------------- */

/* LATE is apart, so that the function itself has no frame. */
#define DEFINE(result, name, parameters, arguments, absent)                                        \
  static NOINLINE result late_##name parameters {                                                  \
    look();                                                                                        \
    return asleep.name ? asleep.name arguments : absent;                                           \
  }                                                                                                \
  EXPORT result name parameters;                                                                   \
  result name parameters { return is_called() ? late_##name arguments : asleep.name arguments; }

DEFINE(void *, malloc, (size_t size), (size), NULL)
DEFINE(void *, calloc, (size_t count, size_t size), (count, size), NULL)
DEFINE(void *, realloc, (void *old, size_t size), (old, size), NULL)
DEFINE(void, free, (void *block), (block), (void)0)

/* An older C library lacks some. */
static NOINLINE int missing(void) {
  if (asleep.errno_location) *asleep.errno_location() = ENOSYS;
  return -1;
}

#define PARAMETERS_3 uint64_t a, uint64_t b, uint64_t c
#define PARAMETERS_4 PARAMETERS_3, uint64_t d
#define PARAMETERS_5 PARAMETERS_4, uint64_t e
#define PARAMETERS_6 PARAMETERS_5, uint64_t f
#define ARGUMENTS_3  a, b, c, 0, 0, 0
#define ARGUMENTS_4  a, b, c, d, 0, 0
#define ARGUMENTS_5  a, b, c, d, e, 0
#define ARGUMENTS_6  a, b, c, d, e, f

#define DEFINE_WAIT(name, count)                                                                   \
  EXPORT int dormant_##name(PARAMETERS_##count) __asm__(#name);                                    \
  int dormant_##name(PARAMETERS_##count) {                                                         \
    if (is_called()) look();                                                                       \
    if (UNLIKELY(!asleep.name)) return missing();                                                  \
    int result = asleep.name(ARGUMENTS_##count);                                                   \
    if (is_called()) look();                                                                       \
    return result;                                                                                 \
  }
WAIT_TABLE(DEFINE_WAIT)
