/* SPDX-License-Identifier: MIT
 *
 * The contract with the operating system for code that runs inside a program. The folders linux/
 * and apple/ implement it.
 *
 * Every function is async-signal-safe, takes no lock, allocates only what its comment says and
 * leaves errno unchanged. Functions return 0 or a count on success and a negative errno value on
 * failure, unless a comment says otherwise. A descriptor that a function returns is close-on-exec.
 */
#ifndef SONDE_OS_OS_H
#define SONDE_OS_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- memory ------------------------------------------------------------------------------- */

/* Maps SIZE bytes of private zeroed memory, page aligned. The pages are allocated at first use.
 * Returns NULL when memory is exhausted. A child of fork gets a copy. */
void *os_map(size_t size);

void os_unmap(void *address, size_t size);

/* Maps the regular file PATH, all of it, read-only and private, and keeps no descriptor open. A
 * truncated file raises SIGBUS when the memory is read directly, and an error when it is read with
 * os_read_memory. Release with os_unmap. Returns -EINVAL for an empty file, and for a pipe or a
 * terminal, without blocking. */
int os_map_file(const char *path, const void **data, uint64_t *size);

/* Calls VISIT for each mapping made by os_map and not yet unmapped, in no order. The list is
 * bounded, so some mappings may be missing. */
void os_own_mappings(void (*visit)(uint64_t start, uint64_t end, void *context), void *context);

/* Makes [ADDRESS, ADDRESS+SIZE) read as zeros in children of fork (MADV_WIPEONFORK). Returns false
 * if the kernel cannot do this. */
bool os_wipe_on_fork(void *address, size_t size);

/* Copies SIZE bytes at ADDRESS of this process to OUT without ever faulting. Returns the number of
 * bytes copied, which is smaller than SIZE where the readable memory ends, or a negative errno. */
ssize_t os_read_memory(uint64_t address, void *out, size_t size);

/* One read of os_read_pieces. */
typedef struct os_piece {
  uint64_t address;
  void *out;
  size_t size;
  ssize_t got; /* set: the result that os_read_memory would return */
} os_piece_t;

/* Reads several pieces of memory with as few system calls as possible. Linux only. */
void os_read_pieces(os_piece_t *pieces, int count);

/* Finds the mapping that holds ADDRESS. Sets its bounds and returns its protection (PROT_READ, … of
 * mmap(2)), or -ENOENT when nothing is mapped there. MAPS is a descriptor from os_mappings_open.
 * The cost is one system call on Linux 6.11 and later; older kernels list every mapping below
 * ADDRESS. */
int os_mapping(int maps, uint64_t address, uint64_t *start, uint64_t *end);
int os_mappings_open(void); /* the caller closes it soon */

/* Returns a descriptor through which os_pwrite writes this process's memory, whatever its
 * protection
 * (/proc/self/mem), or a negative errno. */
int os_own_memory_open(void);
int os_protect(uint64_t start, uint64_t end, int protection); /* mprotect(2) */

/* Maps SIZE bytes of private zeroed memory within 1 GB of ADDRESS. Returns NULL when that address
 * range has no free space. */
void *os_map_near(uint64_t address, size_t size);

/* Maps SIZE bytes at ADDRESS, a multiple of the page size. Returns NULL when the address is in use.
 */
void *os_map_at(uint64_t address, size_t size);

/* Makes every thread of this process refetch its instructions (membarrier(2), SYNC_CORE). When it
 * returns true, all threads have done so. Returns false if the kernel cannot do this. */
bool os_sync_code(void);

/* Moves the mapping AT, of SIZE bytes, over the mapping PLACE, at once for other threads. Returns
 * PLACE; NULL on failure, with AT unmapped. Linux only. */
void *os_map_over(void *place, void *at, size_t size);

/* Maps SIZE bytes of code, which only the kernel can write (os_own_memory_open). They are not in
 * the list of own mappings. NULL on failure. Linux only. */
void *os_map_code(size_t size);

/* Returns true if the 8 bytes at ADDRESS can be read now. One system call. */
bool os_readable(uint64_t address);

/* ---- processes and threads ---------------------------------------------------------------- */

