/* SPDX-License-Identifier: MIT
 *
 * What has to be found before the first capture, while the loader may still be asked.
 */
#include "os/os.h"

__attribute__((constructor(101))) static void prepare(void) { os_loader_init(); }
