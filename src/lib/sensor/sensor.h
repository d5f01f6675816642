/* SPDX-License-Identifier: MIT
 *
 * What the agent does with sensors: the table of them, and a call for each step of the process's
 * life. sensor_start calls `start` of each sensor, and so on. A NULL function does nothing.
 *
 * All but on_request and on_tick run outside signal handlers. The recording is attached
 * (record/writer.h) and CONTROL is its control block, unless stated otherwise.
 */
#ifndef SONDE_SENSOR_SENSOR_H
#define SONDE_SENSOR_SENSOR_H

#include "record/writer.h"
#include "sensor/sensor_table.h"

typedef struct sensor {
  /* The recording has begun. The process has one thread; images may not be relocated yet. */
  void (*start)(shm_control_t *control);
  /* All images are relocated: the sensor sets its hooks. Once, before the program's constructors.
   */
  void (*hook)(shm_control_t *control);
  /* The recorder has changed a setting. Any thread, inside any sensor (writer_poll). */
  void (*reconfigure)(shm_control_t *control);
  /* The recorder, or a sensor, has signaled this thread. In the handler; UCONTEXT may be changed,
   * and the thread then continues there. */
  void (*on_request)(void *ucontext);
  /* The calling thread was interrupted for a sample of its CPU time. In the handler. */
  void (*on_tick)(const void *ucontext);
  /* The calling thread is about to fork (NOW), or has forked and is in the parent. The recording
   * may not be attached. */
  void (*fork)(bool now);
  /* In a forked child that will have a recording of its own, before this recording is attached: the
   * sensor drops the parent's state. The child has one thread. */
  void (*after_fork)(void);
  /* In that child, once its recording is attached. */
  void (*restart)(shm_control_t *control);
  /* A seccomp filter will allow fewer system calls of sonde, or was refused: EFFECTS are the
   * SECCOMP_STOPS_… from now on. Also in a child of fork. */
  void (*limit)(uint32_t effects);
  /* The agent leaves the program, which continues: undoes `start` and `hook`. */
  void (*leave)(shm_control_t *control);
  /* The process exits. */
  void (*stop)(shm_control_t *control);
} sensor_t;

#define SENSOR_DECLARE(name, ...) extern HIDDEN const sensor_t sensor_##name;
SENSOR_TABLE(SENSOR_DECLARE, SENSOR_DECLARE)
#undef SENSOR_DECLARE

void sensor_start(void);
void sensor_leave(void);
void sensor_hook(void);
void sensor_fork(bool now);
void sensor_after_fork(void);
void sensor_restart(void);
void sensor_stop(void);
void sensor_limit(uint32_t effects);
void sensor_tick(const void *ucontext);

/* True if the program has a seccomp filter that nobody has read. From then on no system call of
 * sonde is made. Signal handlers call it first. */
bool sensor_is_silenced(void);

/* True if the recorder can signal this process: its handler is installed. */
bool sensor_takes_requests(void);

#endif