pid_t os_pid(void);
pid_t os_tid(void);
pid_t os_main_thread(void);

/* The effective user. Linux only. */
uint32_t os_user(void);

/* Returns true when the program has more rights than its user (AT_SECURE of getauxval(3)). Linux
 * only. */
bool os_is_secure(void);

/* Returns true if TID is a thread of this process that has not ended. A main thread that called
 * pthread_exit counts as alive until the process ends. */
bool os_thread_alive(pid_t tid);

/* Copy the path of the program, its arguments (each ended by a 0), and the calling thread's name
 * (possibly with a newline) to OUT, at most SIZE bytes. Return the count or a negative errno. */
ssize_t os_program_path(char *out, size_t size);
ssize_t os_program_arguments(char *out, size_t size);
ssize_t os_thread_name_here(char *out, size_t size);

/* The calling thread's alternate signal stack (sigaltstack(2)). Returns false if it has none. */
bool os_signal_stack(uint64_t *start, uint64_t *size);

/* Returns true if SP is on the stack [START, START+SIZE), as the kernel decides it: the pointer of
 * an empty stack is the end of its memory. */
static inline bool os_stack_holds(uint64_t start, uint64_t size, uint64_t sp) {
  return sp > start && sp - start <= size;
}

/* Returns true if SP, of the calling thread, is on its alternate signal stack. */
static inline bool os_on_signal_stack(uint64_t sp) {
  uint64_t start, size;
  return os_signal_stack(&start, &size) && os_stack_holds(start, size, sp);
}

/* The bounds of the calling thread's own stack. The thread may be running on another stack now.
 * Returns false when the bounds are unknown. */
bool os_thread_stack(uint64_t *low, uint64_t *high);

/* Which of the calling thread's two stacks, its usual one and the alternate signal stack
 * (sigaltstack(2)), holds an address. */
typedef enum os_stack_side {
  OS_STACK_SAME,    /* both the address and SP are on the alternate stack, or neither is */
  OS_STACK_LEFT,    /* only the address is on the alternate stack: that stack has been left */
  OS_STACK_BENEATH, /* only SP is: a handler on the alternate stack interrupted the other stack */
} os_stack_side_t;

/* Compares ADDRESS with SP, the stack pointer of the calling thread now or when it was interrupted.
 */
static inline os_stack_side_t os_stack_side(uint64_t address, uint64_t sp) {
  uint64_t start, size;
  if (!os_signal_stack(&start, &size)) return OS_STACK_SAME;
  bool there = os_stack_holds(start, size, address), here = os_stack_holds(start, size, sp);
  if (there == here) return OS_STACK_SAME;
  return there ? OS_STACK_LEFT : OS_STACK_BENEATH;
}

/* Calls VISIT for every thread of this process until it returns false. IDENTITY distinguishes two
 * threads that had the same TID one after the other. The values for one thread are usually equal.
 */
typedef bool os_thread_visit_t(pid_t tid, uint64_t identity, void *context);
int os_threads(os_thread_visit_t *visit, void *context);

/* The same in two steps, for callers that read many threads: the first function returns a
 * descriptor of the folder of all threads, which the caller closes soon. */
int os_threads_open(void);
int os_threads_list(int folder, os_thread_visit_t *visit, void *context);

#define OS_THREAD_NAME 16

typedef struct os_thread {
  pid_t tid;
  char state; /* R running, S sleeping, D uninterruptible, T or t stopped, Z or X ended: proc(5) */
  char name[OS_THREAD_NAME];
  uint32_t blocked_signals; /* bit n - 1: signal n; of the first 31 signals */
} os_thread_t;

/* Reads the state of the thread TID. FOLDER is a descriptor from os_threads_open, or negative.
 * Returns -ESRCH when the thread has ended. */
int os_thread_read(int folder, pid_t tid, os_thread_t *out);

/* Returns the tid of the C library's pthread_t HANDLE. Returns -ESRCH when the handle does not
 * belong to a living thread. Returns -ENOSYS when the place of the tid in this C library's
 * structure is unknown, which the handle of the calling thread shows. */
pid_t os_thread_of_handle(uint64_t handle);

