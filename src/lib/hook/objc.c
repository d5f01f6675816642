/* SPDX-License-Identifier: MIT
 *
 * sonde/objc.h. The replacements of one method form a chain through their originals: the newest one
 * is in the method, and each calls the previous one. All of it is changed under the hooks' lock.
 */
#include "sonde/objc.h"

#include "base/bits.h"
#include "hook/internal.h"

#define EXCHANGES_MAX 1024u
#define NAME_MAX      512u

struct sonde_objc_exchange {
  uint64_t method; /* struct objc_method; 0: free */
  void *replacement, **original;
};

static sonde_objc_exchange_t exchanges[EXCHANGES_MAX];

/* Functions of the runtime, which both GNU's and Apple's have. */
static struct {
  uint64_t (*class_of)(const char *name);
  uint64_t (*selector)(const char *name);
  uint64_t (*method)(uint64_t class, uint64_t selector);
  uint64_t (*superclass)(uint64_t class);
  void *(*implementation)(uint64_t method);
  void *(*set)(uint64_t method, void *implementation);
  uint64_t (*class_of_object)(uint64_t object); /* Apple's; NULL: an object begins with its class */
} runtime;

static void find_runtime(void *found) {
  static const char *const names[] = {"objc_lookUpClass",         "sel_registerName",
                                      "class_getInstanceMethod",  "class_getSuperclass",
                                      "method_getImplementation", "method_setImplementation",
                                      "object_getClass"};
  uint64_t at[ARRAY_COUNT(names)];
  os_symbols(0, names, at, ARRAY_COUNT(names));
  *(bool *)found = true;
  for (uint32_t i = 0; i + 1 < ARRAY_COUNT(names); i++)
    *(bool *)found &= at[i] != 0;
  runtime.class_of = (uint64_t(*)(const char *))(uintptr_t)at[0];
  runtime.selector = (uint64_t(*)(const char *))(uintptr_t)at[1];
  runtime.method = (uint64_t(*)(uint64_t, uint64_t))(uintptr_t)at[2];
  runtime.superclass = (uint64_t(*)(uint64_t))(uintptr_t)at[3];
  runtime.implementation = (void *(*)(uint64_t))(uintptr_t)at[4];
  runtime.set = (void *(*)(uint64_t, void *))(uintptr_t)at[5];
  runtime.class_of_object = (uint64_t(*)(uint64_t))(uintptr_t)at[6];
}

/* Copies the text before END to OUT and returns the text behind END. Returns NULL if END is missing
 * or comes first. */
static const char *copy_until(const char *text, char end, char *out) {
  uint32_t n = 0;
  for (; text[n] && text[n] != end; n++) {
    if (n == NAME_MAX - 1) return NULL;
    out[n] = text[n];
  }
  out[n] = 0;
  return text[n] && n ? text + n + 1 : NULL;
}

/* The method that TEXT names. */
static int find_method(const char *text, uint64_t *method) {
  char class_name[NAME_MAX], selector_name[NAME_MAX];
  bool is_of_class = text[0] == '+', found = false;
  if ((!is_of_class && text[0] != '-') || text[1] != '[') return SONDE_EINVAL;
  const char *rest = copy_until(text + 2, ' ', class_name);
  if (!rest) return SONDE_EINVAL;
  rest = copy_until(rest, ']', selector_name);
  if (!rest || *rest) return SONDE_EINVAL;
  if (os_loader_hold(find_runtime, &found) < 0 || !found) return SONDE_EUNSUPPORTED;
  uint64_t class = runtime.class_of(class_name);
  if (!class) return SONDE_ENOTFOUND;
  if (is_of_class)
    class = runtime.class_of_object ? runtime.class_of_object(class)
                                    : *(const uint64_t *)(uintptr_t) class;
  uint64_t selector = runtime.selector(selector_name), above = runtime.superclass(class);
  *method = runtime.method(class, selector);
  bool inherits = above && *method && runtime.method(above, selector) == *method;
  return *method && !inherits ? SONDE_OK : SONDE_ENOTFOUND;
}

int sonde_objc_exchange(const char *text, void *replacement, void **original,
                        sonde_objc_exchange_t **exchange) {
  uint64_t method;
  if (!text || !replacement || !original || !exchange) return SONDE_EINVAL;
  int status = find_method(text, &method);
  if (status < 0) return status;
  if (!hooks_lock(0)) return SONDE_EBUSY;
  sonde_objc_exchange_t *e = exchanges;
  while (e < exchanges + EXCHANGES_MAX && e->method)
    e++;
  if (e == exchanges + EXCHANGES_MAX) {
    status = SONDE_EFULL;
  } else {
    *e = (sonde_objc_exchange_t){method, replacement, original};
    store_release(original, runtime.implementation(method));
    (void)runtime.set(method, replacement);
    *exchange = e;
  }
  hooks_unlock();
  return status;
}

/* The replacement of the same method that calls E. */
static sonde_objc_exchange_t *one_before(const sonde_objc_exchange_t *e) {
  for (sonde_objc_exchange_t *o = exchanges; o < exchanges + EXCHANGES_MAX; o++)
    if (o != e && o->method == e->method && *o->original == e->replacement) return o;
  return NULL;
}

int sonde_objc_restore(sonde_objc_exchange_t *e) {
  uint64_t offset = (uint64_t)(uintptr_t)e - (uint64_t)(uintptr_t)exchanges;
  if (offset >= sizeof exchanges || offset % sizeof *e) return SONDE_ENOTFOUND;
  if (!hooks_lock(0)) return SONDE_EBUSY;
  int status = e->method ? SONDE_OK : SONDE_ENOTFOUND;
  sonde_objc_exchange_t *outer = e->method ? one_before(e) : NULL;
  if (outer)
    store_release(outer->original, *e->original);
  else if (e->method && runtime.implementation(e->method) == e->replacement)
    (void)runtime.set(e->method, *e->original);
  else if (e->method)
    status = SONDE_EBUSY;
  if (status == SONDE_OK) e->method = 0;
  hooks_unlock();
  return status;
}
