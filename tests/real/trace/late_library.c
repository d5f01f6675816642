/* SPDX-License-Identifier: MIT
 *
 * A library whose functions are called by its own constructor, before dlopen returns.
 */
#define KEEP __attribute__((noinline))

int late_work(int n);

static volatile int sum;

KEEP static int late_inner(int n) { return n * 3 + sum; }
KEEP int late_work(int n) { return late_inner(n) + late_inner(n + 1); }

__attribute__((constructor)) static void late_begins(void) { sum = late_work(1); }
