/* SPDX-License-Identifier: MIT
 *
 * What a virtual machine's name of generated code says: the function, and where it is defined.
 *
 * V8 writes "JS:*fib /srv/app.js:3:14": the kind, how it was compiled, the function, the file, line
 * and column. HotSpot writes a method with its type: "int Fib.fib(int)". Other names stay whole.
 */
#ifndef SONDE_READER_GENERATED_NAME_H
#define SONDE_READER_GENERATED_NAME_H

#include <stddef.h>
#include <stdint.h>

typedef struct generated_name {
  /* parts of the text, or constants; not terminated by a 0 */
  const char *function, *file;
  size_t function_size, file_size; /* file_size 0: unknown */
  uint32_t line;                   /* 0: unknown */
} generated_name_t;

void generated_name(const char *text, generated_name_t *out);

#endif
