/* SPDX-License-Identifier: MIT
 *
 * Of CFRunLoop.h, which is not among the headers that are fetched, what the test program and the
 * small CoreFoundation beside it need: public names, types and numbers.
 */
#ifndef RUNLOOP_H
#define RUNLOOP_H

#define EXPORT __attribute__((visibility("default"), noinline))

typedef unsigned char Boolean;
typedef long CFIndex;
typedef unsigned long CFOptionFlags;
typedef const void *CFStringRef;
typedef struct loop *CFRunLoopRef;
typedef struct observer *CFRunLoopObserverRef;
typedef struct source *CFRunLoopSourceRef;
typedef void CFRunLoopObserverCallBack(CFRunLoopObserverRef observer, CFOptionFlags activity,
                                       void *info);

enum {
  kCFRunLoopEntry = 1,
  kCFRunLoopBeforeTimers = 2,
  kCFRunLoopBeforeSources = 4,
  kCFRunLoopBeforeWaiting = 32,
  kCFRunLoopAfterWaiting = 64,
  kCFRunLoopExit = 128,
};

typedef struct CFRunLoopObserverContext {
  CFIndex version;
  void *info;
  const void *(*retain)(const void *);
  void (*release)(const void *);
  CFStringRef (*describe)(const void *);
} CFRunLoopObserverContext;

typedef struct CFRunLoopSourceContext {
  CFIndex version;
  void *info;
  const void *(*retain)(const void *);
  void (*release)(const void *);
  CFStringRef (*describe)(const void *);
  Boolean (*equal)(const void *, const void *);
  CFOptionFlags (*hash)(const void *);
  void (*schedule)(void *, CFRunLoopRef, CFStringRef);
  void (*cancel)(void *, CFRunLoopRef, CFStringRef);
  void (*perform)(void *);
} CFRunLoopSourceContext;

EXPORT extern CFStringRef kCFRunLoopDefaultMode, kCFRunLoopCommonModes;
EXPORT CFRunLoopRef CFRunLoopGetMain(void);
EXPORT CFRunLoopObserverRef CFRunLoopObserverCreate(const void *allocator, CFOptionFlags activities,
                                                    Boolean repeats, CFIndex order,
                                                    CFRunLoopObserverCallBack *call,
                                                    const CFRunLoopObserverContext *context);
EXPORT void CFRunLoopAddObserver(CFRunLoopRef loop, CFRunLoopObserverRef o, CFStringRef mode);
EXPORT void CFRunLoopRemoveObserver(CFRunLoopRef loop, CFRunLoopObserverRef o, CFStringRef mode);
EXPORT CFRunLoopSourceRef CFRunLoopSourceCreate(const void *allocator, CFIndex order,
                                                const CFRunLoopSourceContext *context);
EXPORT void CFRunLoopAddSource(CFRunLoopRef loop, CFRunLoopSourceRef source, CFStringRef mode);
EXPORT void CFRunLoopSourceSignal(CFRunLoopSourceRef source);
EXPORT void CFRunLoopWakeUp(CFRunLoopRef loop);
EXPORT void CFRunLoopStop(CFRunLoopRef loop);
EXPORT void CFRunLoopRun(void);
EXPORT void CFRelease(const void *object);

#endif
