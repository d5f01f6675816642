/* SPDX-License-Identifier: MIT */
#include "sensor/requests.h"

#include "base/bits.h"
#include "os/os.h"
#include "sensor/leaks/leaks.h"
#include "sensor/stall/stall.h"

static void asked(const void *ucontext) {
  stall_asked(ucontext);
  leaks_asked((void *)(uintptr_t)ucontext); /* it may change where the thread goes on */
}

bool question_start(void) { return os_signal_prepare_for_others(asked) == 0; }
