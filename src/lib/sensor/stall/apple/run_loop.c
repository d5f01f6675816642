/* SPDX-License-Identifier: MIT
 *
 * A run loop says of itself when it waits (CFRunLoop.h, CFRunLoopObserver): a turn begins when it
 * has waited, or is entered, and ends when it is about to wait, or is left. CoreFoundation is found
 * among the loaded images, so that libsonde does not need it.
 *
 * Two observers, since order counts: a turn begins before whatever else hangs on its beginning, and
 * ends behind all that is done before the wait (drawing, the draining of autorelease pools). A loop
 * inside a turn ends that turn when it waits; when it is left, the turn that goes on is the outer
 * one's. The callbacks run in the main thread alone.
 */
#include "sensor/stall/apple/run_loop.h"

#include <limits.h>

#include "base/bits.h"
#include "os/os.h"
#include "sensor/stall/self_monitor.h"

/* CFRunLoopActivity */
#define ENTRY          (1ul << 0)
#define BEFORE_WAITING (1ul << 5)
#define AFTER_WAITING  (1ul << 6)
#define EXIT           (1ul << 7)

typedef void callback_t(void *observer, unsigned long activity, void *info);

enum { GET_MAIN, CREATE, ADD, REMOVE, RELEASE, MODES, FUNCTIONS };
static const char *const names[FUNCTIONS] = {"CFRunLoopGetMain",
                                             "CFRunLoopObserverCreate",
                                             "CFRunLoopAddObserver",
                                             "CFRunLoopRemoveObserver",
                                             "CFRelease",
                                             "kCFRunLoopCommonModes"};

static void *loop, *observers[2];
static const void *modes;
static void (*take_off)(void *loop, void *observer, const void *mode);
static void (*release)(const void *object);
static uint32_t depth; /* loops in each other, as far as their entry was seen */

static void begins(void *observer, unsigned long activity, void *info) {
  (void)observer, (void)info;
  if (activity != ENTRY || depth++ == 0) self_monitor_loop_begin();
}

static void ends(void *observer, unsigned long activity, void *info) {
  (void)observer, (void)info;
  if (activity == EXIT && depth && --depth) return;
  self_monitor_loop_end();
}

void run_loop_watch(void) {
  uint64_t at[FUNCTIONS];
  os_symbols(0, names, at, FUNCTIONS);
  for (int i = 0; i < FUNCTIONS; i++)
    if (!at[i]) return;
  void *(*create)(const void *, unsigned long, unsigned char, long, callback_t *, const void *) =
      (void *(*)(const void *, unsigned long, unsigned char, long, callback_t *, const void *))(
          uintptr_t)at[CREATE];
  void (*add)(void *, void *, const void *) =
      (void (*)(void *, void *, const void *))(uintptr_t)at[ADD];
  take_off = (void (*)(void *, void *, const void *))(uintptr_t)at[REMOVE];
  release = (void (*)(const void *))(uintptr_t)at[RELEASE];
  modes = *(const void *const *)(uintptr_t)at[MODES];
  loop = ((void *(*)(void))(uintptr_t)at[GET_MAIN])();
  observers[0] = create(NULL, ENTRY | AFTER_WAITING, true, LONG_MIN, begins, NULL);
  observers[1] = create(NULL, BEFORE_WAITING | EXIT, true, LONG_MAX, ends, NULL);
  for (int i = 0; i < 2; i++)
    if (observers[i]) add(loop, observers[i], modes);
}

void run_loop_leave(void) {
  for (int i = 0; i < 2; i++) {
    if (!observers[i]) continue;
    take_off(loop, observers[i], modes);
    release(observers[i]);
    observers[i] = NULL;
  }
}
