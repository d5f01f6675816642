/* SPDX-License-Identifier: MIT
 *
 * Sources: node(1) and V8's flag-definitions.h; the OpenJDK's globals.hpp (DumpPerfMapAtExit since
 * 17, PreserveFramePointer since 8u60; other versions ignore what they do not know); .NET's
 * clrconfignames.h; erl(1) (+JPperf, since 24).
 */
#include "target/jit/runtime.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const jit_runtime_t runtimes[] = {
    {"node", "node --perf-basic-prof --interpreted-frames-native-stack", "NODE_OPTIONS",
     "--perf-basic-prof --interpreted-frames-native-stack", false},
    {"java",
     "java -XX:+PreserveFramePointer -XX:+UnlockDiagnosticVMOptions "
     "-XX:+DumpPerfMapAtExit",
     "JAVA_TOOL_OPTIONS",
     "-XX:+IgnoreUnrecognizedVMOptions -XX:+PreserveFramePointer -XX:+UnlockDiagnosticVMOptions "
     "-XX:+DumpPerfMapAtExit",
     false},
    {"dotnet", "DOTNET_PerfMapEnabled=1 dotnet", "DOTNET_PerfMapEnabled", "1", true},
    {"beam.smp", "erl +JPperf true", "ERL_FLAGS", "+JPperf true", false},
    {"ruby", "ruby --yjit --yjit-perf", NULL, NULL, false},
    {"php", "php -d opcache.jit_debug=0x10", NULL, NULL, false},
};

enum { RUNTIMES = sizeof runtimes / sizeof *runtimes };

const jit_runtime_t *jit_runtime_of(const char *path) {
  const char *slash = path ? strrchr(path, '/') : NULL, *file = slash ? slash + 1 : path;
  for (int i = 0; file && i < RUNTIMES; i++) {
    size_t n = strlen(runtimes[i].name);
    if (strncmp(file, runtimes[i].name, n) == 0 && (!file[n] || isdigit((unsigned char)file[n])))
      return &runtimes[i];
  }
  return NULL;
}

static bool set(const jit_runtime_t *r) {
  const char *old = getenv(r->variable);
  if (old && (r->is_value || strstr(old, r->options))) return true;
  size_t size = (old ? strlen(old) : 0) + strlen(r->options) + 2;
  char *value = malloc(size);
  if (!value) return false;
  snprintf(value, size, "%s%s%s", old ? old : "", old && *old ? " " : "", r->options);
  bool is_set = setenv(r->variable, value, 1) == 0;
  free(value);
  return is_set;
}

bool jit_runtimes_set(void) {
  bool good = true;
  for (int i = 0; i < RUNTIMES; i++)
    if (runtimes[i].variable) good &= set(&runtimes[i]);
  return good;
}
