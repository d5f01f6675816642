/* SPDX-License-Identifier: MIT
 *
 * The whole contract with the operating system for code that runs inside a program.
 *
 * Every function here is async-signal-safe, takes no lock, allocates nothing but what it says, and
 * leaves errno alone (the system calls are our own). Results are 0 or a count on success and a
 * negative errno value on failure, unless a line says otherwise.
 */
#ifndef SONDE_OS_OS_H
#define SONDE_OS_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- memory ------------------------------------------------------------------------------- */

/* SIZE bytes of private zeroed memory, page aligned, reserved but not touched; NULL when there is
 * none. Survives fork as a copy. */
void *os_map(size_t size);

/* The same, its pages already there: for memory that is about to be used all over. */
void *os_map_populated(size_t size);
void os_unmap(void *address, size_t size);

/* Maps the whole of the regular file PATH, read-only and private; no descriptor stays open. Who
 * reads it takes care that a truncated file raises SIGBUS: os_read_memory does not. Release with
 * os_unmap. Never blocks on a pipe or a terminal: these are refused with -EINVAL, as is an empty
 * file. */
int os_map_file(const char *path, const void **data, uint64_t *size);

/* Calls VISIT for all that os_map has given and os_unmap has not been given back, as far as there
 * was room to keep it in mind; in no order. */
void os_own_memory(void (*visit)(uint64_t start, uint64_t end, void *context), void *context);

/* A child of fork finds [ADDRESS, ADDRESS+SIZE) zeroed (MADV_WIPEONFORK). False where the kernel
 * cannot. */
bool os_wipe_on_fork(void *address, size_t size);

/* Copies SIZE bytes at ADDRESS of this process to OUT without ever faulting. Returns the count of
 * bytes copied, which is short where the memory ends, or a negative errno. */
ssize_t os_read_memory(uint64_t address, void *out, size_t size);

/* The same for several pieces, in as few system calls as can be. Linux. */
typedef struct os_piece {
  uint64_t address;
  void *out;
  size_t size;
  ssize_t got; /* set: what os_read_memory would return */
} os_piece_t;
void os_read_pieces(os_piece_t *pieces, int count);

/* The mapping that holds ADDRESS: its bounds, and what may be done with it (PROT_READ, … of
 * mmap(2)) as the result. -ENOENT when nothing is mapped there. MAPS is a descriptor of
 * /proc/self/maps; the answer costs a system call on Linux 6.11 and later, else a look at every
 * mapping below ADDRESS. */
int os_mapping(int maps, uint64_t address, uint64_t *start, uint64_t *end);
int os_mappings_open(void); /* a descriptor for MAPS, to be closed soon */

/* A descriptor through which os_pwrite writes this process's memory, whatever its protection
 * (/proc/self/mem); negative where there is none. */
int os_own_memory_open(void);
int os_protect(uint64_t start, uint64_t end, int protection); /* mprotect(2) */

/* SIZE bytes of private zeroed memory within 1 GB of ADDRESS; NULL when there is no room. */
void *os_map_near(uint64_t address, size_t size);

/* The same at ADDRESS itself, a multiple of the page size; NULL when something is there. */
void *os_map_at(uint64_t address, size_t size);

/* When it returns true every thread of this process has, since it was called, begun to fetch its
 * instructions anew (membarrier(2), SYNC_CORE). False where the kernel cannot. */
bool os_sync_code(void);

/* True when the 8 bytes at ADDRESS can be read at this moment. One system call. */
bool os_readable(uint64_t address);

/* ---- processes and threads ---------------------------------------------------------------- */

pid_t os_pid(void);
pid_t os_tid(void);
pid_t os_main_thread(void);
/* A thread of this process that has not ended. A main thread that called pthread_exit stays until
 * the process ends, and counts as alive. */
bool os_thread_alive(pid_t tid);

/* The path of the program; its arguments, each ended with a 0; the calling thread's name, perhaps
 * with a line's end. At most SIZE bytes; return the count or a negative errno. */
ssize_t os_program_path(char *out, size_t size);
ssize_t os_program_arguments(char *out, size_t size);
ssize_t os_own_name(char *out, size_t size);

/* The calling thread's alternate signal stack (sigaltstack(2)); false when it has none. */
bool os_signal_stack(uint64_t *start, uint64_t *size);

