/* SPDX-License-Identifier: MIT
 *
 * The thread of an NSThread. Foundation has no function for it. The object holds another one, in
 * its variable _private, which holds the pthread_t in its variable tid; both names are the same
 * from macOS 10.9 and iOS 7 to today. The Objective-C runtime tells their places. What is read is
 * no pthread_t before it equals that of a living thread.
 */
#include <errno.h>

#include "base/bits.h"
#include "os/apple/thread.h"
#include "os/os.h"

#if defined(SONDE_APPLE_PRIVATE)

enum { CLASS_OF_OBJECT, CLASS_OF_NAME, SUPERCLASS, VARIABLE, OFFSET, FUNCTIONS };
static const char *const names[FUNCTIONS] = {"object_getClass", "objc_lookUpClass",
                                             "class_getSuperclass", "class_getInstanceVariable",
                                             "ivar_getOffset"};

typedef struct runtime {
  uint64_t (*class_of_object)(uint64_t object);
  uint64_t (*class_of_name)(const char *name);
  uint64_t (*superclass)(uint64_t class);
  uint64_t (*variable)(uint64_t class, const char *name);
  int64_t (*offset)(uint64_t variable);
} runtime_t;

static bool find_runtime(runtime_t *out) {
  uint64_t at[FUNCTIONS];
  os_symbols(0, names, at, FUNCTIONS);
  for (int i = 0; i < FUNCTIONS; i++)
    if (!at[i]) return false;
  out->class_of_object = (uint64_t(*)(uint64_t))(uintptr_t)at[CLASS_OF_OBJECT];
  out->class_of_name = (uint64_t(*)(const char *))(uintptr_t)at[CLASS_OF_NAME];
  out->superclass = (uint64_t(*)(uint64_t))(uintptr_t)at[SUPERCLASS];
  out->variable = (uint64_t(*)(uint64_t, const char *))(uintptr_t)at[VARIABLE];
  out->offset = (int64_t(*)(uint64_t))(uintptr_t)at[OFFSET];
  return true;
}

/* Returns the value of the variable NAME of OBJECT, a pointer; 0 if there is none. */
static uint64_t value_of(const runtime_t *r, uint64_t object, const char *name) {
  uint64_t variable = r->variable(r->class_of_object(object), name), value;
  if (!variable) return 0;
  uint64_t at = object + (uint64_t)r->offset(variable);
  return os_read_memory(at, &value, sizeof value) == sizeof value ? value : 0;
}

static bool is_thread(const runtime_t *r, uint64_t object) {
  uint64_t wanted = r->class_of_name("NSThread"), class = r->class_of_object(object);
  while (class && class != wanted)
    class = r->superclass(class);
  return wanted && class;
}

pid_t os_thread_of_object(uint64_t object) {
  runtime_t runtime;
  if (!find_runtime(&runtime)) return -ENOSYS;
  if (!is_thread(&runtime, object)) return -EINVAL;
  uint64_t data = value_of(&runtime, object, "_private");
  return data ? os_thread_of_living_handle(value_of(&runtime, data, "tid")) : -ENOSYS;
}

#else

pid_t os_thread_of_object(uint64_t object) {
  (void)object;
  return -ENOSYS;
}

#endif
