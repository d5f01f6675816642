/* SPDX-License-Identifier: MIT */
#include "sensor/requests.h"

#include "base/bits.h"
#include "os/os.h"
#include "sensor/leaks/leaks.h"
#include "sensor/stall/stall.h"

static void asked(const void *ucontext) {
  stall_on_request(ucontext);
  leaks_on_request((void *)(uintptr_t)ucontext); /* it may change where the thread goes on */
}

bool requests_start(void) { return os_signal_prepare_for_others(asked) == 0; }
