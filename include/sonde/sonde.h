/* SPDX-License-Identifier: MIT
 *
 * sonde: diagnostics inside a running program. This header includes all others.
 */
#ifndef SONDE_SONDE_H
#define SONDE_SONDE_H

#include "sonde/status.h"
#include "sonde/stack.h"
#include "sonde/thread.h"
#include "sonde/image.h"
#include "sonde/name.h"
#include "sonde/hook.h"
#include "sonde/objc.h"
#include "sonde/intercept.h"
#include "sonde/stall.h"
#include "sonde/cpu.h"
#include "sonde/trace.h"
#include "sonde/malloc.h"
#include "sonde/log.h"
#include "sonde/apple_log.h"
#include "sonde/audit.h"

#endif
