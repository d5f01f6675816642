/* SPDX-License-Identifier: MIT
 *
 * sonde doctor PID: can this process be read, what are its images, whose names and lines are there.
 */
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/linux/doctor.h"
#include "report/json.h"
#include "report/stacks/stacks.h"
#include "symbol/short_name.h"
#include "target/jit/live.h"
#include "target/jit/runtime.h"
#include "target/modules.h"
#include "symbol/language.h"
#include "target/interpreter/interpreter.h"

/* ---- images ------------------------------------------------------------------------------- */

static bool is_code(const target_t *target, const module_t *module) {
  for (size_t i = 0; i < module->mapping_count; i++)
    if (target->maps.items[module->first_mapping + i].access & MAP_EXEC) return true;
  return false;
}

static bool has_section(const module_t *module, const char *name) {
  section_t section;
  return image_section(&module->image, name, &section);
}

static void names_of(module_t *module, const char *debug, image_fact_t *fact) {
  bool itself = has_section(module, ".debug_info") || has_section(module, ".zdebug_info");
  fact->debug = debug;
  fact->has_lines = itself || debug;
  fact->can_unwind = module->image.eh_frame.size > 0 || module->image.eh_frame_hdr.size > 0 ||
                     module->image.debug_frame.size > 0;
  if (itself)
    fact->names = "names and lines, from the image itself";
  else if (debug)
    fact->names = "names and lines, from its debug file";
  else if (module->image.symtab.size > 0)
    fact->names = "names, no lines";
  else if (module->image.dynsym.size > 0)
    fact->names = "stripped: only exported names";
  else
    fact->names = "stripped: no names";
}

static bool add_image(doctor_t *doctor, module_t *module, symbolizer_t *symbolizer) {
  image_fact_t *images =
      realloc(doctor->images, (doctor->image_count + 1) * sizeof *doctor->images);
  if (!images) return false;
  doctor->images = images;
  image_fact_t *fact = &images[doctor->image_count++];
  *fact = (image_fact_t){.path = module->path,
                         .role = stacks_role(doctor->target, doctor->rules, module)};
  if (!modules_ready(doctor->target, module)) {
    fact->names = module->problem ? module->problem : "cannot read its file";
    return true;
  }
  symbol_source_t source = {.path = module->path,
                            .open_path = module->open_path,
                            .build_id = module->image.build_id,
                            .build_id_size = module->image.build_id_size};
  symbol_module_t *symbols = symbolizer_module(symbolizer, &source);
  const char *debug = symbols ? symbol_debug_path(symbols) : NULL;
  bool same = debug && module->open_path && strcmp(debug, module->open_path) == 0;
  names_of(module, same ? NULL : debug, fact);
  return true;
}

/* ---- the process -------------------------------------------------------------------------- */

static void check_threads(doctor_t *doctor) {
  problem_t problem = {{0}};
  stacks_options_t quiet = {.depth = STACKS_DEPTH_DEFAULT, .touch = TOUCH_NONE};
  target_t *target = doctor->target;
  size_t complete = 0, running = 0;
  if (!stacks_capture(target, &quiet, &problem)) {
    doctor_add_missing(doctor, NULL, "", problem.text);
    return;
  }
  for (size_t i = 0; i < target->thread_count; i++) {
    complete += target->threads[i].ending == ENDING_COMPLETE;
    running += target->threads[i].ending == ENDING_NONE;
  }
  doctor_add(doctor, VERDICT_GOOD, NULL,
             "process %d: %zu threads, %zu read completely without a stop, %zu running",
             target->pid, target->thread_count, complete, running);
}

static bool makes_code(const target_t *target) {
  for (size_t i = 0; i < target->maps.count; i++) {
    const mapping_t *m = &target->maps.items[i];
    if ((m->access & MAP_EXEC) && (m->path[0] == 0 || strncmp(m->path, "/memfd:", 7) == 0))
      return true;
  }
  return false;
}

static void check_jit(doctor_t *doctor) {
  if (!makes_code(doctor->target)) return;
  jit_live_t jit;
  jit_live_open(&jit, doctor->target);
  const jit_runtime_t *runtime = jit_runtime_of(doctor->target->exe);
  if (jit.codes)
    doctor_add(doctor, VERDICT_GOOD, NULL, "code generated at run time is named by %s",
               jit.file_count ? jit.files.path : "symbol files in memory (GDB's JIT interface)");
  else if (jit.files.problem)
    doctor_add(doctor, VERDICT_LIMITED, NULL,
               "code generated at run time has no names: %s is not used: %s", jit.files.path,
               jit.files.problem);
  else if (runtime)
    doctor_add(doctor, VERDICT_LIMITED, runtime->command,
               "code generated at run time has no names: the program writes no perf map");
  else
    doctor_add(doctor, VERDICT_LIMITED, NULL,
               "code generated at run time has no names: the program writes no perf map "
               "(/tmp/perf-%d.map) and no jitdump file, and registers no symbol files",
               doctor->target->pid);
  jit_live_close(&jit);
}