/* Whether SP is on a stack, as the kernel asks it: the pointer of an empty one is its end. */
static inline bool os_stack_holds(uint64_t start, uint64_t size, uint64_t sp) {
  return sp > start && sp - start <= size;
}

/* True when SP, of the calling thread, is on its alternate signal stack. */
static inline bool os_on_signal_stack(uint64_t sp) {
  uint64_t start, size;
  return os_signal_stack(&start, &size) && os_stack_holds(start, size, sp);
}

/* The bounds of the calling thread's own stack; it may be on another one now. False when they are
 * not known. */
bool os_own_stack(uint64_t *low, uint64_t *high);

/* Where ADDRESS, on some stack of the calling thread, lies as seen from SP, on which the thread
 * runs or ran when it was interrupted, as far as the alternate signal stack tells (sigaltstack(2)).
 */
typedef enum os_stack_side {
  OS_STACK_SAME,    /* both on the alternate one, or neither */
  OS_STACK_LEFT,    /* it is on the alternate one, which has been left */
  OS_STACK_BENEATH, /* a handler on the alternate one interrupted what runs there */
} os_stack_side_t;
static inline os_stack_side_t os_stack_side(uint64_t address, uint64_t sp) {
  uint64_t start, size;
  if (!os_signal_stack(&start, &size)) return OS_STACK_SAME;
  bool there = os_stack_holds(start, size, address), here = os_stack_holds(start, size, sp);
  if (there == here) return OS_STACK_SAME;
  return there ? OS_STACK_LEFT : OS_STACK_BENEATH;
}

/* Calls VISIT for every thread of this process, until it returns false. Two threads that had the
 * same TID one after the other have different IDENTITYs; those of one thread are equal as a rule.
 */
typedef bool os_thread_visit_t(pid_t tid, uint64_t identity, void *context);
int os_threads(os_thread_visit_t *visit, void *context);

/* The same in parts, for one who asks much about many threads: a descriptor for the folder of all
 * threads, to be closed soon. */
int os_threads_open(void);
int os_threads_list(int folder, os_thread_visit_t *visit, void *context);

#define OS_THREAD_NAME 16

typedef struct os_thread {
  pid_t tid;
  char state; /* R running, S sleeping, D uninterruptible, T or t stopped, Z or X ended: proc(5) */
  char name[OS_THREAD_NAME];
  uint32_t blocked_signals; /* bit n - 1: signal n; of the first 31 signals */
} os_thread_t;

/* FOLDER is of os_threads_open, or negative. -ESRCH when there is no such thread any more. */
int os_thread_read(int folder, pid_t tid, os_thread_t *out);

/* The tid behind the C library's pthread_t. -ESRCH: the handle is of no living thread; -ENOSYS:
 * where this C library keeps the id is not known, as its own handle of the calling thread shows. */
pid_t os_thread_of_handle(uint64_t handle);

/* Where a thread that is off the CPU would go on in user code. */
typedef struct os_blocked {
  int64_t call; /* the system call it is in; -1: it is not in one (a page fault, a stop) */
  uint64_t arguments[6];
  uint64_t sp, pc;
} os_blocked_t;

/* FOLDER is of os_threads_open, or negative. -EAGAIN: it is running, or waits for a CPU; -ESRCH: it
 * has ended; -ENOSYS, -EACCES, …: this system does not tell. The thread may go on at any moment:
 * see os_thread_progress. */
int os_thread_blocked(int folder, pid_t tid, os_blocked_t *out);

/* The CPU time that the thread TID has used. Two equal answers mean that it has executed nothing in
 * between. Negative when the system does not tell, or not finely enough for that. */
int64_t os_thread_cpu_ns(pid_t tid);

/* A number that is another one when the thread has gone on: of two equal answers, the second says
 * that it has executed nothing since os_thread_blocked, asked after the first, found it blocked.
 * FOLDER is as there. -EAGAIN: it is running; -ESRCH: it has ended; else: this system does not
 * tell.
 */
int64_t os_thread_progress(int folder, pid_t tid);

/* How long the thread TID has run since its start, and how long it was ready to and got no CPU (0:
 * this system does not tell). False when there is no such thread. */
bool os_thread_times(pid_t tid, uint64_t *run_ns, uint64_t *ready_ns);

