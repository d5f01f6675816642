/* SPDX-License-Identifier: MIT
 *
 * What reports say of an interpreted language, and whose code a source file of it is.
 */
#ifndef SONDE_SYMBOL_LANGUAGE_H
#define SONDE_SYMBOL_LANGUAGE_H

#include <stdbool.h>

#include "base/language.h"

typedef enum source_role {
  /* the program's own */
  SOURCE_APP,
  /* of an installed package: a distribution of Python, a gem of Ruby, a package of Composer */
  SOURCE_PACKAGE,
  /* the standard library, and what the interpreter contains */
  SOURCE_STANDARD,
} source_role_t;

typedef struct language_facts {
  /* "Python" */
  const char *title;
  /* in JSON: "python" */
  const char *key;
  /* profile.frame.type of OpenTelemetry's semantic conventions */
  const char *frame_type;
  /* By the path that the interpreter has for the file; NULL: unknown, and then the app's. */
  source_role_t (*role)(const char *file);
} language_facts_t;

/* Of LANGUAGE; native code has no role. */
const language_facts_t *language_facts(language_t language);

/* Whether FILE of LANGUAGE, which is not native, is the program's own. */
static inline bool language_is_own(language_t language, const char *file) {
  return language_facts(language)->role(file) == SOURCE_APP;
}

#endif
