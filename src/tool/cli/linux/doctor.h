/* SPDX-License-Identifier: MIT
 *
 * The findings of sonde doctor: what works on this machine and, with a PID, on that process.
 */
#ifndef SONDE_CLI_LINUX_DOCTOR_H
#define SONDE_CLI_LINUX_DOCTOR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "symbol/system.h"
#include "target/target.h"

typedef enum verdict { VERDICT_GOOD, VERDICT_LIMITED, VERDICT_MISSING } verdict_t;

typedef struct finding {
  verdict_t verdict;
  char text[512];
  /* the command that fixes it; "" if there is none */
  char fix[256];
} finding_t;

/* A loaded image. */
typedef struct image_fact {
  const char *path;
  /* "app", "library" or "system" */
  const char *role;
  /* the source of its function names, as text */
  const char *names;
  /* the file with its debug information; NULL if there is none */
  const char *debug;
  bool has_lines, can_unwind;
} image_fact_t;

#define DOCTOR_FINDINGS_MAX 64

typedef struct doctor {
  finding_t findings[DOCTOR_FINDINGS_MAX];
  size_t count;
  target_t *target;
  const system_rules_t *rules; /* the user's; NULL: none */
  bool no_memory;              /* for some of the checks */
  image_fact_t *images;
  size_t image_count;
} doctor_t;

bool doctor_add(doctor_t *doctor, verdict_t verdict, const char *fix, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Adds WHAT, which is missing because of CAUSE. That sonde has no memory for a check is no finding:
 * then only sets `no_memory`. */
void doctor_add_missing(doctor_t *doctor, const char *fix, const char *what, const char *cause);

/* Examines process PID and its images. False with PROBLEM if it cannot be read. */
bool doctor_process(doctor_t *doctor, pid_t pid, problem_t *problem);
void doctor_images_text(FILE *out, const doctor_t *doctor);
void doctor_json(FILE *out, const doctor_t *doctor);
void doctor_free(doctor_t *doctor);

#endif
