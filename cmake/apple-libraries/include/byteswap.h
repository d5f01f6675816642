/* SPDX-License-Identifier: MIT
 *
 * What elfutils asks of the C library and macOS's lacks: this folder is on the include path there.
 */
#pragma once
#define bswap_16(x) __builtin_bswap16(x)
#define bswap_32(x) __builtin_bswap32(x)
#define bswap_64(x) __builtin_bswap64(x)
