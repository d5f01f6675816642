/* SPDX-License-Identifier: MIT
 *
 * The program's threads, and how one is stopped: a real-time signal whose handler waits until it is
 * let go on. Where it was stopped is the handler's ucontext. A pthread_t of the program is the
 * address of the record here; a mutex of the program holds glibc's behind Apple's signature.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "loader.h"

mac_thread_t threads[THREADS_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* see threads_lock */
static __thread mac_thread_t *self;
static __thread jmp_buf leave;

#define STOP_SIGNAL (SIGRTMIN + 5)
#define STACK_BYTES (512u << 10)
#define FIRST_PORT  0x103u

mac_thread_t *thread_self(void) { return self; }

static void futex_wait(uint32_t *word, uint32_t value) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}
static void futex_wake(uint32_t *word) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}
static void set(uint32_t *word, uint32_t value) {
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
  futex_wake(word);
}
static void wait_until(uint32_t *word, uint32_t value) {
  uint32_t now;
  while ((now = __atomic_load_n(word, __ATOMIC_ACQUIRE)) != value)
    futex_wait(word, now);
}

/* ---- the lock ------------------------------------------------------------------------------- */

/* Of the table: who is in it, and the tid of each. Who holds it is not stopped and runs no handler,
 * as it is with a thread in the kernel. Returns what threads_unlock takes. */
sigset_t threads_lock(void) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  pthread_mutex_lock(&lock);
  return before;
}

void threads_unlock(const sigset_t *before) {
  pthread_mutex_unlock(&lock);
  pthread_sigmask(SIG_SETMASK, before, NULL);
}

static void unlock_in_child(void) { lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; }

/* ---- stopping one --------------------------------------------------------------------------- */

static void stopped(int number, siginfo_t *info, void *context) {
  (void)number, (void)info;
  int saved = errno;
  self->context = context;
  __atomic_fetch_add(&self->stops, 1, __ATOMIC_RELAXED);
  compare_stopped(self, context);
  set(&self->arrived, 1);
  wait_until(&self->suspended, 0);
  set(&self->arrived, 0);
  errno = saved;
}

/* A thread leaves the table under the lock, when it sees that nobody stops it: the signal of one
 * that is in it always arrives. */
bool thread_stop(mac_thread_t *thread) {
  sigset_t before = threads_lock();
  if (thread->suspended || thread == self) die("a thread is suspended twice, or by itself");
  bool is_there = thread->tid != 0;
  if (is_there) {
    __atomic_store_n(&thread->suspended, 1, __ATOMIC_RELEASE);
    if (syscall(SYS_tgkill, getpid(), thread->tid, STOP_SIGNAL) != 0)
      die("tgkill: %s", strerror(errno));
  }
  threads_unlock(&before);
  if (!is_there) return false;
  wait_until(&thread->arrived, 1);
  self->suspends++;
  return true;
}

void thread_go_on(mac_thread_t *thread) {
  if (!thread->suspended) die("a thread is resumed that was not suspended");
  thread->context = NULL;
  set(&thread->suspended, 0);
  wait_until(&thread->arrived, 0);
  self->suspends--;
}

/* ---- the table ------------------------------------------------------------------------------ */

mac_thread_t *thread_of_port(uint32_t port) {
  uint32_t i = (port - FIRST_PORT) / 4;
  return port >= FIRST_PORT && i < THREADS_MAX && threads[i].is_used ? &threads[i] : NULL;
}

int threads_rights(void) {
  int rights = 0;
  for (int i = 0; i < THREADS_MAX; i++)
    rights += threads[i].rights;
  return rights;
}

static mac_thread_t *new_thread(void) {
  sigset_t before = threads_lock();
  mac_thread_t *found = NULL;
  for (uint32_t i = 0; i < THREADS_MAX && !found; i++) {
    if (threads[i].is_used) continue;
    found = &threads[i];
    *found = (mac_thread_t){.is_used = true, .port = FIRST_PORT + 4 * i, .rights = found->rights};
  }
  threads_unlock(&before);
  return found;
}

