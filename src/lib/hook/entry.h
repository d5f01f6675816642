/* SPDX-License-Identifier: MIT
 *
 * Patches the entries of functions in images that nobody prepared for it: the first instructions
 * are moved into a stub (hook/move.h), and a jump to the stub takes their place. The stub leads to
 * a trampoline (hook/trampoline.h).
 *
 * Functions are those that the image's unwind information describes (.eh_frame), so a stripped
 * image has them as well. A function is left alone and counted if its entry cannot be moved;
 * move_fault_t lists the reasons.
 *
 * Threads. Instructions are changed only where no thread can be among them: in an image whose
 * constructors have not run yet, by another process that stops all threads and looks where they are
 * (entry_change_stopped), or by the only thread of the process, outside of signal handlers.
 * Restoring is always possible, because no thread is ever between two instructions that a jump
 * covers. A thread that reaches a function while its entry is restored waits there (a jump to
 * itself) for some microseconds.
 *
 * Stubs are never unmapped, since a thread may be in one. A stub has no unwind information; a
 * context that was interrupted in one is translated by entry_translate.
 */
#ifndef SONDE_HOOK_ENTRY_H
#define SONDE_HOOK_ENTRY_H

#include "arch/arch.h"
#include "hook/move.h"
#include "hook/trampoline.h"
#include "image/list.h"

/* Who patched a function: the tracer, or an interception by its number. An owner's patches are
 * restored together. */
typedef uint16_t entry_owner_t;
#define ENTRY_OF_TRACER 0u
#define ENTRY_OF_OTHERS 1u

typedef struct entry_candidate {
  const image_entry_t *image;
  uint64_t start;
  const char *name; /* of its symbol; NULL: none */
} entry_candidate_t;

typedef struct entry_request {
  entry_owner_t owner;
  /* Returns true if the function is to be patched, after it has set the handlers and flags of
   * TRAMPOLINE, whose `function` is CANDIDATE's start. */
  bool (*wants)(const entry_candidate_t *candidate, trampoline_t *trampoline, void *context);
  void *context;
  /* Results, added up: functions patched, and those that could not be, by reason. */
  uint32_t patched;
  uint32_t refused[MOVE_FAULT_COUNT];
} entry_request_t;

/* Lets another process make the COUNT CHANGES that are possible, as entry_change_t says. Returns
 * false if there is none. NULL, the default: there is none. */
extern HIDDEN bool (*entry_change_stopped)(const entry_change_t *changes, uint32_t count);

/* Patches the functions of IMAGE that REQUEST wants. IS_SAFE: no thread is in its code. Takes a
 * lock; not in a signal handler. */
void entry_patch(image_entry_t *image, bool is_safe, entry_request_t *request);

/* Restores the bytes of the functions that OWNER has patched, and keeps their stubs. A function
 * that another owner or tool has changed since stays patched. As below. */
void entry_suspend(entry_owner_t owner);

/* Patches the functions again that OWNER has patched in IMAGE, after entry_suspend or if the image
 * was unloaded and loaded again. IS_SAFE as above; otherwise another process does it. Returns the
 * number of functions that have their original bytes. */
uint32_t entry_patch_again(const image_entry_t *image, entry_owner_t owner, bool is_safe);

/* The number of functions of IMAGE that OWNER's jumps lead out of now. Takes the lock. */
uint32_t entry_count(const image_entry_t *image, entry_owner_t owner);

/* True once an entry was patched: a thread may still be in a stub. */
bool entry_exists(void);

/* Restores the bytes of all functions that OWNER has patched, and forgets them; calls in progress
 * end without `after`. A function that another owner has patched since is restored with
 * that owner's. Returns the number of functions that stay patched because another tool has changed
 * them, or the code cannot be written. Takes a lock; not in a signal handler. */
uint32_t entry_restore(entry_owner_t owner);

/* True if the process has one thread. Tests in an emulator, whose own threads are listed too, set
 * the variable. */
bool entry_is_alone(void);
extern HIDDEN bool entry_alone_in_emulator;

/* If FRAME was interrupted in a stub, changes it to the equal state in the function that was
 * patched and returns true: the pc is that of the original instruction. Anywhere. */
bool entry_translate(arch_frame_t *frame);

#endif
