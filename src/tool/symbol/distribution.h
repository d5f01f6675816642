/* SPDX-License-Identifier: MIT
 *
 * The Python distribution that installed a source file, under the name that it has on PyPI.
 *
 * An installer writes a folder NAME-VERSION.dist-info beside the packages (Python Packaging
 * Authority, "Recording installed projects"): METADATA has the name, and RECORD lists the files.
 * The folders of a folder of packages are read once, when a file below it is asked for. One thread
 * uses these functions.
 */
#ifndef SONDE_SYMBOL_DISTRIBUTION_H
#define SONDE_SYMBOL_DISTRIBUTION_H

typedef struct distributions distributions_t;

/* Reads nothing yet. NULL when memory runs out. */
distributions_t *distributions_new(void);
void distributions_free(distributions_t *distributions);

/* The name of the distribution that lists FILE, an absolute path, valid until the next call; NULL
 * when none does. */
const char *distribution_of(distributions_t *distributions, const char *file);

#endif