void threads_begin(void) {
  struct sigaction action = {.sa_sigaction = stopped, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigaction(STOP_SIGNAL, &action, NULL);
  pthread_atfork(NULL, NULL, unlock_in_child); /* before any handler of the program */
  self = new_thread();
  self->is_main = true;
  self->tid = (int)syscall(SYS_gettid);
}

/* Only the thread that forked is there; the rights of the others' ports are gone with them. */
void threads_after_fork(void) {
  for (int i = 0; i < THREADS_MAX; i++)
    if (&threads[i] != self) threads[i] = (mac_thread_t){0};
  self->tid = (int)syscall(SYS_gettid);
}

/* ---- pthread.h ------------------------------------------------------------------------------ */

/* Out of the table, unless somebody stops it: then it is stopped first. */
static void leave_table(void) {
  for (;;) {
    sigset_t before = threads_lock();
    bool is_free = !__atomic_load_n(&self->suspended, __ATOMIC_ACQUIRE);
    if (is_free) {
      sigaddset(&before, STOP_SIGNAL);
      self->tid = 0;
    }
    threads_unlock(&before);
    if (is_free) return;
  }
}

/* A thread is in the list from before pthread_create returns until it is about to end. It cannot
 * be stopped while it joins or leaves. */
static void *begin(void *argument) {
  self = argument;
  self->tid = (int)syscall(SYS_gettid);
  sigset_t set_of_one;
  sigemptyset(&set_of_one);
  sigaddset(&set_of_one, STOP_SIGNAL);
  set(&self->busy, 0);
  if (setjmp(leave) == 0) {
    pthread_sigmask(SIG_UNBLOCK, &set_of_one, NULL);
    enter_thread(stand_in("_mac_thread_start"), self->run, self->argument);
  }
  leave_table();
  return NULL;
}

static void mac_pthread_exit(void *result) {
  self->result = result;
  longjmp(leave, 1);
}

/* Its stack is whole pages of arm64's 16 KB. */
static int mac_pthread_create(mac_thread_t **out, const void *attributes, void *(*run)(void *),
                              void *argument) {
  if (attributes) die("pthread_create with attributes");
  mac_thread_t *thread = new_thread();
  if (!thread) return FACT_EAGAIN;
  thread->run = run;
  thread->argument = argument;
  thread->busy = 1;
  uint64_t room =
      (uint64_t)mmap(NULL, STACK_BYTES + 2 * 16384, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void *stack = (void *)((room + 2 * 16384 - 1) & ~16383ull);
  mprotect(stack, STACK_BYTES, PROT_READ | PROT_WRITE);
  pthread_attr_t own;
  pthread_attr_init(&own);
  pthread_attr_setstack(&own, stack, STACK_BYTES);
  thread->stack = (uint64_t)stack;
  thread->stack_bytes = STACK_BYTES;
  sigset_t one, before;
  sigemptyset(&one);
  sigaddset(&one, STOP_SIGNAL);
  pthread_sigmask(SIG_BLOCK, &one, &before); /* the new one inherits it */
  int error = pthread_create(&thread->host, &own, begin, thread);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (error) die("pthread_create: %s", strerror(error));
  wait_until(&thread->busy, 0);
  *out = thread;
  return 0;
}

#define RIGHTS_SECONDS 300

/* Who listed the threads while this one was there may hold a right to it still, and may be waiting
 * for a CPU; nobody gets another one. */
static int mac_pthread_join(mac_thread_t *thread, void **result) {
  pthread_join(thread->host, NULL);
  if (result) *result = thread->result;
  for (int i = 0; __atomic_load_n(&thread->rights, __ATOMIC_ACQUIRE); i++) {
    if (i == RIGHTS_SECONDS * 1000) die("rights to a thread that has ended were not given back");
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  sigset_t before = threads_lock();
  thread->is_used = false;
  threads_unlock(&before);
  return 0;
}

static void *mac_pthread_self(void) { return self; }
static int mac_pthread_main_np(void) { return self && self->is_main; }
static uint32_t mac_pthread_mach_thread_np(const mac_thread_t *thread) { return thread->port; }
static mac_thread_t *mac_pthread_from_mach_thread_np(uint32_t port) { return thread_of_port(port); }

static int mac_pthread_threadid_np(const mac_thread_t *thread, uint64_t *id) {
  *id = (uint64_t)(thread ? thread : self)->tid;
  return 0;
}

static int mac_pthread_setname_np(const char *name) {
  snprintf(self->name, sizeof self->name, "%s", name);
  return 0;
}

static int mac_pthread_getname_np(const mac_thread_t *thread, char *out, size_t size) {
  snprintf(out, size, "%s", thread->name);
  return 0;
}

/* Where it begins: stacks grow down. */
static void *mac_pthread_get_stackaddr_np(const mac_thread_t *thread) {
  return (void *)(thread->stack + thread->stack_bytes);
}
static size_t mac_pthread_get_stacksize_np(const mac_thread_t *thread) {
  return thread->stack_bytes;
}

static int mac_pthread_equal(const void *a, const void *b) { return a == b; }

typedef struct mac_mutex {
  uint64_t signature;
  pthread_mutex_t host;
} mac_mutex_t;
_Static_assert(sizeof(mac_mutex_t) <= FACT_sizeof_mutex, "glibc's mutex fits behind the signature");

static pthread_mutex_t *host_mutex(mac_mutex_t *mutex) {
  if (mutex->signature != MUTEX_SIGNATURE) die("a mutex was not initialised");
  return &mutex->host;
}
static int mac_pthread_mutex_lock(mac_mutex_t *m) { return pthread_mutex_lock(host_mutex(m)); }
static int mac_pthread_mutex_unlock(mac_mutex_t *m) { return pthread_mutex_unlock(host_mutex(m)); }

/* ---- keys, forks ----------------------------------------------------------------------------- */

static int mac_pthread_key_create(uint64_t *key, void (*destructor)(void *)) {
  pthread_key_t host;
  int error = pthread_key_create(&host, destructor);
  *key = host + DATA_MAX;
  return error ? mac_error(error) : 0;
}
/* The keys below DATA_MAX are the system's: pthread_key_init_np makes them, and they are in the
 * thread's own table, where the kernel's handle of the thread points. */
static int mac_pthread_key_init_np(int key, void (*destructor)(void *)) {
  if (key <= 0 || key >= DATA_MAX || destructor) die("pthread_key_init_np of %d", key);
  return 0;
}
static void *mac_pthread_getspecific(uint64_t key) {
  return key < DATA_MAX ? self->data[key] : pthread_getspecific((unsigned)(key - DATA_MAX));
}
static int mac_pthread_setspecific(uint64_t key, const void *value) {
  if (key >= DATA_MAX) return pthread_setspecific((unsigned)(key - DATA_MAX), value);
  self->data[key] = (void *)(uintptr_t)value;
  return 0;
}
static int mac_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void)) {
  return pthread_atfork(prepare, parent, child);
}

/* ---- thread-local variables ----------------------------------------------------------------- */

static __thread uint8_t *blocks[IMAGES_MAX];

/* Called by tlv_thunk. */
void *tlv_address(const uint64_t descriptor[3]);
void *tlv_address(const uint64_t descriptor[3]) {
  const mac_image_t *image = &images[descriptor[1]];
  uint8_t **block = &blocks[descriptor[1]];
  if (!*block) {
    /* By the program's own malloc, as dyld does it: who listens to that is called from here. */
    void *(*allocate)(size_t) = (void *(*)(size_t))(uintptr_t)stand_in("_malloc");
    uint8_t *fresh = allocate(image->thread_size);
    memset(fresh, 0, image->thread_size);
    *block = fresh;
    memcpy(*block, image->thread_template, image->thread_file_size);
  }
  return *block + descriptor[2];
}

/* ---- the allocator's lock ------------------------------------------------------------------- */

static pthread_mutex_t zone_lock = PTHREAD_MUTEX_INITIALIZER; /* of system/malloc.c */

static void mac_zone_lock(void) { pthread_mutex_lock(&zone_lock); }
static void mac_zone_unlock(void) { pthread_mutex_unlock(&zone_lock); }

/* A size that is asked for by nobody else: malloc keeps its lock for that one until its thread has
 * been suspended three times. 0: there is none. */
static uint64_t mac_held_size(void) {
  const char *text = getenv("MACHO_HELD_SIZE");
  return text ? strtoull(text, NULL, 0) : 0;
}
static const volatile uint32_t *mac_own_stops(void) { return &self->stops; }

/* Handlers of pthread_atfork run in the child, which has one thread. */
static int mac_fork(void) {
  mac_zone_lock();
  int pid = fork();
  if (pid == 0) threads_after_fork();
  mac_zone_unlock();
  return pid;
}

const stand_in_t thread_stand_ins[] = {
    {"_mac_host_zone_lock", mac_zone_lock},
    {"_mac_host_zone_unlock", mac_zone_unlock},
    {"_mac_host_held_size", mac_held_size},
    {"_mac_host_own_stops", mac_own_stops},
    {"_fork", mac_fork},
    {"_pthread_create", mac_pthread_create},
    {"_pthread_join", mac_pthread_join},
    {"_pthread_exit", mac_pthread_exit},
    {"_pthread_self", mac_pthread_self},
    {"_pthread_get_stackaddr_np", mac_pthread_get_stackaddr_np},
    {"_pthread_get_stacksize_np", mac_pthread_get_stacksize_np},
    {"_pthread_equal", mac_pthread_equal},
    {"_pthread_main_np", mac_pthread_main_np},
    {"_pthread_mach_thread_np", mac_pthread_mach_thread_np},
    {"_pthread_from_mach_thread_np", mac_pthread_from_mach_thread_np},
    {"_pthread_key_init_np", mac_pthread_key_init_np},
    {"_pthread_threadid_np", mac_pthread_threadid_np},
    {"_pthread_setname_np", mac_pthread_setname_np},
    {"_pthread_getname_np", mac_pthread_getname_np},
    {"_pthread_mutex_lock", mac_pthread_mutex_lock},
    {"_pthread_mutex_unlock", mac_pthread_mutex_unlock},
    {"_pthread_key_create", mac_pthread_key_create},
    {"_pthread_getspecific", mac_pthread_getspecific},
    {"_pthread_setspecific", mac_pthread_setspecific},
    {"_pthread_atfork", mac_pthread_atfork},
    {"__tlv_bootstrap", tlv_thunk},
    {NULL, NULL},
};
