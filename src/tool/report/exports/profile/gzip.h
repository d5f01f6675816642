/* SPDX-License-Identifier: MIT */
#ifndef SONDE_REPORT_EXPORTS_PROFILE_GZIP_H
#define SONDE_REPORT_EXPORTS_PROFILE_GZIP_H

#include <stddef.h>
#include <stdint.h>

/* DATA as a gzip file (RFC 1952) of *SIZE bytes, which the caller frees. NULL: out of memory. */
uint8_t *gzip_bytes(const uint8_t *data, size_t data_size, size_t *size);

#endif
