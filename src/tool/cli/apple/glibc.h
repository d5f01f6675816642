/* SPDX-License-Identifier: MIT
 *
 * Names of glibc that macOS spells differently. Included before each file of the command
 * (src/apple.cmake).
 */
#ifndef SONDE_CLI_APPLE_GLIBC_H
#define SONDE_CLI_APPLE_GLIBC_H

#include <stdio.h>
#include <stdlib.h>

#define st_mtim                             st_mtimespec
#define fwrite_unlocked(p, size, n, stream) fwrite(p, size, n, stream)
#define fputs_unlocked(text, stream)        fputs(text, stream)

/* The qsort_r of the BSDs takes its context first. */
typedef int glibc_compare_fn(const void *left, const void *right, void *context);
typedef struct glibc_order {
  glibc_compare_fn *compare;
  void *context;
} glibc_order_t;

static inline int glibc_compare(void *order, const void *left, const void *right) {
  const glibc_order_t *o = order;
  return o->compare(left, right, o->context);
}

static inline void glibc_qsort_r(void *base, size_t count, size_t size, glibc_compare_fn *compare,
                                 void *context) {
  glibc_order_t order = {compare, context};
  qsort_r(base, count, size, &order, glibc_compare);
}
#define qsort_r glibc_qsort_r

#endif
