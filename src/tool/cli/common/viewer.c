/* SPDX-License-Identifier: MIT */
#include "cli/common/viewer.h"

#include <stddef.h>
#include <string.h>

static const viewer_t viewers[] = {
    {.name = "firefox",
     .format = "firefox",
     .suffix = ".json.gz",
     .origin = "https://profiler.firefox.com",
     .before_escaped = "/from-url/",
     .is_gzip = true},
    {.name = "speedscope",
     .format = "speedscope",
     .suffix = ".json",
     .programs = {"speedscope"},
     .origin = "https://www.speedscope.app",
     .before_escaped = "/#profileURL="},
    {.name = "heaptrack",
     .format = "heaptrack",
     .suffix = ".heaptrack",
     .programs = {"heaptrack_gui"},
     .package = "heaptrack-gui"},
    {.name = "kcachegrind",
     .format = "callgrind",
     .suffix = ".callgrind",
     .programs = {"kcachegrind", "qcachegrind"},
     .package = "kcachegrind"},
};

const viewer_t *viewer_named(const char *name) {
  for (size_t i = 0; i < sizeof viewers / sizeof *viewers; i++)
    if (!strcmp(viewers[i].name, name)) return &viewers[i];
  return NULL;
}