/* True when the calling thread's return addresses are checked against a shadow stack of the
 * hardware (Intel CET, Arm GCS). */
bool os_shadow_stack(void);

/* ---- asking a thread by signal ------------------------------------------------------------ */

/* Runs in the thread that was asked, in a signal handler. */
typedef void os_asked_t(const void *ucontext);

/* Sees to it that ASKED is called for questions. Before each round of questions, since the program
 * may have put its own handler in front; -EBUSY when it did so again and again. */
int os_signal_prepare(os_asked_t *asked);

/* Sends the question; -ESRCH when TID has ended. A question that finds another one still on its way
 * to TID is merged with it: ASKED is called at least once after the last, not once for each. */
int os_signal_thread(pid_t tid);

/* Whether a question would wait, or be taken for something else, and so must not be sent. */
bool os_blocks_signal(const os_thread_t *thread);
bool os_waits_for_signals(int64_t call);

/* The same for a question that another process asks: the recorder, by os_signal_process. ASKED is
 * called in the thread TID of PID, if that process has called os_signal_prepare_for_others. */
int os_signal_prepare_for_others(os_asked_t *asked);
int os_signal_process(pid_t pid, pid_t tid);

/* Asks the thread TID of this process again, once, as such a question, when it has used CPU_NS more
 * of CPU time. Returns the number of a timer, to be given to os_tick_stop; or a negative errno. */
int os_signal_thread_after(pid_t tid, uint64_t cpu_ns);

/* ---- a copy of this process --------------------------------------------------------------- */

/* A copy of the calling process with this thread alone, as of fork(2), but with no exit signal,
 * sharing the table of descriptors until it settles. With BESIDE it is its parent's child. Returns
 * as fork does. */
pid_t os_copy_process(bool beside);

/* In the copy: no descriptors, its name, the first to go when memory runs out, and no core file. */
void os_copy_settle(const char *name);
__attribute__((noreturn)) void os_exit(int status);

/* Takes what is left of COPY, if it is this process's and has ended; true when it is gone. */
bool os_reap(pid_t copy);
pid_t os_parent(void);

/* All signals, for the calling thread; returns the mask to restore. */
uint64_t os_signals_block(void);
void os_signals_restore(uint64_t mask);

/* Whether a thread that is blocked AT this call goes on waiting after a question, and the program
 * sees nothing of it. */
bool os_call_restarts(const os_blocked_t *at);

/* The same when no handler runs, as after a stop by ptrace, and of a thread of any process: so not
 * of calls for which it depends on what their descriptor is. */
bool os_call_restarts_anywhere(const os_blocked_t *at);

/* Whether the call ends, with EINTR, but can be made to go on where it was; and that, in the
 * handler of the signal that ended it: UCONTEXT is changed so that the thread makes the call again.
 * Does nothing where UCONTEXT is not of such a moment. */
bool os_call_resumes(const os_blocked_t *at);
void os_call_resume(void *ucontext, const os_blocked_t *at);

typedef struct os_region {
  uint64_t start, end, offset, inode; /* inode 0: no file */
  uint8_t protection;                 /* PROT_… of mmap(2) */
  bool is_shared;
  const char *name; /* path, [heap], …; "" without one. Valid during the visit */
} os_region_t;

/* Where the kernel put what a program begins with (proc_pid_stat(5)): its first stack from the
 * count of arguments on (above it their strings and the environment's, to STRINGS_END), and what
 * brk(2) moves the end of; 0 where it does not tell, as qemu's user mode does of the latter two.
 * False when it tells nothing. Linux. */
typedef struct os_initial_stack {
  uint64_t stack, strings_end, heap;
} os_beginning_t;
bool os_initial_stack(os_beginning_t *out);

/* Calls VISIT for every mapping of this process, by ascending address, until it returns false. */
int os_regions(bool (*visit)(const os_region_t *region, void *context), void *context);

/* ---- fatal signals ------------------------------------------------------------------------ */

typedef void os_handler_t(int number, void *info, void *ucontext);
bool os_signal_is_default(int number);
/* On the alternate stack where there is one, with no other signal blocked. */
void os_signal_handle(int number, os_handler_t *handler);
void os_signal_default(int number);
/* Sends the calling thread the signal that its handler was called for, with the same INFO. */
void os_signal_again(int number, const void *info);

