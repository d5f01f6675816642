/* SPDX-License-Identifier: MIT
 *
 * What sonde doctor finds.
 */
#ifndef SONDE_CLI_LINUX_DOCTOR_H
#define SONDE_CLI_LINUX_DOCTOR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "target/target.h"

typedef enum verdict { VERDICT_GOOD, VERDICT_LIMITED, VERDICT_MISSING } verdict_t;

typedef struct finding {
  verdict_t verdict;
  char text[512];
  char mend[256]; /* the command that mends it; "" when there is none, or nothing to mend */
} finding_t;

/* What is known of one loaded image. */
typedef struct image_fact {
  const char *path;  /* of the target */
  const char *role;  /* "app", "library" or "system" */
  const char *names; /* where its names come from, in words */
  const char *debug; /* file of its debug information, NULL when there is none */
  bool has_lines, can_unwind;
} image_fact_t;

#define DOCTOR_FINDINGS_MAX 64

typedef struct doctor {
  finding_t findings[DOCTOR_FINDINGS_MAX];
  size_t count;
  target_t *target;
  image_fact_t *images;
  size_t image_count;
} doctor_t;

bool doctor_add(doctor_t *doctor, verdict_t verdict, const char *mend, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Looks at process PID and its images. False with PROBLEM when it cannot be read. */
bool doctor_process(doctor_t *doctor, pid_t pid, problem_t *problem);
void doctor_images_text(FILE *out, const doctor_t *doctor);
void doctor_json(FILE *out, const doctor_t *doctor);
void doctor_free(doctor_t *doctor);

#endif
