/* SPDX-License-Identifier: MIT
 *
 * A program's own stack, as addresses, as an id, and as text (sonde/stack.h, image.h, name.h,
 * status.h).
 *
 *   cc own_stack.c -lsonde && ./a.out
 */
#include <stdio.h>

#include <sonde/sonde.h>

#define NOINLINE __attribute__((noinline))

/* Where this function is called from, without the system's frames. */
static NOINLINE void print_caller(void) {
  uintptr_t pcs[64];
  int count = sonde_stack(pcs, 64); /* innermost first; also in a signal handler */
  if (count < 0) printf("no stack: %s\n", sonde_strerror(count));
  fflush(stdout);
  if (count > 0) sonde_stack_print(1, pcs, count, SONDE_NAME_APP_ONLY);
}

/* An id takes four bytes, and equal stacks have equal ids: it is what a log or a counter keeps. */
static NOINLINE uint32_t where(void) {
  uint32_t id = 0;
  return sonde_stack_id(&id) == 0 ? id : 0;
}

static int print_image(const sonde_image_t *image, void *count) {
  ++*(int *)count;
  if (image->flags & SONDE_IMAGE_PROGRAM)
    printf("the program is %s, build-id of %zu bytes, %u segments\n", image->path,
           image->build_id_size, image->segment_count);
  return 0; /* continue */
}

int main(void) {
  print_caller();

  uint32_t ids[3];
  volatile int captures = 3; /* a loop, so that there is one call of where */
  for (int i = 0; i < captures; i++)
    ids[i] = where();
  printf("three captures, %s\n", ids[0] == ids[1] && ids[1] == ids[2] ? "one id" : "several ids");
  char text[4096];
  if (sonde_stack_text(ids[0], SONDE_NAME_APP_ONLY, text, sizeof text) > 0) fputs(text, stdout);

  sonde_name_t name;
  if (sonde_name((uintptr_t)&print_caller, SONDE_NAME_EXACT, &name) == 0)
    printf("%s is in image %u\n", name.symbol, name.image_id);
  int images = 0;
  sonde_images(print_image, &images);
  printf("%s images\n", images > 1 ? "several" : "no");
  return 0;
}