/* Calls RUN(argument) from a signal handler, on a larger stack than the handler may have. All
 * signals but those of faults must be blocked. */
void os_with_room(void (*run)(void *), void *argument);

/* ---- ticks of CPU time -------------------------------------------------------------------- */

/* Runs in a signal handler of the thread whose CPU time has ticked; MISSED ticks before this one
 * could not be delivered: since the one before it has used MISSED + 1 intervals. */
typedef void os_ticked_t(const void *ucontext, uint32_t missed);

/* Sees to it that TICKED is called, by the same signal and handler as questions are; as
 * os_signal_prepare. */
int os_tick_prepare(os_ticked_t *ticked);

/* From now on the thread TID of this process is signalled when it has used FIRST_NS more of CPU
 * time, and then each INTERVAL_NS; never while it sleeps. Returns the timer's number, or a negative
 * errno. Gone after fork and execve. */
int os_tick_start(pid_t tid, uint64_t first_ns, uint64_t interval_ns);
void os_tick_stop(int timer);

/* ---- time --------------------------------------------------------------------------------- */

uint64_t os_monotonic_ns(void);
uint64_t os_realtime_ns(void); /* a system call */

/* Every thread of this process has passed a full memory barrier when this returns, or is not
 * running. */
void os_barrier(void);

/* ---- waiting ------------------------------------------------------------------------------ */

/* Waits while *WORD is VALUE, at most TIMEOUT_NS (0: no limit); -EAGAIN when it is not VALUE,
 * -EINTR and -ETIMEDOUT as they say. Wakes up to COUNT waiters, returns how many. WORD is shared by
 * the threads of this process alone. */
int os_futex_wait(const uint32_t *word, uint32_t value, uint64_t timeout_ns);
int os_futex_wake(const uint32_t *word, int count);

/* The same for a word in memory that several processes share. */
int os_futex_wait_shared(const uint32_t *word, uint32_t value, uint64_t timeout_ns);
int os_futex_wake_shared(const uint32_t *word, int count);

/* ---- files -------------------------------------------------------------------------------- */

int os_open_read(const char *path); /* close-on-exec */
ssize_t os_read(int fd, void *out, size_t size);
ssize_t os_pread(int fd, void *out, size_t size, uint64_t offset);
ssize_t os_write(int fd, const void *data, size_t size);
void os_close(int fd);

/* Reads the whole of a small file (as those of /proc) into OUT, at most SIZE - 1 bytes, and ends it
 * with a 0. Returns the count without the 0. */
ssize_t os_read_file(const char *path, char *out, size_t size);

/* ---- what a recording needs ----------------------------------------------------------------- */

typedef struct os_file_id {
  uint64_t device, inode;
} os_file_id_t;

/* Opens PATH to read and write, close-on-exec, as a descriptor of at least 512 where the limit
 * allows it, so that the program is handed out the numbers it would have got without us. */
int os_open_high(const char *path);

/* The same for the descriptor FD of the process PID. Apple: of this process alone. */
int os_open_of_process(uint32_t pid, uint32_t fd);

int os_create_high(const char *path); /* makes it, -EEXIST when it is there; mode 0600 */
int os_memory_file(const char *name); /* of no folder: it goes when it is closed */
int os_file_resize(int fd, uint64_t size);
void os_remove(const char *path);

/* Which file FD is. False when it is not open. */
bool os_file_id(int fd, os_file_id_t *out);

ssize_t os_pwrite(int fd, const void *data, size_t size, uint64_t offset);

/* Makes SIZE bytes of FD from OFFSET read as zeros and gives their room back; fallocate(2). */
int os_file_punch(int fd, uint64_t offset, uint64_t size);

/* Sends TEXT to the stream socket of the abstract NAME (unix(7)) and reads the answer to its end,
 * at most SIZE bytes; waits at most two seconds for each part. Returns the count or a negative
 * errno. */
ssize_t os_signal_socket(const char *name, const char *text, char *answer, size_t size);

/* The text of the symbolic link PATH, ended with a 0, at most SIZE - 1 bytes. */
ssize_t os_read_link(const char *path, char *out, size_t size);

/* Largest size a file may be written to (RLIMIT_FSIZE); beyond it a write raises SIGXFSZ. */
uint64_t os_file_size_limit(void);

