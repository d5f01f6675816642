/* SPDX-License-Identifier: MIT
 *
 * The CPUs that images are built for.
 */
#ifndef SONDE_IMAGE_MACHINE_H
#define SONDE_IMAGE_MACHINE_H

typedef enum image_machine {
  IMAGE_MACHINE_UNKNOWN = 0,
  IMAGE_X86_64,
  IMAGE_AARCH64,
  IMAGE_I386,
  IMAGE_ARMV7,
  IMAGE_ARM64_32,
  IMAGE_OTHER,
} image_machine_t;

#endif
