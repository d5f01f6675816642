/* SPDX-License-Identifier: MIT
 *
 * V8 names its own code Builtin:, BytecodeHandler: and so on, and node's library node:FILE. Java's
 * library is in a few packages; HotSpot's own code is no method.
 */
#include "symbol/generated.h"

#include <stddef.h>
#include <string.h>

static bool begins(const char *text, const char *with) {
  return strncmp(text, with, strlen(with)) == 0;
}

static bool is_of_node(const char *name, const char *file) {
  static const char *const kinds[] = {
      "Builtin:", "BytecodeHandler:", "Stub:", "RegExp:", "Handler:", "LoadIC", "Bytecode"};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (begins(name, kinds[i])) return true;
  return file && (begins(file, "node:") || strstr(file, "/node_modules/"));
}

static bool is_of_java(const char *name) {
  static const char *const packages[] = {"java.", "javax.", "jdk.", "sun.", "com.sun."};
  static const char *const stubs[] = {"Interpreter",   "StubRoutines",       "RuntimeBlob",
                                      "I2C/C2I",       "vtable stub",        "itable stub",
                                      "SafepointBlob", "DeoptimizationBlob", "ExceptionBlob"};
  for (size_t i = 0; i < sizeof stubs / sizeof *stubs; i++)
    if (begins(name, stubs[i])) return true;
  for (size_t i = 0; i < sizeof packages / sizeof *packages; i++)
    if (begins(name, packages[i])) return true;
  return false;
}

bool generated_is_own(const char *name, const char *file) {
  return !is_of_node(name, file) && !is_of_java(name);
}
