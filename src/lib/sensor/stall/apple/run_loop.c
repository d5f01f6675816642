/* SPDX-License-Identifier: MIT
 *
 * A run loop reports its activities to observers (CFRunLoop.h, CFRunLoopObserver). An iteration
 * begins after the loop has waited or is entered, and ends before it waits or is left.
 * CoreFoundation is looked up among the loaded images, so libsonde does not depend on it.
 *
 * There are two observers because their order matters. One runs before all others at the start of
 * an iteration. The other runs after all work before the wait (drawing, draining of autorelease
 * pools). A nested loop ends the iteration when it waits; when it exits, the outer iteration is the
 * current one. The callbacks run in the main thread only.
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
static void (*remove_observer)(void *loop, void *observer, const void *mode);
static void (*release)(const void *object);
static uint32_t depth; /* nested loops whose entry was observed */

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
  remove_observer = (void (*)(void *, void *, const void *))(uintptr_t)at[REMOVE];
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
    remove_observer(loop, observers[i], modes);
    release(observers[i]);
    observers[i] = NULL;
  }
}
