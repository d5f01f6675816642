/* SPDX-License-Identifier: MIT
 *
 * What a thread may not call while it has suspended another one: whatever allocates or takes a lock
 * on macOS, since the suspended one may hold it. Such a stand-in is reached by a gate (entry.S).
 *
 * Not here, though they ask the kernel: calls about tasks, threads and memory that allocate nothing
 * in the task. A thread is not suspended while it holds a lock of the kernel's.
 */
#include <string.h>

#include "loader.h"

/* libmalloc; the maps that vm_allocate and mmap make; libpthread: its own locks, the lock of its
 * list of threads, which asking about another thread takes; dyld: its lock, or that of its list of
 * images; stdio, and what is made of malloc. */
static const char *const locking[] = {
    "_mac_host_zone_lock",
    "_mac_host_realloc",
    "_mac_host_calloc",
    "_mac_host_free",
    "_mac_host_vm_allocate",
    "_mac_host_vm_deallocate",
    "_mac_host_mmap",
    "_mac_host_munmap",
    "_shm_open",
    "_shm_unlink",
    "_task_threads",
    "_fork",
    "_exit",
    "___cxa_atexit",
    "_pthread_create",
    "_pthread_join",
    "_pthread_exit",
    "_pthread_atfork",
    "_pthread_key_create",
    "_pthread_mutex_lock",
    "_pthread_mutex_unlock",
    "_pthread_rwlock_rdlock",
    "_pthread_rwlock_tryrdlock",
    "_pthread_rwlock_wrlock",
    "_pthread_rwlock_unlock",
    "_pthread_mach_thread_np",
    "_pthread_from_mach_thread_np",
    "_pthread_getname_np",
    "_pthread_setname_np",
    "__dyld_image_count",
    "__dyld_get_image_header",
    "__dyld_get_image_vmaddr_slide",
    "__dyld_get_image_name",
    "__dyld_register_func_for_add_image",
    "__dyld_register_func_for_remove_image",
    "_dlopen",
    "_dlclose",
    "_mac_host_dlsym",
    "_dlerror",
    "_getenv",
    "_snprintf",
    "_sprintf",
    "_asprintf",
    "_vasprintf",
    "_vsnprintf",
    "_printf",
    "_fprintf",
    "_vfprintf",
    "_fopen",
    "_fdopen",
    "_fclose",
    "_fread",
    "_fwrite",
    "_fgets",
    "_fputs",
    "_fputc",
    "_fflush",
    "_puts",
    "_putchar",
    "_getline",
    "_opendir",
    "_fdopendir",
    "_readdir",
    "_scandir",
    "_closedir",
    "_realpath",
    "_strdup",
    "_strndup",
    "_qsort",
    "_qsort_r",
    "_tsearch",
    "_tdelete",
    "_localtime_r",
    "_gmtime_r",
    "_strftime",
};
_Static_assert(sizeof locking / sizeof *locking <= GATES_MAX, "a gate for each");

static void *targets[GATES_MAX];

void *gate_of(const stand_in_t *stand_in) {
  for (unsigned i = 0; i < sizeof locking / sizeof *locking; i++) {
    if (strcmp(locking[i], stand_in->name) != 0) continue;
    targets[i] = stand_in->address;
    return (void *)(gates + GATE_BYTES * i);
  }
  return stand_in->address;
}

/* Where gate NUMBER leads. */
void *gate_check(unsigned number);
__attribute__((target("general-regs-only"))) void *gate_check(unsigned number) {
  const mac_thread_t *self = thread_self();
  if (self && self->suspends) die("%s is called while a thread is suspended", locking[number] + 1);
  return targets[number];
}
