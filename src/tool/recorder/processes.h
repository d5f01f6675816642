/* SPDX-License-Identifier: MIT
 *
 * The processes of a run: which programs they executed, when, and in which file each is recorded or
 * why it is not. The list goes into the program's own recording.
 *
 * The recorder learns of a process in three ways. Its agent requests a recording. An agent
 * announces a program before it is executed (agent/next.c). And the recorder searches /proc for
 * children of the processes that it knows. For a program without the agent, which its parent has
 * announced, the kernel reports the children (target/births.h). Where it refuses that, a child that
 * lives for less than PROCESSES_SCAN_MS may be missing.
 *
 * All functions are for the recorder's main thread.
 */
#ifndef SONDE_RECORDER_PROCESSES_H
#define SONDE_RECORDER_PROCESSES_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "recorder/recording_file.h"

/* Time between two searches while a process without the agent runs. */
#define PROCESSES_SCAN_MS 50
/* Processes without the agent whose end is noticed at once. */
#define PROCESSES_WATCHED_MAX 512
/* Rows of the list; later processes are counted only. */
#define PROCESSES_MAX 100000

typedef enum process_state {
  PROCESS_FOUND,    /* in /proc; nothing else is known */
  PROCESS_EXECUTES, /* it announced a program, whose agent has not started yet */
  PROCESS_RECORDED, /* its agent requested a recording */
  PROCESS_ENDED,
} process_state_t;

typedef struct process_row {
  process_state_t state;
  pid_t pid, parent;
  uint64_t birth;            /* as in process_facts_t; 0: unknown */
  uint64_t start_ns, end_ns; /* since the start of the recording; 0: it still ran */
  uint64_t cpu_ns;
  uint64_t scanned_ns;  /* its CPU time when its children were searched last; 0: unknown */
  int pidfd;            /* of a process without the agent; -1: none */
  bool executed;        /* a program, not only a fork */
  bool is_outside;      /* its program is recorded from outside */
  char *command;        /* NULL: unknown */
  char *announced;      /* the file of the program that it announced last; NULL: none */
  char *file;           /* its recording; NULL: it is not recorded */
  const char *why;      /* it is not recorded */
  char *next_command;   /* announced by a recorded process; NULL: none */
  const char *next_why; /* the agent will not run in that program; NULL: unknown */
} process_row_t;

typedef struct processes {
  recording_t *recording; /* of the program itself */
  const char *settings;   /* in the environment of every process that is to be recorded */
  process_row_t *items;
  size_t count, capacity;
  struct {
    size_t *items, count, capacity;
  } running;      /* indices of rows */
  size_t watched; /* rows with a pidfd */
  struct {
    struct births **items;
    size_t count, capacity;
  } births;        /* of processes without the agent */
  uint64_t excess; /* processes beyond PROCESSES_MAX */
} processes_t;

/* Starts the list with the program itself: process PID, recorded to FILE. SETTINGS must stay valid.
 * NULL: processes are recorded from outside. False: out of memory. */
bool processes_start(processes_t *processes, recording_t *recording, const char *settings,
                     pid_t pid, const char *file, char **command);

/* The process PID records to FILE, a string that is copied. NULL: it could not, for the reason WHY.
 */
void processes_record(processes_t *processes, pid_t pid, const char *file, const char *why);

/* The statically linked program of process PID is recorded from outside to FILE; NULL: to its
 * recording. */
void processes_record_outside(processes_t *processes, pid_t pid, const char *file);

/* Writes at most MAX processes to PIDS that run statically linked programs, are not recorded, and
 * that no agent has announced. Returns their number. */
size_t processes_static(const processes_t *processes, pid_t *pids, size_t max);

/* The process PID executes FILE. WHY is why the agent cannot run in it; NULL: it should. */
void processes_execute(processes_t *processes, pid_t pid, const char *file, const char *why);

/* The process PARENT has spawned the process PID, which executes FILE. */
void processes_spawn(processes_t *processes, pid_t pid, pid_t parent, const char *file,
                     const char *why);

/* Its call of exec failed. */
void processes_stay(processes_t *processes, pid_t pid);

/* A process with a recording has ended. IS_RECORDED: its agent has used the recording.
 * EXECUTING is that of shm_control_t: whether it started in the program that
 * the process executed last. CPU_NS: what the
 * agent has measured at the end; 0: unknown. */
void processes_end(processes_t *processes, pid_t pid, bool is_recorded, uint32_t executing,
                   uint64_t cpu_ns);

/* Searches /proc for new processes, and updates CPU times. */
void processes_scan(processes_t *processes);

/* Searches only for children of processes without the agent. */
void processes_scan_unrecorded(processes_t *processes);

/* A running process that was found and has no recording yet; 0: there is none. */
pid_t processes_unrecorded(const processes_t *processes);

/* Writes the running.count processes that run to PIDS. */
void processes_pids(const processes_t *processes, pid_t *pids);

/* Fills WATCHED descriptors for poll; afterwards handles those of the COUNT that are ready. */
void processes_poll(const processes_t *processes, struct pollfd *fds);
void processes_serve(processes_t *processes, const struct pollfd *fds, size_t count);

/* The last program of a process that has ended. NULL: unknown. */
const process_row_t *processes_last(const processes_t *processes, pid_t pid);

/* Writes the list to the recording. Returns the number of processes; *UNRECORDED of them, or
 * programs in them, are not recorded. */
size_t processes_write(processes_t *processes, size_t *unrecorded);

/* Prints which processes are not recorded, by reason. */
void processes_print_unrecorded(const processes_t *processes);

void processes_free(processes_t *processes);

#endif
