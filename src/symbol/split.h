/* SPDX-License-Identifier: MIT
 *
 * Split DWARF: the unit with the functions that a skeleton unit stands for, from its .dwo file or
 * from the package (.dwp) beside the program. DWARF 5 section 7.3.2 and appendix F; the GNU
 * extension of DWARF 4 before it.
 */
#ifndef SONDE_SYMBOL_SPLIT_H
#define SONDE_SYMBOL_SPLIT_H

#include <elfutils/libdw.h>
#include <stdbool.h>

typedef struct split split_t;

/* PATH is the file that MAIN was opened from. NULL when there is no memory. */
split_t *split_open(const char *path, Dwarf *main);
void split_close(split_t *split);

/* Finds the split unit of the skeleton unit SKELETON and writes its first entry to DIE. False, DIE
 * untouched, when SKELETON is no skeleton or its other half is not to be found. */
bool split_find(split_t *split, Dwarf_Die *skeleton, Dwarf_Die *die);

#endif