static void check_interpreter(doctor_t *doctor) {
  bool is_known = stacks_has_interpreter(doctor->target);
  const interpreter_t *interpreter = doctor->target->interpreter;
  if (!interpreter) return;
  const char *title = language_facts(interpreter->kind->language)->title;
  if (is_known)
    doctor_add(doctor, VERDICT_GOOD, NULL, "%s %s: stacks show %s functions", title,
               interpreter->version, title);
  else
    doctor_add(doctor, VERDICT_LIMITED, NULL,
               "%s %s: stacks show the interpreter's C functions: %s", title, interpreter->version,
               interpreter->problem);
}

static void check_images(doctor_t *doctor) {
  size_t stripped = 0;
  const char *example = NULL;
  for (size_t i = 0; i < doctor->image_count; i++) {
    const image_fact_t *fact = &doctor->images[i];
    if (fact->has_lines || strcmp(fact->path, "[vdso]") == 0) continue;
    stripped++;
    if (!example) example = fact->path;
  }
  if (stripped == 0) return;
  doctor_add(doctor, VERDICT_LIMITED, "export DEBUGINFOD_URLS=https://debuginfod.elfutils.org/",
             "%zu of %zu images have no lines (%s%s)", stripped, doctor->image_count, example,
             stripped > 1 ? ", …" : "");
}

bool doctor_process(doctor_t *doctor, pid_t pid, problem_t *problem) {
  doctor->target = target_open_process(pid, problem);
  if (!doctor->target) return false;
  symbolizer_t *symbolizer = symbolizer_new(&(symbol_options_t){.no_index = true});
  doctor->no_memory |= !symbolizer;
  for (size_t i = 0; symbolizer && i < doctor->target->modules.count; i++) {
    module_t *module = &doctor->target->modules.items[i];
    if (is_code(doctor->target, module) && !add_image(doctor, module, symbolizer))
      doctor->no_memory = true;
  }
  for (size_t i = 0; i < doctor->image_count; i++) /* the symbolizer's strings end with it */
    if (doctor->images[i].debug) doctor->images[i].debug = strdup(doctor->images[i].debug);
  if (symbolizer) symbolizer_free(symbolizer);
  check_threads(doctor);
  check_jit(doctor);
  check_interpreter(doctor);
  check_images(doctor);
  return true;
}

void doctor_free(doctor_t *doctor) {
  for (size_t i = 0; i < doctor->image_count; i++)
    free((void *)(uintptr_t)doctor->images[i].debug);
  free(doctor->images);
  target_close(doctor->target);
  doctor->target = NULL;
  doctor->images = NULL;
  doctor->image_count = 0;
}

/* ---- telling ------------------------------------------------------------------------------ */

void doctor_images_text(FILE *out, const doctor_t *doctor) {
  fprintf(out, "\nimages:\n");
  for (size_t i = 0; i < doctor->image_count; i++) {
    const image_fact_t *fact = &doctor->images[i];
    fprintf(out, "  %-8s %s\n           %s%s\n", fact->role, plain_text(fact->path), fact->names,
            fact->can_unwind ? "" : "; no unwind information");
  }
}

static json_object *new_finding(const finding_t *finding) {
  static const char *const words[] = {"good", "limited", "missing"};
  json_object *object = json_new_object();
  json_add_text(object, "verdict", words[finding->verdict]);
  json_add_text(object, "text", finding->text);
  if (finding->fix[0]) json_add_text(object, "fix", finding->fix);
  return object;
}

static json_object *new_image(const image_fact_t *fact) {
  json_object *object = json_new_object();
  json_add_text(object, "path", fact->path);
  json_add_text(object, "role", fact->role);
  json_add_text(object, "names", fact->names);
  if (fact->debug) json_add_text(object, "debug_file", fact->debug);
  json_add(object, "lines", json_object_new_boolean(fact->has_lines));
  json_add(object, "unwind", json_object_new_boolean(fact->can_unwind));
  return object;
}

void doctor_json(FILE *out, const doctor_t *doctor) {
  json_object *whole = json_new_object(), *findings = json_new_array();
  for (size_t i = 0; i < doctor->count; i++)
    json_append(findings, new_finding(&doctor->findings[i]));
  json_add(whole, "findings", findings);
  if (doctor->target) {
    json_object *images = json_new_array();
    json_add_number(whole, "pid", doctor->target->pid);
    for (size_t i = 0; i < doctor->image_count; i++)
      json_append(images, new_image(&doctor->images[i]));
    json_add(whole, "images", images);
  }
  fprintf(out, "%s\n", json_print(whole, JSON_STYLE));
  json_object_put(whole);
}
