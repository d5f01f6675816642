/* SPDX-License-Identifier: MIT
 *
 * Growable arrays: a pointer to the items, a count, and a capacity that doubles. Adding an item
 * takes constant time on average.
 *
 *   ARRAY(point_t) points = {0};
 *   point_t *p = ARRAY_ADD(points);          // NULL: out of memory
 *   if (p) *p = (point_t){1, 2};
 *   …
 *   free(points.items);
 *
 * ARRAY_GROW does the same for a count and a capacity that are fields of their own. Pointers to
 * items are valid until the array grows. An array without items is all zeros. When memory runs out,
 * the array keeps its items.
 */
#ifndef SONDE_BASE_ARRAY_H
#define SONDE_BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* ITEMS, moved to memory for at least NEEDED items of SIZE bytes, NEEDED > 0. Updates *CAPACITY.
 * NULL when memory runs out: then ITEMS is still valid. */
static inline void *array_resized(void *items, size_t size, size_t needed, size_t *capacity) {
  if (needed <= *capacity) return items;
  size_t wanted = *capacity ? 2 * *capacity : 64;
  if (wanted < needed) wanted = needed;
  if (wanted > SIZE_MAX / 2 / size) return NULL;
  void *resized = realloc(items, wanted * size);
  if (resized) *capacity = wanted;
  return resized;
}

/* Makes space for NEEDED > 0 items in all; false when memory runs out. */
#define ARRAY_RESERVE(items, needed, capacity)                                                     \
  ({                                                                                               \
    void *array_items = array_resized((items), sizeof *(items), (needed), &(capacity));            \
    if (array_items) (items) = array_items;                                                        \
    array_items != NULL;                                                                           \
  })

/* Makes space for one item more than COUNT; false when memory runs out. */
#define ARRAY_GROW(items, count, capacity)                                                         \
  ((count) < (capacity) || ARRAY_RESERVE(items, (size_t)(count) + 1, capacity))

/* The number of leading items with CONDITION, an expression of the index INDEX, which must be true
 * for these and false for all later items. A binary search over COUNT items. */
#define ARRAY_SEARCH(count, index, condition)                                                      \
  ({                                                                                               \
    size_t array_low = 0, array_high = (count);                                                    \
    while (array_low < array_high) {                                                               \
      size_t index = array_low + (array_high - array_low) / 2;                                     \
      if (condition)                                                                               \
        array_low = index + 1;                                                                     \
      else                                                                                         \
        array_high = index;                                                                        \
    }                                                                                              \
    array_low;                                                                                     \
  })

/* An array as one variable. */
#define ARRAY(type)                                                                                \
  struct {                                                                                         \
    type *items;                                                                                   \
    size_t count, capacity;                                                                        \
  }

/* Adds an item, whose content is undefined, to an ARRAY. Its address; NULL when memory runs out. */
#define ARRAY_ADD(array)                                                                           \
  (ARRAY_GROW((array).items, (array).count, (array).capacity) ? &(array).items[(array).count++]    \
                                                              : NULL)

#endif
