/* SPDX-License-Identifier: MIT
 *
 * Threads by NSThread objects. The classes have the variables that Foundation's have, in another
 * order.
 */
#include <objc/runtime.h>
#include <pthread.h>
#include <unistd.h>

#include "check.h"
#include "sonde/thread.h"

__attribute__((objc_root_class))
@interface _NSThreadData {
@public
  Class isa;
  void *target;
  double priority;
  pthread_t tid;
  int sequence;
}
@end
@implementation _NSThreadData
@end

__attribute__((objc_root_class))
@interface NSThread {
@public
  Class isa;
  char first[12];
  _NSThreadData *_private;
  char _bytes[44];
}
@end
@implementation NSThread
@end

@interface Worker : NSThread {
  long more;
}
@end
@implementation Worker
@end

__attribute__((objc_root_class))
@interface Unrelated {
@public
  Class isa;
  _NSThreadData *_private;
}
@end
@implementation Unrelated
@end

static int ends[2];

static void *wait_until_told(void *argument) {
  char byte;
  (void)read(ends[0], &byte, 1);
  return argument;
}

void check_ns_thread(void) {
  pthread_t thread;
  void *result;
  NSThread *object = class_createInstance(objc_lookUpClass("NSThread"), 0);
  NSThread *own = class_createInstance(objc_lookUpClass("Worker"), 0);
  Unrelated *other = class_createInstance(objc_lookUpClass("Unrelated"), 0);
  if (pipe(ends) != 0) return check(false, "a pipe");
  check(sonde_thread_of_nsthread(NULL) == SONDE_EINVAL, "no object");
  if (sonde_thread_of_nsthread(object) == SONDE_EUNSUPPORTED && !object->_private) {
    object->_private = class_createInstance(objc_lookUpClass("_NSThreadData"), 0);
    if (sonde_thread_of_nsthread(object) == SONDE_EUNSUPPORTED) return; /* built without it */
  }
  check(sonde_thread_of_nsthread(object) == SONDE_ENOTHREAD, "a thread that was not started");
  pthread_create(&thread, NULL, wait_until_told, NULL);
  object->_private->tid = thread;
  pid_t tid = sonde_thread_of_pthread(thread);
  check(tid > 0 && sonde_thread_of_nsthread(object) == tid, "a thread by its NSThread");
  own->_private = class_createInstance(objc_lookUpClass("_NSThreadData"), 0);
  own->_private->tid = pthread_self();
  check(sonde_thread_of_nsthread(own) == sonde_main_thread(), "by an object of a subclass");
  other->_private = object->_private;
  check(sonde_thread_of_nsthread(other) == SONDE_EINVAL, "another object is refused");
  (void)write(ends[1], "x", 1);
  pthread_join(thread, &result);
  check(sonde_thread_of_nsthread(object) == SONDE_ENOTHREAD, "its thread has ended");
  object->_private->tid = (pthread_t)(uintptr_t)0x1230;
  check(sonde_thread_of_nsthread(object) == SONDE_ENOTHREAD, "a number that is no thread");
}
