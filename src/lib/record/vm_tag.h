/* SPDX-License-Identifier: MIT
 *
 * The names of Apple's VM tags, which tell what memory was mapped for (VM_MEMORY_… of
 * mach/vm_statistics.h). A recording has them as "[NAME]", in the place of a mapping's file.
 */
#ifndef SONDE_RECORD_VM_TAG_H
#define SONDE_RECORD_VM_TAG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

/* X(name after VM_MEMORY_, number, name in reports) */
#define VM_TAG_TABLE(X)                                                                            \
  X(MALLOC, 1, "malloc")                                                                           \
  X(MALLOC_SMALL, 2, "malloc small")                                                               \
  X(MALLOC_LARGE, 3, "malloc large")                                                               \
  X(MALLOC_HUGE, 4, "malloc huge")                                                                 \
  X(SBRK, 5, "sbrk")                                                                               \
  X(REALLOC, 6, "realloc")                                                                         \
  X(MALLOC_TINY, 7, "malloc tiny")                                                                 \
  X(MALLOC_LARGE_REUSABLE, 8, "malloc large reusable")                                             \
  X(MALLOC_LARGE_REUSED, 9, "malloc large reused")                                                 \
  X(ANALYSIS_TOOL, 10, "analysis tool")                                                            \
  X(MALLOC_NANO, 11, "malloc nano")                                                                \
  X(MALLOC_MEDIUM, 12, "malloc medium")                                                            \
  X(MALLOC_PROB_GUARD, 13, "malloc guard pages")                                                   \
  X(MACH_MSG, 20, "mach message")                                                                  \
  X(IOKIT, 21, "IOKit")                                                                            \
  X(STACK, 30, "stack")                                                                            \
  X(GUARD, 31, "guard")                                                                            \
  X(SHARED_PMAP, 32, "shared pmap")                                                                \
  X(DYLIB, 33, "dylib")                                                                            \
  X(OBJC_DISPATCHERS, 34, "objc dispatchers")                                                      \
  X(UNSHARED_PMAP, 35, "unshared pmap")                                                            \
  X(APPKIT, 40, "AppKit")                                                                          \
  X(FOUNDATION, 41, "Foundation")                                                                  \
  X(COREGRAPHICS, 42, "CoreGraphics")                                                              \
  X(CORESERVICES, 43, "CoreServices")                                                              \
  X(JAVA, 44, "Java")                                                                              \
  X(COREDATA, 45, "CoreData")                                                                      \
  X(COREDATA_OBJECTIDS, 46, "CoreData object ids")                                                 \
  X(ATS, 50, "ATS")                                                                                \
  X(LAYERKIT, 51, "LayerKit")                                                                      \
  X(CGIMAGE, 52, "CGImage")                                                                        \
  X(TCMALLOC, 53, "tcmalloc")                                                                      \
  X(COREGRAPHICS_DATA, 54, "CoreGraphics data")                                                    \
  X(COREGRAPHICS_SHARED, 55, "CoreGraphics shared")                                                \
  X(COREGRAPHICS_FRAMEBUFFERS, 56, "CoreGraphics framebuffers")                                    \
  X(COREGRAPHICS_BACKINGSTORES, 57, "CoreGraphics backing stores")                                 \
  X(COREGRAPHICS_XALLOC, 58, "CoreGraphics xalloc")                                                \
  X(DYLD, 60, "dyld")                                                                              \
  X(DYLD_MALLOC, 61, "dyld malloc")                                                                \
  X(SQLITE, 62, "sqlite")                                                                          \
  X(JAVASCRIPT_CORE, 63, "JavaScript heap")                                                        \
  X(JAVASCRIPT_JIT_EXECUTABLE_ALLOCATOR, 64, "JavaScript code")                                    \
  X(JAVASCRIPT_JIT_REGISTER_FILE, 65, "JavaScript registers")                                      \
  X(GLSL, 66, "GLSL")                                                                              \
  X(OPENCL, 67, "OpenCL")                                                                          \
  X(COREIMAGE, 68, "CoreImage")                                                                    \
  X(WEBCORE_PURGEABLE_BUFFERS, 69, "WebCore purgeable")                                            \
  X(IMAGEIO, 70, "ImageIO")                                                                        \
  X(COREPROFILE, 71, "CoreProfile")                                                                \
  X(ASSETSD, 72, "assetsd")                                                                        \
  X(OS_ALLOC_ONCE, 73, "os alloc once")                                                            \
  X(LIBDISPATCH, 74, "libdispatch")                                                                \
  X(ACCELERATE, 75, "Accelerate")                                                                  \
  X(COREUI, 76, "CoreUI")                                                                          \
  X(COREUIFILE, 77, "CoreUI file")                                                                 \
  X(GENEALOGY, 78, "genealogy")                                                                    \
  X(RAWCAMERA, 79, "RawCamera")                                                                    \
  X(CORPSEINFO, 80, "corpse info")                                                                 \
  X(ASL, 81, "ASL")                                                                                \
  X(SWIFT_RUNTIME, 82, "Swift runtime")                                                            \
  X(SWIFT_METADATA, 83, "Swift metadata")                                                          \
  X(DHMM, 84, "DHMM")                                                                              \
  X(SCENEKIT, 86, "SceneKit")                                                                      \
  X(SKYWALK, 87, "Skywalk")                                                                        \
  X(IOSURFACE, 88, "IOSurface")                                                                    \
  X(LIBNETWORK, 89, "libnetwork")                                                                  \
  X(AUDIO, 90, "audio")                                                                            \
  X(VIDEOBITSTREAM, 91, "video bitstream")                                                         \
  X(CM_XPC, 92, "CoreMedia XPC")                                                                   \
  X(CM_RPC, 93, "CoreMedia RPC")                                                                   \
  X(CM_MEMORYPOOL, 94, "CoreMedia memory pool")                                                    \
  X(CM_READCACHE, 95, "CoreMedia read cache")                                                      \
  X(CM_CRABS, 96, "CoreMedia CRABS")                                                               \
  X(QUICKLOOK_THUMBNAILS, 97, "QuickLook thumbnails")                                              \
  X(ACCOUNTS, 98, "Accounts")                                                                      \
  X(SANITIZER, 99, "sanitizer")                                                                    \
  X(IOACCELERATOR, 100, "IOAccelerator")                                                           \
  X(CM_REGWARP, 101, "CoreMedia regwarp")                                                          \
  X(EAR_DECODER, 102, "EAR decoder")                                                               \
  X(COREUI_CACHED_IMAGE_DATA, 103, "CoreUI cached images")                                         \
  X(COLORSYNC, 104, "ColorSync")                                                                   \
  X(BTINFO, 105, "backtrace info")                                                                 \
  X(CM_HLS, 106, "CoreMedia HLS")                                                                  \
  X(ROSETTA, 230, "Rosetta")                                                                       \
  X(ROSETTA_THREAD_CONTEXT, 231, "Rosetta thread context")                                         \
  X(ROSETTA_INDIRECT_BRANCH_MAP, 232, "Rosetta branch map")                                        \
  X(ROSETTA_RETURN_STACK, 233, "Rosetta return stack")                                             \
  X(ROSETTA_EXECUTABLE_HEAP, 234, "Rosetta code")                                                  \
  X(ROSETTA_USER_LDT, 235, "Rosetta LDT")                                                          \
  X(ROSETTA_ARENA, 236, "Rosetta arena")                                                           \
  X(ROSETTA_10, 239, "Rosetta 10")                                                                 \
  X(APPLICATION_SPECIFIC_16, 255, "mmap without a tag") /* it logs the bits of descriptor -1 */

/* The bytes that the longest name needs, with its 0. */
#define VM_TAG_NAME_MAX 40

/* Writes the name of TAG to OUT, of VM_TAG_NAME_MAX bytes; of a tag without one "memory tag 240",
 * as vmmap(1) calls it. False: TAG is 0, no tag. */
static inline bool vm_tag_name(uint32_t tag, char *out) {
  static const char *const names[] = {
#define VM_TAG_NAME(name, number, text) [number] = text,
      VM_TAG_TABLE(VM_TAG_NAME)
#undef VM_TAG_NAME
  };
  const char *name = tag < sizeof names / sizeof *names ? names[tag] : 0;
  char *end = text_append(out, name ? name : "memory tag ");
  *(name ? end : decimal_append(end, tag)) = 0;
  return tag;
}

/* The flags of a mapping that is SHARED (a file, or shared memory) or private and anonymous, with
 * the numbers of Linux, as in all recordings. */
static inline uint32_t vm_tag_flags(bool shared) { return shared ? 0x1u : 0x2u | 0x20u; }

#endif
