/* SPDX-License-Identifier: MIT
 *
 * x86_64 has variants for results in memory and on the x87 stack; both CPUs have variants for
 * super. A receiver's class is read with the runtime's object_getClass each time (the first word of
 * an object is not a plain pointer, and tagged objects are not in memory), with the vector
 * registers of the arguments saved. Rare work goes through arch_call_keeping.
 */
#include "sensor/trace/apple/objc_msgsend.h"

#include "arch/keep.h"
#include "base/bits.h"
#include "image/import_slots.h"
#include "os/os.h"
#include "sensor/trace/objc_methods.h"

#define PAIRS_MAX  (1u << 14)
#define PROBES_MAX 32u

const char *const objc_msgsend_names[OBJC_MSGSENDS] = {
    "objc_msgSend",        "objc_msgSend_stret",      "objc_msgSend_fpret",
    "objc_msgSend_fp2ret", "objc_msgSendSuper",       "objc_msgSendSuper_stret",
    "objc_msgSendSuper2",  "objc_msgSendSuper2_stret"};

/* How a function receives its receiver. */
typedef struct variant {
  uint8_t first; /* the argument with the receiver */
  /* the argument is a struct objc_super; its class is the one to begin in, or the method's own */
  bool is_super, is_own;
} variant_t;

static const variant_t variants[OBJC_MSGSENDS] = {
    {0, false, false}, {1, false, false}, {0, false, false}, {0, false, false},
    {0, true, false},  {1, true, false},  {0, true, true},   {1, true, true},
};

static uint64_t (*class_of)(uint64_t object);

uint32_t objc_msgsend_number(const char *name) {
  uint32_t i = 0;
  while (i < OBJC_MSGSENDS && !import_slots_text_equal(objc_msgsend_names[i], name))
    i++;
  return i;
}

bool objc_msgsend_find_runtime(void) {
  static const char *const name[] = {"object_getClass"};
  uint64_t found = 0;
  if (class_of) return true;
  os_symbols(0, name, &found, 1);
  if (!found || !objc_methods_find_runtime()) return false;
  class_of = (uint64_t(*)(uint64_t))(uintptr_t)found;
  return true;
}

/* ---- at a message ---------------------------------------------------------------------------- */

/* struct objc_super of objc/message.h: the receiver, and a class. */
uint64_t objc_msgsend_class(uint32_t number, const uint64_t *arguments) {
  const variant_t *v = &variants[number];
  uint64_t receiver = arguments[v->first];
  const uint64_t *super = (const uint64_t *)(uintptr_t)receiver;
  if (!receiver || !v->is_super) return receiver ? arch_ask_keeping(receiver, class_of) : 0;
  return super[0] ? super[1] + (v->is_own ? OBJC_MSGSEND_SUPER : 0) : 0;
}

uint64_t objc_msgsend_selector(uint32_t number, const uint64_t *arguments) {
  return arguments[variants[number].first + 1];
}

/* ---- tables ---------------------------------------------------------------------------------- */

bool objc_msgsend_table_make(objc_msgsend_table_t *table) {
  if (!table->pairs) table->pairs = os_map(PAIRS_MAX * sizeof(objc_msgsend_pair_t));
  return table->pairs != NULL;
}

static uint32_t place_of(uint64_t class, uint64_t selector) {
  return (uint32_t)((class ^ selector << 7) * UINT64_C(0x9e3779b97f4a7c15) >> 40) % PAIRS_MAX;
}

/* The pair, or its free entry; NULL: the table is full there. */
static objc_msgsend_pair_t *find(const objc_msgsend_table_t *table, uint64_t class,
                                 uint64_t selector) {
  uint32_t place = place_of(class, selector);
  for (uint32_t i = 0; i < PROBES_MAX; i++) {
    objc_msgsend_pair_t *pair = &table->pairs[(place + i) % PAIRS_MAX];
    uint64_t known = load_acquire(&pair->class);
    if (!known || (known == class && pair->selector == selector)) return pair;
  }
  return NULL;
}

static uint64_t value_of(const objc_msgsend_table_t *table, uint64_t class, uint64_t selector) {
  if (class & OBJC_MSGSEND_SUPER) class = objc_methods_superclass(class - OBJC_MSGSEND_SUPER);
  uint64_t method = class ? objc_methods_code(class, selector) : 0;
  return method ? table->meet(table, method, class, selector) : 0;
}

/* Calls the runtime without the lock: it may call the program. */
static void meet(uint64_t at, uint64_t class, uint64_t selector, uint64_t none) {
  objc_msgsend_table_t *table = (objc_msgsend_table_t *)(uintptr_t)at;
  uint32_t free = 0;
  (void)none;
  uint64_t value = value_of(table, class, selector);
  if (!cas_acq_rel(&table->lock, &free, 1u)) return; /* added at the next message */
  objc_msgsend_pair_t *pair = find(table, class, selector);
  if (pair && !pair->class) {
    pair->selector = selector;
    pair->value = value;
    store_release(&pair->class, class);
  } else if (!pair) {
    table->left();
  }
  store_release(&table->lock, 0u);
}

uint64_t objc_msgsend_value(objc_msgsend_table_t *table, uint64_t class, uint64_t selector) {
  const objc_msgsend_pair_t *pair = find(table, class, selector);
  if (UNLIKELY(!pair || !pair->class)) {
    if (pair) arch_call_keeping((uint64_t)(uintptr_t)table, class, selector, 0, meet);
    pair = find(table, class, selector);
    if (!pair || !load_acquire(&pair->class)) return 0;
  }
  return pair->value;
}
