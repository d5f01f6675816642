/* SPDX-License-Identifier: MIT
 *
 * dyld's calls: the list of images, its callbacks, dlopen and dlsym. The images that there are when
 * a callback is registered are told of at once, later ones before their constructors run. An image
 * that is closed is told of and its memory is given back.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "loader.h"

#define CALLBACKS_MAX 16
typedef void image_callback_t(const void *header, int64_t slide);
static image_callback_t *on_add[CALLBACKS_MAX], *on_remove[CALLBACKS_MAX];
static int add_count, remove_count;
static char problem[256];

static uint32_t mac_dyld_image_count(void) { return (uint32_t)image_count; }

/* The program is the first of the list; here it comes after the system's image, which it needs. */
static const mac_image_t *image_at(uint32_t i) {
  if (i >= (uint32_t)image_count) return NULL;
  if (i < 2) i = 1 - i;
  return images[i].is_gone ? NULL : &images[i];
}
static const void *mac_dyld_get_image_header(uint32_t i) {
  return image_at(i) ? image_at(i)->header : NULL;
}
static int64_t mac_dyld_get_image_vmaddr_slide(uint32_t i) {
  return image_at(i) ? image_at(i)->slide : 0;
}
static const char *mac_dyld_get_image_name(uint32_t i) {
  return image_at(i) ? image_at(i)->path : NULL;
}

void dyld_tell_added(const mac_image_t *image) {
  for (int i = 0; i < add_count; i++)
    on_add[i](image->header, image->slide);
}

static void mac_register_add(image_callback_t *callback) {
  if (add_count == CALLBACKS_MAX) die("too many callbacks");
  on_add[add_count++] = callback;
  for (int i = 0; i < image_count; i++)
    if (!images[i].is_gone) callback(images[i].header, images[i].slide);
}

static void mac_register_remove(image_callback_t *callback) {
  if (remove_count == CALLBACKS_MAX) die("too many callbacks");
  on_remove[remove_count++] = callback;
}

static void *mac_dlopen(const char *path, int mode) {
  int before = image_count;
  mac_image_t *image = image_load(path, false);
  if (!image) {
    snprintf(problem, sizeof problem, "no such file: %s", path);
    return NULL;
  }
  if (mode & (int)FACT_RTLD_NOLOAD) die("dlopen with RTLD_NOLOAD");
  for (int i = before; i < image_count; i++)
    dyld_tell_added(&images[i]);
  for (int i = before; i < image_count; i++)
    image_start(&images[i]);
  return image;
}

static int mac_dlclose(mac_image_t *image) {
  for (int i = 0; i < remove_count; i++)
    on_remove[i](image->header, image->slide);
  image->is_gone = true;
  munmap((void *)image->start, image->end - image->start);
  return 0;
}

/* kernel.S jumps here: the return address is the caller's. */
static void *mac_host_dlsym(void *handle, const char *name) {
  return symbol_for_dlsym(handle, name, image_holding((uint64_t)__builtin_return_address(0)));
}

static char *mac_dlerror(void) { return problem; }

/* Never called: the loader has bound what is lazy. */
static void mac_stub_binder(void) { die("dyld_stub_binder was called"); }

const stand_in_t dyld_stand_ins[] = {
    {"__dyld_image_count", mac_dyld_image_count},
    {"__dyld_get_image_header", mac_dyld_get_image_header},
    {"__dyld_get_image_vmaddr_slide", mac_dyld_get_image_vmaddr_slide},
    {"__dyld_get_image_name", mac_dyld_get_image_name},
    {"__dyld_register_func_for_add_image", mac_register_add},
    {"__dyld_register_func_for_remove_image", mac_register_remove},
    {"_dlopen", mac_dlopen},
    {"_dlclose", mac_dlclose},
    {"_mac_host_dlsym", mac_host_dlsym},
    {"_dlerror", mac_dlerror},
    {"dyld_stub_binder", mac_stub_binder},
    {NULL, NULL},
};
