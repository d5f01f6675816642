/* SPDX-License-Identifier: MIT
 *
 * Apple's functions for its malloc log. Declarations are those of private/stack_logging.h in
 * libmalloc 283 to 521; libmalloc's malloc.c forwards each to the function of the framework whose
 * name begins with msl_, with the same arguments.
 */
#ifndef SONDE_SENSOR_MALLOC_APPLE_LOG_API_H
#define SONDE_SENSOR_MALLOC_APPLE_LOG_API_H

#include <stdbool.h>
#include <stdint.h>

/* STACK_LOGGING_MAX_STACK_SIZE */
#define APPLE_STACK_MAX 512u

/* mach_stack_logging_record_t */
typedef struct apple_log_record {
  uint32_t type; /* with the VM tag */
  uint64_t stack, argument, address;
} apple_log_record_t;

typedef void apple_log_visit_t(apple_log_record_t record, void *context);

/* Results: 0 is success (kern_return_t), except of turn_on, where it is failure (boolean_t). */
typedef struct apple_log_api {
  int (*turn_on)(int mode);
  void (*turn_off)(void);
  int (*start_reading)(uint32_t task, uint64_t shared_memory, int *is_lite);
  int (*stop_reading)(uint32_t task);
  int (*enumerate)(uint32_t task, uint64_t address, apple_log_visit_t *visit, void *context);
  void *(*copy_table)(uint32_t task);
  int (*read_stack)(void *table, uint64_t stack, uint64_t *frames, uint32_t *count, uint32_t max);
  void (*release_table)(void *table);
  const uint64_t *shared_memory; /* NULL: unknown */
} apple_log_api_t;

/* Loads the framework and finds its functions. False if one is missing. */
bool apple_log_api(apple_log_api_t *out);

#endif
