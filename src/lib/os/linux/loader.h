/* SPDX-License-Identifier: MIT
 *
 * The program's dynamic loader: found once at the first call, then constant.
 */
#ifndef SONDE_OS_LINUX_LOADER_H
#define SONDE_OS_LINUX_LOADER_H

#include <stdbool.h>
#include <stdint.h>

#include "os/linux/dynamic.h"
#include "os/os.h"

typedef enum loader_kind {
  LOADER_NONE = 0, /* a static program */
  LOADER_GLIBC,
  LOADER_MUSL,
  LOADER_OTHER,
} loader_kind_t;

/* The public part of struct link_map (link.h), the same in every loader that follows System V. */
typedef struct link_entry {
  uint64_t slide;
  uint64_t path;
  uint64_t dynamic;
  uint64_t next;
  uint64_t previous;
} link_entry_t;

/* struct r_debug (link.h). NEXT exists since version 2 (glibc 2.35: one structure per namespace).
 */
typedef struct debug_head {
  int32_t version;
  uint64_t first;
  uint64_t breakpoint;
  int32_t state;
  uint64_t loader_base;
  uint64_t next;
} debug_head_t;

/* struct dl_find_object of glibc 2.35 and later (dlfcn.h). */
typedef struct found_object {
  uint64_t flags;
  uint64_t start;
  uint64_t end;
  uint64_t link_entry;
  uint64_t eh_frame;
  uint64_t reserved[7];
} found_object_t;

typedef struct loader {
  loader_kind_t kind;
  os_image_t program;
  uint64_t program_dynamic;                          /* address of its dynamic section; 0: none */
  os_image_t vdso;                                   /* start is 0: none */
  bool is_secure;                                    /* AT_SECURE */
  uint64_t debug;                                    /* address of struct r_debug; 0: none */
  int (*find_object)(void *pc, found_object_t *out); /* NULL: the loader has none */
  dynamic_t loader_symbols;                          /* of ld.so */
  uint64_t loader_dynamic;
  dynamic_t libc_symbols;
  uint64_t (*own_handle)(void); /* pthread_self of the C library; NULL: not found */
} loader_t;

/* Returns the loader, or NULL when no page could be mapped for the structure. */
const loader_t *linux_loader(void);

/* The offset of the thread's id in the structure behind a pthread_t; 0: unknown. */
uint16_t linux_tid_place(void);

#if defined(SONDE_ATTACHED)
/* Adds the attached agent, whose ELF header is at HEADER, to the images of this process. PATH stays
 * valid. Returns false if it is no image. */
bool linux_attached_image(uint64_t header, const char *path);

/* From now on the thread TID (0: none) makes only system calls: os_loader_hold holds nothing there.
 */
void linux_attached_thread(pid_t tid);

/* Writes the calling thread's id where this C library's threads have it. The thread has a thread
 * area of its own, but is unknown to the C library. Returns false if the C library is unknown. */
bool linux_attached_tid(void);

/* Unmaps all of os_own_mappings. Nothing of sonde may run afterwards, except for the return. */
void linux_unmap_own(void);
#endif

/* Reads one entry of the loader's list with os_read_memory. */
bool linux_link_entry(uint64_t address, link_entry_t *out);

/* Finds the counters that change when images are loaded or unloaded. The constructor calls it,
 * since glibc provides them through a function that takes the loader's lock. */
void linux_epoch_init(const loader_t *loader);

#endif
