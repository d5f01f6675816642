/* SPDX-License-Identifier: MIT
 *
 * sonde record --push: sends the profiles when the recording is complete.
 */
#ifndef SONDE_CLI_LINUX_RECORD_PUSH_H
#define SONDE_CLI_LINUX_RECORD_PUSH_H

#include "recorder/recorder.h"

/* Makes the recorder push to URL at its end. A wrong URL, or a build that cannot push, is found
 * before the command is run. Returns what is wrong, or NULL; the text is valid until the next call.
 */
const char *record_push_to(recorder_options_t *options, const char *url);

#endif
