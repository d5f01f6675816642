/* SPDX-License-Identifier: MIT
 *
 * The functions of Apple's runtime that send messages, objc_msgSend and its kin, and tables of what
 * was found out about a class and a selector. All of it is called with the vector registers of the
 * message's arguments alive.
 */
#ifndef SONDE_SENSOR_TRACE_APPLE_OBJC_MSGSEND_H
#define SONDE_SENSOR_TRACE_APPLE_OBJC_MSGSEND_H

#include <stdbool.h>
#include <stdint.h>

#define OBJC_MSGSENDS 8
extern const char *const objc_msgsend_names[OBJC_MSGSENDS];

/* The number of the function NAME, or OBJC_MSGSENDS. */
uint32_t objc_msgsend_number(const char *name);

/* Finds what is asked of the runtime; false where there is none. */
bool objc_msgsend_find_runtime(void);

/* The class at which the search for the method begins, of a message by function NUMBER with these
 * ARGUMENTS; with OBJC_MSGSEND_SUPER added, in the one it inherits from. 0: the receiver is nil. */
uint64_t objc_msgsend_class(uint32_t number, const uint64_t *arguments);
uint64_t objc_msgsend_selector(uint32_t number, const uint64_t *arguments);
#define OBJC_MSGSEND_SUPER 1u

/* A class and a selector, and what they stand for. */
typedef struct objc_msgsend_pair {
  uint64_t class; /* 0: free; published last */
  uint64_t selector;
  uint64_t value; /* 0: a message that is not to be told */
} objc_msgsend_pair_t;

typedef struct objc_msgsend_table objc_msgsend_table_t;
struct objc_msgsend_table {
  objc_msgsend_pair_t *pairs;
  uint32_t lock; /* of who adds */
  /* The value for METHOD, the code with which objects of CLASS answer SELECTOR. Called once a pair,
   * as a rule, with the vector registers put aside. */
  uint64_t (*meet)(const objc_msgsend_table_t *table, uint64_t method, uint64_t class,
                   uint64_t selector);
  void (*left)(void); /* there was no room */
};

bool objc_msgsend_table_make(objc_msgsend_table_t *table);

/* The value for CLASS, which may have OBJC_MSGSEND_SUPER, and SELECTOR. */
uint64_t objc_msgsend_value(objc_msgsend_table_t *table, uint64_t class, uint64_t selector);

#endif
