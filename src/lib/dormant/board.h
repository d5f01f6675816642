/* SPDX-License-Identifier: MIT
 *
 * The board: a small file in memory (/dev/shm) that the sleeping programs of a user share, one for
 * each mount namespace. The command writes there which process is to wake. A sleeping program
 * compares one word of it in its calls of malloc and free, and makes no system call for that.
 *
 * The file belongs to the user and has mode 0600, so only this user and root can wake a program.
 * Its name contains BOARD_VERSION: a board with another layout is another file.
 *
 * Order: the command locks the slot (an open file description lock on its bytes, which ends with
 * the command), writes it with `state` last, and then increments `calls`. A program that finds
 * another value of `calls` than before looks for a slot with its process id. It writes `status`,
 * `message`, and `state` last.
 */
#ifndef SONDE_DORMANT_BOARD_H
#define SONDE_DORMANT_BOARD_H

#include <stdint.h>

#include "agent/attach_block.h"
#include "record/settings.h"

#define BOARD_VERSION  "1"
#define BOARD_NAME     "sonde-dormant-" BOARD_VERSION "-" /* and the number of the user */
#define BOARD_SLOTS    12u
#define BOARD_BUILD_ID 64u

/* Values of `state`. */
#define BOARD_FREE  0u
#define BOARD_ASKED 1u
#define BOARD_TAKEN 2u /* a thread of the program is at work */
#define BOARD_DONE  3u

typedef struct board_slot {
  uint32_t pid;     /* of the program, as it sees itself */
  uint32_t state;   /* BOARD_… */
  uint32_t request; /* ATTACH_START or ATTACH_STOP */
  int32_t status;   /* 0 or a negative errno */
  uint32_t build_id_size;
  uint8_t build_id[BOARD_BUILD_ID]; /* of the command's libsonde-attached.so */
  char settings[SETTINGS_MAX];
  char message[ATTACH_MESSAGE_MAX];
} board_slot_t;

typedef struct board {
  uint32_t calls; /* each request increments it */
  board_slot_t slots[BOARD_SLOTS];
} board_t;

#define BOARD_BYTES 8192u
_Static_assert(sizeof(board_t) <= BOARD_BYTES, "the file holds the board");

#endif
