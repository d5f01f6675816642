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

/* The defaults of options, which their help states. 99 Hz does not divide the periods that programs
 * use for their timers. */
#define SENSOR_DEFAULT_HZ       99
#define SENSOR_DEFAULT_STALL_MS 250

#define SENSOR_STRING(number)    SENSOR_STRING_OF(number)
#define SENSOR_STRING_OF(number) #number

/* OPTION(name, RECORD_… bits that switch it on, argument and help of `sonde record --name`);
 * ALWAYS(name): a sensor that is always on and has no option.
 *
 * In this order sensors are started, handle a request of the recorder, and are listed by
 * `sonde help record`. */
#define SENSOR_TABLE(OPTION, ALWAYS)                                                               \
  OPTION(malloc, RECORD_ANY_BLOCKS | RECORD_MAPPINGS, "[MODE:all|malloc|vm|live|livevm|off]",      \
         "record allocations. Without MODE: all\n"                                                 \
         "  all      malloc, free and mmap with stacks\n"                                          \
         "  malloc   only blocks; vm: only memory mappings\n"                                      \
         "  live     live blocks; livevm: and mappings\n"                                          \
         "  sample:BYTES  on average one block in BYTES\n"                                         \
         "  off      nothing until 'sonde ctl' changes it")                                        \
  OPTION(sample, RECORD_SAMPLES, "[HZ]",                                                           \
         "sample threads HZ times per second of CPU time (" SENSOR_STRING(SENSOR_DEFAULT_HZ) ")")  \
  ALWAYS(crash)                                                                                    \
  OPTION(                                                                                          \
      trace, RECORD_CALLS, "[PATTERN]",                                                            \
      "record every call of functions compiled with -finstrument-functions, "                      \
      "-fpatchable-function-entry=5 or clang's -fxray-instrument. PATTERN selects imported "       \
      "functions, Objective-C methods, and functions compiled with -fpatchable-function-entry "    \
      "or -fxray-instrument: 'libssl*:SSL_*,malloc', '-[Account *]'. IMAGE!FUNCTION selects "      \
      "functions of a program or library that was not rebuilt, whoever calls them, and patches "   \
      "them; without IMAGE, the program's own: '!*'. '!read' also selects net::Socket::read")      \
  OPTION(                                                                                          \
      stall, RECORD_STALLS, "[MS]",                                                                \
      "report iterations of event loops that take longer than MS milliseconds, and what caused "   \
      "them. With -p: single waits inside an iteration that last MS. "                             \
      "Default: " SENSOR_STRING(SENSOR_DEFAULT_STALL_MS))                                          \
  OPTION(audit, RECORD_AUDIT, "[POLICY:linux|apple|descriptors|files|net|exec]",                   \
         "record calls of sensitive functions; POLICY is a file, linux (default), apple, "         \
         "descriptors, files, net, exec, or a list: files,net; see 'sonde help audit'")            \
  ALWAYS(leaks)

#define SENSOR_IGNORE(name)

/* SENSOR_MODE_malloc: the bits of the sensor malloc. */
enum {
#define SENSOR_MODE_BITS(name, mode, argument, help) SENSOR_MODE_##name = (mode),
  SENSOR_TABLE(SENSOR_MODE_BITS, SENSOR_IGNORE)
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
