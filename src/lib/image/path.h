/* SPDX-License-Identifier: MIT
 *
 * What the file of an image is called, and whether that makes it a system image.
 */
#ifndef SONDE_IMAGE_PATH_H
#define SONDE_IMAGE_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A copy of the string that stands at AT in the loader's memory, kept for the life of the process.
 * NULL when it is empty, unreadable or longer than a path can be. Async-signal-safe. */
const char *path_keep(uint64_t at);

/* The path of the file that is mapped at ADDRESS as the kernel tells it (/proc/self/maps), without
 * " (deleted)"; kept as above. NULL when nothing or no file is mapped there. Reads up to ADDRESS.
 */
const char *path_of_mapping(uint64_t address);

/* What follows PREFIX in TEXT, or NULL when TEXT does not start with it. */
const char *path_after(const char *text, const char *prefix);

/* The verdict of the default rules on an image that is not the program itself: the dynamic loader,
 * libc and its family, the vDSO, the C++ runtimes, compiler runtimes and sanitizers, and sonde
 * itself are system; every other library is not. Judged by the file's name alone, wherever it
 * lies; on Apple's systems by where it lies: /System, and dylibs in /usr/lib. Pure. */
bool path_is_system(const char *path);

#endif
