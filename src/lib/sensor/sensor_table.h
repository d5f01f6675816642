/* SPDX-License-Identifier: MIT
 *
 * The sensors: what they are called, what they record, and the options that switch them on.
 *
 * This header has data alone, so that both the in-process library (sensor/sensor.h) and the command
 * (`sonde record`, `sonde ctl`) use it. A new sensor is a file that defines sensor_NAME and one
 * line here.
 */
#ifndef SONDE_SENSOR_SENSOR_TABLE_H
#define SONDE_SENSOR_SENSOR_TABLE_H

#include "record/format.h"

/* X(name, RECORD_… bits that switch it on, argument and help of `sonde record --name`)
 *
 * A sensor without bits is always on and has no option. Sensors are started in this order, handle
 * a request of the recorder in this order, and `sonde help record` lists them in this order. */
#define SENSOR_TABLE(X)                                                                            \
  X(malloc, RECORD_ANY_BLOCKS | RECORD_MAPPINGS, "[MODE]",                                         \
    "all: every malloc, free and mmap, with stacks; malloc: blocks only;\n"                        \
    "vm: mappings only; live: blocks that are not freed, without history;\n"                       \
    "livevm: live, with mappings; sample:BYTES: one allocation per BYTES on\n"                     \
    "average; off: nothing until 'sonde ctl' switches it on")                                      \
  X(sample, RECORD_SAMPLES, "[HZ]",                                                                \
    "sample the stacks of running threads, HZ times per second of CPU time (99)")                  \
  X(crash, 0, NULL, NULL)                                                                          \
  X(trace, RECORD_CALLS, "[PATTERN]",                                                              \
    "record every call, with its time, of functions compiled with\n"                               \
    "-finstrument-functions, -fpatchable-function-entry=5 or clang's\n"                            \
    "-fxray-instrument; PATTERN: of the last two, and of imported functions\n"                     \
    "and Objective-C methods, those that match: 'libssl*:SSL_*,malloc',\n"                         \
    "'-[Account *]'")                                                                              \
  X(stall, RECORD_STALLS, "[MS]",                                                                  \
    "report iterations of event loops that take longer than MS milliseconds\n"                     \
    "(250), and the code that used the time")                                                      \
  X(audit, RECORD_AUDIT, "[POLICY]",                                                               \
    "record calls of sensitive functions that POLICY selects: a file, linux\n"                     \
    "(the default) or apple; see 'sonde help audit'")                                              \
  X(leaks, 0, NULL, NULL)

/* SENSOR_MODE_malloc: the bits of a sensor. */
enum {
#define SENSOR_MODE_BITS(name, mode, argument, help) SENSOR_MODE_##name = (mode),
  SENSOR_TABLE(SENSOR_MODE_BITS)
#undef SENSOR_MODE_BITS
};

/* The modes of malloc, by the names of `record --malloc` and `ctl PID malloc=`; sample:BYTES is one
 * more. X(mode, as a SONDE_MALLOC_… of sonde/malloc.h; name; RECORD_… bits) */
#define SENSOR_MALLOC_MODES(X)                                                                     \
  X(OFF, "off", 0)                                                                                 \
  X(BLOCKS, "malloc", RECORD_BLOCKS)                                                               \
  X(LIVE, "live", RECORD_LIVE)                                                                     \
  X(ALL, "all", RECORD_BLOCKS | RECORD_MAPPINGS)                                                   \
  X(MAPPINGS, "vm", RECORD_MAPPINGS)                                                               \
  X(LIVE_MAPPINGS, "livevm", RECORD_LIVE | RECORD_MAPPINGS)

#endif
