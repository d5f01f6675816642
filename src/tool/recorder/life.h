/* SPDX-License-Identifier: MIT
 *
 * Tells the program when the recorder has ended, however it ended.
 *
 * The control page has a word with the id of the recorder's thread. The page is in the thread's
 * list of robust futexes (set_robust_list(2)), so the kernel sets FUTEX_OWNER_DIED in the word when
 * the thread ends, also by SIGKILL, and before the recorder is a zombie. The program reads the
 * word: no system call, and no process id that a namespace or a reused id makes meaningless.
 *
 * Threads: one, which must live until the recorder ends. It uses no robust mutex of the C library.
 */
#ifndef SONDE_RECORDER_LIFE_H
#define SONDE_RECORDER_LIFE_H

#include "record/shm.h"

/* The program of CONTROL is told from now on, until life_end or the end of this thread. */
void life_begin(shm_control_t *control);
void life_end(shm_control_t *control);

#endif
