/* SPDX-License-Identifier: MIT
 *
 * The path of an image's file, and whether the image is a system image.
 */
#ifndef SONDE_IMAGE_PATH_H
#define SONDE_IMAGE_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Copies the string at AT in the loader's memory; the copy is never freed. Returns NULL if the
 * string is empty, unreadable or longer than a path. Async-signal-safe. */
const char *path_keep(uint64_t at);

/* Returns the path of the file that is mapped at ADDRESS (/proc/self/maps), without " (deleted)".
 * The copy is never freed. Returns NULL if no file is mapped there. Reads the list of mappings up
 * to ADDRESS. */
const char *path_of_mapping(uint64_t address);

/* Returns true if the default rules classify the image at PATH, which is not the program itself, as
 * a system image. System images are the dynamic loader, libc and its family, the vDSO, the C++
 * runtimes, compiler runtimes and sanitizers, and sonde itself. The file name alone decides, in any
 * folder.
 *
 * On Apple's systems the folder decides. If the program EXE is in a bundle (NAME.app), every image
 * outside of it is a system image. Otherwise these are: below /System, dylibs in /usr/lib, the
 * roots of simulators, cryptexes, and what Xcode installs on devices. The runtime of Swift is a
 * system image in any folder. EXE may be NULL: unknown. A pure function. */
bool path_is_system(const char *path, const char *exe);

/* True if GLOB (base/glob.h) matches PATH: as a whole if the glob has a slash, else the file's
 * name.
 */
bool path_matches(const char *path, const char *glob);

/* What the program said of the image at PATH, by sonde_system_images: 1 system, 0 app, -1 nothing.
 * Async-signal-safe. */
int path_verdict(const char *path);

#endif
