/* SPDX-License-Identifier: MIT
 *
 * Numbers the stacks of Apple's log in the order in which they are met. Used by one thread; grows
 * by os_map.
 */
#ifndef SONDE_SENSOR_MALLOC_STACK_NUMBERS_H
#define SONDE_SENSOR_MALLOC_STACK_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

/* All zero: empty. */
typedef struct stack_numbers {
  uint64_t *ids;   /* by number */
  uint32_t *slots; /* a hash table of number + 1; 0: free */
  uint32_t count, capacity;
} stack_numbers_t;

/* Sets *NUMBER to that of ID. False if memory runs out. */
bool stack_numbers_of(stack_numbers_t *all, uint64_t id, uint32_t *number);
void stack_numbers_free(stack_numbers_t *all);

#endif
