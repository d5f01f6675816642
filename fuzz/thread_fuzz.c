/* SPDX-License-Identifier: MIT
 *
 * The files of /proc about a thread, whose name the program can set to any bytes.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "os/linux/internal.h"
#include "os/os.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  os_thread_t thread;
  os_blocked_t blocked;
  char *text = malloc(size + 1);
  memcpy(text, data, size);
  text[size] = '\0';
  if (os_parse_thread(text, &thread) == 0 && memchr(thread.name, '\0', sizeof thread.name) == NULL)
    abort();
  (void)os_parse_blocked(text, &blocked);
  free(text);
  return 0;
}
