/* SPDX-License-Identifier: MIT
 *
 * See byteswap.h. Messages are not translated.
 */
#pragma once
#define dgettext(domain, text) (text)