/* Returns the tid of the thread with the Mach port PORT, of any process; -ESRCH when it is no port
 * of a thread; -ENOSYS except on Apple's systems. */
pid_t os_thread_of_port(uint32_t port);

/* Returns the tid of the NSThread OBJECT; -ESRCH when its thread has not started or has ended;
 * -EINVAL when it is another object; -ENOSYS when its layout is unknown, and except on Apple's
 * systems. */
pid_t os_thread_of_object(uint64_t object);

/* Returns the id of the Swift task that the calling thread runs; 0: none, or unknown, as on Linux.
 */
uint64_t os_swift_task(void);

/* Where a thread that is not on a CPU will continue in user code. */
typedef struct os_blocked {
  int64_t call; /* the system call it is in; -1: not in one (a page fault, a stop) */
  uint64_t arguments[6];
  uint64_t sp, pc;
} os_blocked_t;

/* Reads the registers of the thread TID while it is blocked. FOLDER is a descriptor from
 * os_threads_open, or negative. Returns -EAGAIN when the thread is running or waiting for a CPU,
 * -ESRCH when it has ended, and -ENOSYS, -EACCES or another error when this system does not provide
 * them. The thread may continue at any moment: see os_thread_progress. */
int os_thread_blocked(int folder, pid_t tid, os_blocked_t *out);

/* Returns the CPU time that the thread TID has used, or a negative errno when this system has no
 * clock of a fine resolution. Two equal results mean that the thread executed nothing in between,
 * with two rare exceptions on Linux (kernel/sched/core.c):
 * - The kernel subtracts the time of interrupts and the time that a hypervisor took. That can
 *   consume all of a run of some microseconds (update_rq_clock_task).
 * - Linux 5.2 to 6.11 returns the old time for some hundred nanoseconds while the thread leaves its
 *   CPU (deactivate_task marks it as gone before its time is booked). */
int64_t os_thread_cpu_ns(pid_t tid);

/* Returns the CPU time that this process has used, with its ended threads; 0 if it is unknown. */
uint64_t os_process_cpu_ns(void);

/* Returns a number that changes when the thread TID continues. Use: call this function, then
 * os_thread_blocked, then this function again. If both results are equal, the thread executed
 * nothing since os_thread_blocked. FOLDER is as for os_thread_blocked. Returns -EAGAIN when the
 * thread is running, -ESRCH when it has ended, or another error when this system does not provide
 * the number. */
int64_t os_thread_progress(int folder, pid_t tid);

/* As os_thread_progress, without the exceptions of os_thread_cpu_ns if the system counts how often
 * a thread is put on a CPU. Takes some ten times as long. */
int64_t os_thread_progress_exact(int folder, pid_t tid);

/* The time that the thread TID has run since its start, and the time that it was ready to run but
 * got no CPU (0: this system does not report it). Returns false when the thread does not exist. */
bool os_thread_times(pid_t tid, uint64_t *run_ns, uint64_t *ready_ns);

/* What a thread that is not on a CPU waits for. */
typedef struct os_wait {
  bool in_call;  /* it is in a system call */
  bool is_lock;  /* which waits for a mutex or a rwlock, of which the next two are known */
  uint64_t lock; /* its address */
  pid_t owner;   /* 0: unknown */
} os_wait_t;

/* Reads what the thread TID of this process waits for. Returns a negative errno as
 * os_thread_blocked. */
int os_thread_wait(pid_t tid, os_wait_t *out);

/* Calls VISIT for every thread of this process with the time that it has run since its start.
 * IDENTITY is as in os_thread_visit_t. */
typedef void os_thread_use_visit_t(pid_t tid, uint64_t identity, uint64_t run_ns, void *context);
int os_threads_use(os_thread_use_visit_t *visit, void *context);

/* Returns true when hardware compares the calling thread's return addresses with a shadow stack
 * (Intel CET, Arm GCS). */
bool os_shadow_stack(void);

/* ---- stack requests by signal ------------------------------------------------------------- */

/* Runs in the thread that received the request, in a signal handler. */
typedef void os_signaled_t(const void *ucontext);

