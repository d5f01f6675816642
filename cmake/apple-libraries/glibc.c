/* SPDX-License-Identifier: MIT
 *
 * The functions of glibc that elfutils calls and macOS does not have.
 */
#include <search.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tdestroy(void *root, void (*give_back)(void *));
void error(int status, int number, const char *format, ...);
void __libdwfl_seterrno(int number);
int __libdwfl_relocate_value(void);

static int any(const void *left, const void *right) {
  (void)left, (void)right;
  return 0;
}

/* A node's first word is its key (POSIX tsearch); the root is removed until there is none. */
void tdestroy(void *root, void (*give_back)(void *)) {
  while (root) {
    void *key = *(void **)root;
    tdelete(key, &root, any);
    give_back(key);
  }
}

/* elfutils says by this that there is no memory. */
void error(int status, int number, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fprintf(stderr, ": %s\n", strerror(number));
  if (status) exit(status);
}

/* Of libdwfl, which is not here; libdwelf shares a file with it whose part that asks for them is
 * for libdwfl alone. Nothing is relocated, and nobody asks why a build-id could not be read. */
void __libdwfl_seterrno(int number) { (void)number; }
int __libdwfl_relocate_value(void) { return 1; }
