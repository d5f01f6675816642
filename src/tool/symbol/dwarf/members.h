/* SPDX-License-Identifier: MIT
 *
 * The members of variables, from their types in DWARF: byte 32 of `queue` is its member `.lock`.
 *
 * One thread uses a handle, because libdw is not thread-safe.
 */
#ifndef SONDE_SYMBOL_DWARF_MEMBERS_H
#define SONDE_SYMBOL_DWARF_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct members members_t;

/* Lists the variables with an address in the file PATH; reads all its debug information. NULL:
 * there is none, or memory ran out. */
members_t *members_open(const char *path);
void members_close(members_t *members);

/* Writes what is OFFSET bytes into the variable that begins at ADDRESS, an address of the file, to
 * OUT: ".lock", "[2].lock", ".ready+0x4", or "" for the variable itself. Parts of a lock are not
 * named. False: the variable or its type is unknown, or SIZE is too small. */
bool members_name(members_t *members, uint64_t address, uint64_t offset, char *out, size_t size);

#endif
