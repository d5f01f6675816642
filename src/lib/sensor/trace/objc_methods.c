/* SPDX-License-Identifier: MIT */
#include "sensor/trace/objc_methods.h"

#include "image/import_slots.h"
#include "os/os.h"

/* Functions of the runtime; called where the program has called the runtime. */
static struct {
  const char *(*class_name)(uint64_t class);
  const char *(*selector_name)(uint64_t selector);
  uint64_t (*superclass)(uint64_t class);
  bool (*is_meta)(uint64_t class);
  uint64_t (*method)(uint64_t class, uint64_t selector); /* struct objc_method */
  uint64_t (*code)(uint64_t method);
} runtime;

bool objc_methods_find_runtime(void) {
  static const char *const names[] = {"class_getName",           "sel_getName",
                                      "class_getSuperclass",     "class_isMetaClass",
                                      "class_getInstanceMethod", "method_getImplementation"};
  uint64_t found[ARRAY_COUNT(names)];
  os_symbols(0, names, found, ARRAY_COUNT(names));
  for (uint32_t i = 0; i < ARRAY_COUNT(names); i++)
    if (!found[i]) return false;
  runtime.class_name = (const char *(*)(uint64_t))(uintptr_t)found[0];
  runtime.selector_name = (const char *(*)(uint64_t))(uintptr_t)found[1];
  runtime.superclass = (uint64_t(*)(uint64_t))(uintptr_t)found[2];
  runtime.is_meta = (bool (*)(uint64_t))(uintptr_t)found[3];
  runtime.method = (uint64_t(*)(uint64_t, uint64_t))(uintptr_t)found[4];
  runtime.code = (uint64_t(*)(uint64_t))(uintptr_t)found[5];
  return true;
}

bool objc_methods_is_lookup(const char *name, bool *is_super) {
  *is_super = import_slots_text_equal(name, "objc_msg_lookup_super");
  return *is_super || import_slots_text_equal(name, "objc_msg_lookup");
}

static char *append(char *out, const char *end, const char *text) {
  while (*text && out < end)
    *out++ = *text++;
  return out;
}

/* The class that implements method SELECTOR of CLASS: itself or a superclass. 0: none, the message
 * is forwarded. */
static uint64_t owner_of(uint64_t class, uint64_t selector) {
  uint64_t method = runtime.method(class, selector);
  while (method) {
    uint64_t above = runtime.superclass(class);
    if (!above || runtime.method(above, selector) != method) return class;
    class = above;
  }
  return 0;
}

uint64_t objc_methods_code(uint64_t class, uint64_t selector) {
  uint64_t method = runtime.method(class, selector);
  return method ? runtime.code(method) : 0;
}

uint64_t objc_methods_superclass(uint64_t class) { return runtime.superclass(class); }

bool objc_methods_name(uint64_t method, uint64_t class, uint64_t selector, char *name, bool *made) {
  os_image_t image;
  bool in_image = os_image_of_pc(method, &image);
  if (made) *made = !in_image;
  uint64_t owner = in_image ? owner_of(class, selector) : 0;
  if (!owner) return false;
  const char *end = name + METHOD_NAME_MAX - 2;
  name = append(name, end, runtime.is_meta(owner) ? "+[" : "-[");
  name = append(name, end, runtime.class_name(owner));
  name = append(name, end, " ");
  name = append(name, end, runtime.selector_name(selector));
  name = append(name, name + 1, "]");
  *name = 0;
  return true;
}
