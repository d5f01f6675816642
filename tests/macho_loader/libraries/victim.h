/* SPDX-License-Identifier: MIT
 *
 * A library beside the test program, and what it tells of its own call slot.
 */
#ifndef VICTIM_H
#define VICTIM_H

#include <stdbool.h>
#include <stdint.h>

int victim_call(void);
int (*victim_pointer(void))(void);
int victim_stat(const char *path);
double victim_weigh(double a, double b, double c, double d, double e, double f, double g, double h,
                    const char *name);
void *victim_next(const char *name); /* dlsym(RTLD_NEXT, …) of this library */

#endif