/* Installs the handler that calls SIGNALED for each request. Call it before each round of requests,
 * since the program may have replaced the handler. Returns -EBUSY when the program replaces it
 * again and again. */
int os_signal_prepare(os_signaled_t *signaled);

/* Sends a request to the thread TID; -ESRCH when it has ended. The kernel merges a request with one
 * that is still pending for TID, so SIGNALED runs at least once after the last request, and not
 * once for each. */
int os_signal_thread(pid_t tid);

/* Return true when a request must not be sent: it would stay pending, or the program would receive
 * it in place of the signal that it waits for. */
bool os_blocks_signal(const os_thread_t *thread);
bool os_waits_for_signals(int64_t call);

/* The same for a request from another process, the recorder, which calls os_signal_process.
 * SIGNALED runs in the thread TID of PID if that process has called os_signal_prepare_for_others.
 */
int os_signal_prepare_for_others(os_signaled_t *signaled);
int os_signal_process(pid_t pid, pid_t tid);

/* From now on no function of this header makes a system call. */
void os_calls_end(void);

/* Restores the program's action: from now on a request is a signal of the program. */
void os_signal_retire(void);

/* Sends such a request to the thread TID of this process once, when it has used CPU_NS more of CPU
 * time. Returns the number of a timer for os_tick_stop, or a negative errno. */
int os_signal_thread_after(pid_t tid, uint64_t cpu_ns);

/* Return true if a thread that is blocked AT this call continues to wait after a request, so that
 * the program does not notice it. The second function answers for a stop by ptrace, where no
 * handler runs, and for a thread of any process; it returns false for calls whose restart depends
 * on the type of a descriptor. */
bool os_call_restarts(const os_blocked_t *at);
bool os_call_restarts_anywhere(const os_blocked_t *at);

/* os_call_resumes returns true if the call ends with EINTR but can be repeated. os_call_resume,
 * called in the handler of the signal that ended the call, changes UCONTEXT so that the thread
 * repeats it. It changes nothing if UCONTEXT is not the state after such a call. */
bool os_call_resumes(const os_blocked_t *at);
void os_call_resume(void *ucontext, const os_blocked_t *at);

/* ---- seccomp filters (seccomp(2)), of any process ----------------------------------------- */

#define OS_CALLS_MAX 128

/* Sets FORBIDDEN, of OS_CALLS_MAX, to 1 for each system call of sonde (rows of
 * os/linux/calls/table.h) that the filter PROGRAM of COUNT instructions (struct sock_filter) does
 * not let pass, whatever its unknown arguments are. Needs 24 KB of stack. Linux only. */
void os_calls_of_filter(const void *program, uint32_t count, uint8_t *forbidden);

/* Whether the filter lets the call NUMBER pass, with the ARGUMENTS whose bit of KNOWN is set,
 * whatever the others are. Linux only. */
bool os_filter_allows(const void *program, uint32_t count, uint32_t number,
                      const uint64_t arguments[6], uint8_t known);

/* ---- a copy of this process --------------------------------------------------------------- */

/* Creates a copy of the calling process with this thread only, as fork(2) does. The copy has no
 * exit signal and shares the table of descriptors until os_process_copy_settle. With BESIDE, the
 * copy becomes a child of the caller's parent. Returns as fork does. */
pid_t os_process_copy(bool beside);

/* Call it in the copy. It closes all descriptors, sets the name, makes the copy the first victim
 * when memory is exhausted, and disables its core file. */
void os_process_copy_settle(const char *name);
__attribute__((noreturn)) void os_exit(int status);

/* Reaps COPY if it is a child of this process and has ended. Returns true when it is gone. */
bool os_reap(pid_t copy);
pid_t os_parent(void);

/* Blocks all signals for the calling thread and returns the mask to restore. */
uint64_t os_signals_block(void);
void os_signals_restore(uint64_t mask);

/* ---- mappings of this process ------------------------------------------------------------- */

typedef struct os_region {
  uint64_t start, end, offset, inode; /* inode 0: no file */
  uint8_t protection;                 /* PROT_… of mmap(2) */
  bool is_shared;
  const char *name; /* path, [heap], …; "" without one. Valid during the visit */
} os_region_t;

