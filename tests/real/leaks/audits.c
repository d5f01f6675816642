/* SPDX-License-Identifier: MIT
 *
 * Loses 40 audits, each with the record that it points to: see leaks_at_exit.py.
 */
#include <stdio.h>
#include <stdlib.h>

typedef struct audit {
  char *record;
  struct audit *previous;
} audit_t;

static audit_t *volatile last_audit;

static void audit(const char *what) {
  audit_t *a = malloc(sizeof *a);
  if (!a || !(a->record = malloc(900))) abort();
  snprintf(a->record, 900, "audit of %s", what);
  a->previous = NULL; /* last_audit is forgotten */
  last_audit = a;
}

/* Old pointers on the stack would hide a leak. */
static void __attribute__((noinline)) clear_stack(void) {
  volatile char old[8192];
  for (size_t i = 0; i < sizeof old; i++)
    old[i] = 0;
}

int main(void) {
  for (int i = 0; i < 41; i++)
    audit("a shelf");
  clear_stack();
}
