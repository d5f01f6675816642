/* SPDX-License-Identifier: MIT
 *
 * The functions of Apple's runtime that send messages: objc_msgSend and its variants, and tables of
 * facts about pairs of class and selector. All of it may be called while vector registers hold the
 * message's arguments.
 */
#ifndef SONDE_SENSOR_TRACE_APPLE_OBJC_MSGSEND_H
#define SONDE_SENSOR_TRACE_APPLE_OBJC_MSGSEND_H

#include <stdbool.h>
#include <stdint.h>

#define OBJC_MSGSENDS 8
extern const char *const objc_msgsend_names[OBJC_MSGSENDS];

/* The number of the function NAME, or OBJC_MSGSENDS. */
uint32_t objc_msgsend_number(const char *name);

/* Finds the runtime's functions; false if there is no runtime. */
bool objc_msgsend_find_runtime(void);

/* The class where the method look-up of a message begins, for function NUMBER with these ARGUMENTS;
 * plus OBJC_MSGSEND_SUPER if it begins in its superclass. 0: the receiver is nil. */
uint64_t objc_msgsend_class(uint32_t number, const uint64_t *arguments);
uint64_t objc_msgsend_selector(uint32_t number, const uint64_t *arguments);
#define OBJC_MSGSEND_SUPER 1u

/* A class, a selector, and the value of the pair. */
typedef struct objc_msgsend_pair {
  uint64_t class; /* 0: free; stored last */
  uint64_t selector;
  uint64_t value; /* 0: not to be recorded */
} objc_msgsend_pair_t;

typedef struct objc_msgsend_table objc_msgsend_table_t;
struct objc_msgsend_table {
  objc_msgsend_pair_t *pairs;
  uint32_t lock; /* held to add a pair */
  /* The value for METHOD, the code of SELECTOR in CLASS. Usually called once per pair, with vector
   * registers saved. */
  uint64_t (*meet)(const objc_msgsend_table_t *table, uint64_t method, uint64_t class,
                   uint64_t selector);
  void (*left)(void); /* the table is full */
};

bool objc_msgsend_table_make(objc_msgsend_table_t *table);

/* The value for CLASS, which may include OBJC_MSGSEND_SUPER, and SELECTOR. */
uint64_t objc_msgsend_value(objc_msgsend_table_t *table, uint64_t class, uint64_t selector);

#endif
