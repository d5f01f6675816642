/* SPDX-License-Identifier: MIT
 *
 * The signatures of stacks, made again after frames got names.
 */
#ifndef SONDE_STORE_SIGNATURES_H
#define SONDE_STORE_SIGNATURES_H

#include "store/engine.h"

/* Updates the signature of every stack whose frames' labels have changed. False: failed. */
bool signatures_update(engine_t *engine);

#endif
