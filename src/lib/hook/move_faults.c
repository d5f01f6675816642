/* SPDX-License-Identifier: MIT */
#include "hook/move.h"

#define KEY(name, key, text)  key,
#define TEXT(name, key, text) text,

const char *const move_fault_keys[MOVE_FAULT_COUNT] = {"", MOVE_FAULTS(KEY)};
const char *const move_fault_texts[MOVE_FAULT_COUNT] = {"", MOVE_FAULTS(TEXT)};
