/* SPDX-License-Identifier: MIT */
#include "sonde/status.h"

const char *sonde_strerror(int status) {
  switch (status) {
#define STATUS_TEXT(name, value, text)                                                             \
  case name: return text;
    SONDE_STATUS_TABLE(STATUS_TEXT)
#undef STATUS_TEXT
  default: return "unknown status";
  }
}