/* Maps SIZE bytes of FD from OFFSET, shared, to read and write; NULL when that fails. */
void *os_map_shared(int fd, uint64_t offset, size_t size);

/* Backs [ADDRESS, ADDRESS+SIZE) with memory now. False when there is none: touching it would have
 * been a SIGBUS. */
bool os_populate(void *address, size_t size);

/* Keeps [ADDRESS, ADDRESS+SIZE) out of children of fork (MADV_DONTFORK). */
bool os_hide_from_fork(void *address, size_t size);

/* True when there is a process PID, zombies included, of whatever user. */
bool os_process_alive(pid_t pid);

/* ---- the dynamic loader ------------------------------------------------------------------- */

/* A loaded image, as the loader tells it. */
typedef struct os_image {
  uint64_t start;  /* lowest mapped address */
  uint64_t end;    /* one past the highest */
  uint64_t slide;  /* run-time address minus address in the file */
  uint64_t header; /* address of the ELF header in memory, 0 when it is not mapped */
  uint64_t phdr;   /* address of the program headers in memory */
  uint32_t phdr_count;
  const char *path;    /* in the loader's memory; read it guarded. Empty or NULL when it has none:
                          glibc gives the program itself no path */
  uint32_t link_space; /* 0: of the program's own namespace, 1…: of dlmopen(3). Only os_images says
                          it */
} os_image_t;

/* Finds the image that holds PC without taking the loader's lock. False when there is none. */
bool os_image_of_pc(uint64_t pc, os_image_t *out);

/* A number that changes whenever an image may have been added or removed; two equal answers mean
 * that what was learned of images in between still holds. A few loads. 0 when this loader offers
 * no such sign: then nothing learned may be trusted unasked. */
uint64_t os_loader_epoch_slow(void);

/* Where the usual loader keeps its counters: glibc, with no namespace but the program's own. */
typedef struct os_epoch_words {
  const uint64_t *adds;       /* images ever added */
  const uint32_t *loaded;     /* images loaded now */
  const uint64_t *namespaces; /* 1: the two words above are the whole story */
} os_epoch_words_t;
extern __attribute__((visibility("hidden"))) os_epoch_words_t os_epoch_words;

static inline uint64_t os_loader_epoch(void) {
  if (__builtin_expect(*os_epoch_words.namespaces == 1, 1))
    return __atomic_load_n(os_epoch_words.adds, __ATOMIC_ACQUIRE) << 24 |
           __atomic_load_n(os_epoch_words.loaded, __ATOMIC_RELAXED);
  return os_loader_epoch_slow();
}

/* Calls VISIT for every loaded image, in load order, reading the loader's list guarded. Stops when
 * VISIT returns false. Not for hot paths. */
void os_images(bool (*visit)(const os_image_t *image, void *context), void *context);

/* Calls RUN once, while no image can be unloaded (the loader's lock against that is held: RUN may
 * not load, unload or look up by the loader). -ENOSYS where there is no loader that could be asked;
 * RUN was not called then. Not in a signal handler. */
int os_loader_hold(void (*run)(void *context), void *context);

/* Apple: from now on the loader has CALLED run for each image that comes, when it is bound and
 * before its constructors, with the loader's lock held. One at a time. */
void os_loader_listen(void (*called)(void));

/* The function that the loader calls, empty, whenever its list of images has changed or is about to
 * (r_brk of link.h). 0 when there is none. */
uint64_t os_loader_breakpoint(void);

/* For each of NAMES the run-time address of the first definition among the images that follow, in
 * load order, the one that holds AFTER (0: among all), as the loader would find it; 0 where there
 * is none. Answers from the images' own tables; for start-up, before images come and go. */
void os_symbols(uint64_t after, const char *const *names, uint64_t *addresses, int count);

/* Prepares the above: finds the loader's tables. Called once, from sonde's constructor. */
void os_loader_init(void);

/* ---- Linux only: text of /proc ------------------------------------------------------------- */

/* Parses the text of /proc/PID/stat, except for the tid. Returns 0 or -EINVAL. */
int os_parse_thread(const char *text, os_thread_t *out);

/* Parses the text of /proc/PID/syscall. Returns 0, -EAGAIN for a running thread, or -EINVAL. */
int os_parse_blocked(const char *text, os_blocked_t *out);

#endif