/* Calls VISIT for every mapping of this process, by ascending address, until it returns false. */
int os_regions(bool (*visit)(const os_region_t *region, void *context), void *context);

/* What the kernel set up for the program (proc_pid_stat(5)). */
typedef struct os_initial_stack {
  uint64_t stack;       /* address of the argument count on the initial stack */
  uint64_t strings_end; /* end of the strings of arguments and environment; 0: unknown */
  uint64_t heap;        /* start of the memory that brk(2) extends; 0: unknown */
} os_initial_stack_t;

/* Returns false when nothing is known. qemu's user mode does not report the last two. Linux only.
 */
bool os_initial_stack(os_initial_stack_t *out);

/* ---- fatal signals ------------------------------------------------------------------------ */

typedef void os_handler_t(int number, void *info, void *ucontext);
bool os_signal_has_handler(int number, os_handler_t *handler); /* NULL: the default action */

/* Installs HANDLER. It runs on the alternate stack if there is one, with no other signal blocked.
 */
void os_signal_handle(int number, os_handler_t *handler);
void os_signal_default(int number);

/* Sends the calling thread the signal that its handler was called for, with the same INFO. */
void os_signal_again(int number, const void *info);

/* Calls RUN(argument) on a handler stack of this library, which is larger than the stack that a
 * signal handler may have. All signals except those of faults must be blocked. */
void os_run_on_handler_stack(void (*run)(void *), void *argument);

/* An alternate signal stack for the calling thread, so that its handlers can run after a stack
 * overflow. os_fault_stack_give does nothing if the thread has one. os_fault_stack_take removes a
 * stack that was given; call it at the thread's end. os_fault_stacks_forked releases the stacks of
 * the parent's other threads; call it in a child of fork. Linux only. */
void os_fault_stack_give(void);
void os_fault_stack_take(void);
void os_fault_stacks_forked(void);
/* True if the alternate stack that begins at START was given by os_fault_stack_give. */
bool os_is_fault_stack(uint64_t start);

/* ---- ticks of CPU time -------------------------------------------------------------------- */

/* Runs in a signal handler of the thread whose CPU time has ticked. The kernel did not deliver
 * MISSED ticks before this one: since the last call the thread has used MISSED + 1 intervals. */
typedef void os_ticked_t(const void *ucontext, uint32_t missed);

/* Makes ticks call TICKED. Ticks use the signal and the handler of os_signal_prepare, which has the
 * same conditions. */
int os_tick_prepare(os_ticked_t *ticked);

/* Starts to signal the thread TID of this process: once it has used FIRST_NS more of CPU time, and
 * then after each INTERVAL_NS of CPU time. A sleeping thread gets no signal. Returns the number of
 * the timer or a negative errno. fork and execve remove the timer. */
int os_tick_start(pid_t tid, uint64_t first_ns, uint64_t interval_ns);
void os_tick_stop(int timer);

/* ---- time --------------------------------------------------------------------------------- */

uint64_t os_monotonic_ns(void);
uint64_t os_realtime_ns(void); /* a system call */

/* Returns after every running thread of this process has executed a full memory barrier. */
void os_barrier(void);

/* ---- waiting ------------------------------------------------------------------------------ */

/* os_futex_wait waits while *WORD is VALUE, at most TIMEOUT_NS (0: no limit). It returns -EAGAIN
 * when *WORD is not VALUE, -EINTR after a signal and -ETIMEDOUT. os_futex_wake wakes up to COUNT
 * waiters and returns their number. Only threads of this process may wait for WORD. */
int os_futex_wait(const uint32_t *word, uint32_t value, uint64_t timeout_ns);
int os_futex_wake(const uint32_t *word, int count);

/* The same for a word in memory that several processes share. */
int os_futex_wait_shared(const uint32_t *word, uint32_t value, uint64_t timeout_ns);
int os_futex_wake_shared(const uint32_t *word, int count);

/* ---- files -------------------------------------------------------------------------------- */

int os_open_read(const char *path);
ssize_t os_read(int fd, void *out, size_t size);
ssize_t os_pread(int fd, void *out, size_t size, uint64_t offset);
ssize_t os_write(int fd, const void *data, size_t size);
void os_close(int fd);

