/* SPDX-License-Identifier: MIT
 *
 * Of CoreFoundation's run loops what a program needs to have one: sources that are signalled,
 * observers by order and activity, loops inside loops. Names, types and numbers are those of
 * CFRunLoop.h; a loop waits in read, as one on macOS does in mach_msg. There is one mode.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "runloop.h"

#define MEMBERS_MAX 32

struct observer {
  CFOptionFlags activities;
  CFIndex order;
  CFRunLoopObserverCallBack *call;
  void *info;
  bool repeats, is_valid;
};

struct source {
  CFRunLoopSourceContext context;
  bool is_signalled;
};

struct loop {
  pthread_mutex_t lock;
  struct observer *observers[MEMBERS_MAX]; /* by order */
  struct source *sources[MEMBERS_MAX];
  int observer_count, source_count;
  int ends[2];
  bool is_stopped;
};

static struct loop main_loop = {.lock = PTHREAD_MUTEX_INITIALIZER};
EXPORT CFStringRef kCFRunLoopDefaultMode = "kCFRunLoopDefaultMode";
EXPORT CFStringRef kCFRunLoopCommonModes = "kCFRunLoopCommonModes";

__attribute__((constructor)) static void begin(void) {
  if (pipe(main_loop.ends) != 0) abort();
}

EXPORT CFRunLoopRef CFRunLoopGetMain(void) { return &main_loop; }

EXPORT CFRunLoopObserverRef CFRunLoopObserverCreate(const void *allocator, CFOptionFlags activities,
                                                    Boolean repeats, CFIndex order,
                                                    CFRunLoopObserverCallBack *call,
                                                    const CFRunLoopObserverContext *context) {
  struct observer *o = allocator ? NULL : malloc(sizeof *o);
  if (!o) abort();
  *o = (struct observer){activities, order, call, context ? context->info : NULL, repeats, true};
  return o;
}

EXPORT void CFRunLoopAddObserver(CFRunLoopRef loop, CFRunLoopObserverRef observer,
                                 CFStringRef mode) {
  if (mode != kCFRunLoopCommonModes || loop->observer_count == MEMBERS_MAX) abort();
  pthread_mutex_lock(&loop->lock);
  int i = loop->observer_count++;
  for (; i > 0 && loop->observers[i - 1]->order > observer->order; i--)
    loop->observers[i] = loop->observers[i - 1];
  loop->observers[i] = observer;
  pthread_mutex_unlock(&loop->lock);
}

EXPORT void CFRunLoopRemoveObserver(CFRunLoopRef loop, CFRunLoopObserverRef observer,
                                    CFStringRef mode) {
  int kept = 0;
  if (mode != kCFRunLoopCommonModes) abort();
  pthread_mutex_lock(&loop->lock);
  for (int i = 0; i < loop->observer_count; i++)
    if (loop->observers[i] != observer) loop->observers[kept++] = loop->observers[i];
  if (kept != loop->observer_count - 1) abort();
  loop->observer_count = kept;
  observer->is_valid = false;
  pthread_mutex_unlock(&loop->lock);
}

/* Of observers alone, which others may be calling: they stay. */
EXPORT void CFRelease(const void *object) {
  if (!object) abort();
}

/* Called without the lock, as CoreFoundation does. */
static void tell(struct loop *loop, CFOptionFlags activity) {
  struct observer *now[MEMBERS_MAX];
  pthread_mutex_lock(&loop->lock);
  int count = loop->observer_count;
  for (int i = 0; i < count; i++)
    now[i] = loop->observers[i];
  pthread_mutex_unlock(&loop->lock);
  for (int i = 0; i < count; i++) {
    if (!(now[i]->activities & activity) || !now[i]->is_valid) continue;
    if (!now[i]->repeats) abort();
    now[i]->call(now[i], activity, now[i]->info);
  }
}

EXPORT CFRunLoopSourceRef CFRunLoopSourceCreate(const void *allocator, CFIndex order,
                                                const CFRunLoopSourceContext *context) {
  struct source *s = allocator || order ? NULL : calloc(1, sizeof *s);
  if (!s) abort();
  s->context = *context;
  return s;
}

EXPORT void CFRunLoopAddSource(CFRunLoopRef loop, CFRunLoopSourceRef source, CFStringRef mode) {
  if (mode != kCFRunLoopCommonModes || loop->source_count == MEMBERS_MAX) abort();
  pthread_mutex_lock(&loop->lock);
  loop->sources[loop->source_count++] = source;
  pthread_mutex_unlock(&loop->lock);
}

EXPORT void CFRunLoopSourceSignal(CFRunLoopSourceRef source) {
  __atomic_store_n(&source->is_signalled, true, __ATOMIC_RELEASE);
}

EXPORT void CFRunLoopWakeUp(CFRunLoopRef loop) { (void)write(loop->ends[1], "w", 1); }

EXPORT void CFRunLoopStop(CFRunLoopRef loop) {
  __atomic_store_n(&loop->is_stopped, true, __ATOMIC_RELEASE);
  CFRunLoopWakeUp(loop);
}

static bool run_sources(struct loop *loop) {
  bool any = false;
  for (int i = 0; i < loop->source_count; i++) {
    struct source *s = loop->sources[i];
    if (!__atomic_exchange_n(&s->is_signalled, false, __ATOMIC_ACQ_REL)) continue;
    s->context.perform(s->context.info);
    any = true;
  }
  return any;
}

/* Ends when it is stopped, and then the loop around it goes on. */
EXPORT void CFRunLoopRun(void) {
  struct loop *loop = &main_loop;
  char byte;
  tell(loop, kCFRunLoopEntry);
  while (!__atomic_exchange_n(&loop->is_stopped, false, __ATOMIC_ACQ_REL)) {
    tell(loop, kCFRunLoopBeforeTimers);
    tell(loop, kCFRunLoopBeforeSources);
    if (run_sources(loop)) continue;
    tell(loop, kCFRunLoopBeforeWaiting);
    (void)read(loop->ends[0], &byte, 1);
    tell(loop, kCFRunLoopAfterWaiting);
  }
  tell(loop, kCFRunLoopExit);
}