/* Reads the whole of a small file, such as those of /proc, into OUT, at most SIZE - 1 bytes, and
 * appends a 0. Returns the count without the 0. */
ssize_t os_read_file(const char *path, char *out, size_t size);

/* ---- files of a recording ------------------------------------------------------------------- */

typedef struct os_file_id {
  uint64_t device, inode;
  uint64_t size; /* in bytes, now */
} os_file_id_t;

/* Opens PATH for reading and writing. The descriptor is at least 512 if the limit allows it, so
 * that the program gets the same descriptor numbers as without sonde. */
int os_open_high(const char *path);

/* The same for the descriptor FD of the process PID. On Apple's systems, of this process only. */
int os_open_of_process(uint32_t pid, uint32_t fd);

/* Makes FD stay open in the program that this process executes. */
bool os_keep_at_exec(int fd);

int os_create_high(const char *path); /* creates it, mode 0600; -EEXIST when it exists */
int os_memory_file(const char *name); /* a file without a folder; closing it deletes it */
int os_file_resize(int fd, uint64_t size);
void os_remove(const char *path);

/* The identity and size of the file that FD refers to. Returns false when FD is not open. */
bool os_file_id(int fd, os_file_id_t *out);

ssize_t os_pwrite(int fd, const void *data, size_t size, uint64_t offset);

/* Deallocates SIZE bytes of FD at OFFSET, which then read as zeros (fallocate(2)). */
int os_file_punch(int fd, uint64_t offset, uint64_t size);

/* Sends TEXT to the stream socket with the abstract name NAME (unix(7)) and reads the answer to its
 * end, at most SIZE bytes. Each step waits at most PATIENCE_S seconds. Returns the count or a
 * negative errno. */
ssize_t os_socket_request(const char *name, const char *text, char *answer, size_t size,
                          uint32_t patience_s);

/* The same for an answer that carries a descriptor (unix(7), SCM_RIGHTS), within two seconds.
 * Returns the descriptor, as os_open_high does, or a negative errno; -ENOENT if there is none in
 * the answer. */
int os_socket_descriptor(const char *name, const char *text);

/* Connects a datagram socket to the one with the abstract name NAME. The connection also works
 * after the process has entered another network namespace. Returns a descriptor that is at least
 * 512 and closed by execve, or -1. */
int os_socket_calls(const char *name);

/* Sends TEXT. Returns 0 or -1. */
int os_socket_call(int fd, const char *text);

/* Reads the symbolic link PATH into OUT, at most SIZE - 1 bytes, and appends a 0. */
ssize_t os_read_link(const char *path, char *out, size_t size);

/* The limit on the size of a file (RLIMIT_FSIZE); a write beyond it raises SIGXFSZ. */
uint64_t os_file_size_limit(void);

/* Maps SIZE bytes of FD at OFFSET, shared, for reading and writing. Returns NULL on failure. */
void *os_map_shared(int fd, uint64_t offset, size_t size);

/* Maps SIZE bytes of the file PATH, shared, for reading and writing, with all its blocks allocated.
 * Creates it with mode 0600. Returns NULL on failure, and if PATH is not a regular file with one
 * name that belongs to the effective user and that nobody else may open. Linux only. */
void *os_map_own_file(const char *path, size_t size);

/* Allocates the pages of [ADDRESS, ADDRESS+SIZE) now. Returns false when memory is exhausted, in
 * which case an access would raise SIGBUS. */
bool os_populate(void *address, size_t size);

/* Excludes [ADDRESS, ADDRESS+SIZE) from children of fork (MADV_DONTFORK). */
bool os_hide_from_fork(void *address, size_t size);

/* Returns true if a process PID of any user exists. A zombie counts on macOS alone. */
bool os_process_alive(pid_t pid);

/* The namespace of this process's id: the inode of /proc/self/ns/pid. 0: unknown, or a system
 * without such namespaces. */
uint64_t os_pid_space(void);

/* ---- the dynamic loader ------------------------------------------------------------------- */

/* A loaded image, as the loader describes it. */
typedef struct os_image {
  uint64_t start;  /* lowest mapped address */
  uint64_t end;    /* one past the highest */
  uint64_t slide;  /* run-time address minus address in the file */
  uint64_t header; /* address of the ELF header in memory, 0 when it is not mapped */
  uint64_t phdr;   /* address of the program headers in memory */
  uint32_t phdr_count;
  /* The path, in the loader's memory; read it with os_read_memory. Empty or NULL when the loader
   * knows none: glibc stores no path for the program itself. */
  const char *path;
  /* 0: the program's own namespace; 1…: a namespace of dlmopen(3). Only os_images sets it. */
  uint32_t link_space;
} os_image_t;

/* Finds the image that holds PC without taking the loader's lock. Returns false when there is none.
 */
bool os_image_of_pc(uint64_t pc, os_image_t *out);

/* Returns a number that changes whenever an image may have been loaded or unloaded. While it stays
 * equal, facts about images stay valid. Costs a few loads. Returns 0 when this loader has no such
 * counter: facts about images then must not be kept. */
uint64_t os_loader_epoch_slow(void);

/* The loader's counters, for glibc with no namespace but the program's own. */
typedef struct os_epoch_words {
  const uint64_t *adds;       /* number of images ever loaded */
  const uint32_t *loaded;     /* number of images loaded now */
  const uint64_t *namespaces; /* 1: the two words above cover all images */
} os_epoch_words_t;
extern __attribute__((visibility("hidden"))) os_epoch_words_t os_epoch_words;

static inline uint64_t os_loader_epoch(void) {
  if (__builtin_expect(*os_epoch_words.namespaces == 1, 1))
    return __atomic_load_n(os_epoch_words.adds, __ATOMIC_ACQUIRE) << 24 |
           __atomic_load_n(os_epoch_words.loaded, __ATOMIC_RELAXED);
  return os_loader_epoch_slow();
}

/* Calls VISIT for every loaded image in load order until it returns false. The loader's list is
 * read with os_read_memory. Not for hot paths. */
void os_images(bool (*visit)(const os_image_t *image, void *context), void *context);

/* Calls RUN once while it holds the loader's lock, so that no image can be unloaded. RUN must not
 * load, unload or look up through the loader. Returns -ENOSYS, without calling RUN, where no loader
 * provides this. Not async-signal-safe. */
int os_loader_hold(void (*run)(void *context), void *context);

/* Apple only: makes the loader call CALLED for each image that it loads, after binding and before
 * constructors, with the loader's lock held. There is one such function at a time. */
void os_loader_listen(void (*called)(void));

/* Returns the address of the empty function that the loader calls before and after each change of
 * its list of images (r_brk of link.h), or 0. */
uint64_t os_loader_breakpoint(void);

/* Sets, for each of NAMES, the run-time address of its first definition in load order, searching
 * after the image that holds AFTER (0: all images), as the loader would; 0 where there is none. It
 * reads the symbol tables of the images. For start-up only, before images are loaded or unloaded.
 */
void os_symbols(uint64_t after, const char *const *names, uint64_t *addresses, int count);

/* Linux only. From one to the other, os_symbols does not read the loader's list again. For the
 * start of an agent, while no other thread calls os_symbols and no image is loaded or unloaded. */
void os_symbols_begin(void);
void os_symbols_end(void);

/* Linux only. The C library's own function NAME, 0 if unknown, whatever else defines that name.
 * Such a function may be called before any constructor has run; an interceptor, as those of a
 * sanitizer's runtime, may not. */
uint64_t os_libc_symbol(const char *name);

/* Finds the loader's tables for the functions above. sonde's constructor calls it once. */
void os_loader_init(void);

/* ---- Linux only: text of /proc ------------------------------------------------------------- */

/* Parses the text of /proc/PID/stat, except for the tid. Returns 0 or -EINVAL. */
int os_parse_thread(const char *text, os_thread_t *out);

/* Parses the text of /proc/PID/syscall. Returns 0, -EAGAIN for a running thread, or -EINVAL. */
int os_parse_blocked(const char *text, os_blocked_t *out);

#endif
