/* SPDX-License-Identifier: MIT
 *
 * Stacks as JSON (docs/json.md). One thread is built and written at a time: objects for ten
 * thousand threads would need about a gigabyte.
 */
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "report/json.h"
#include "report/stacks/goroutines.h"
#include "report/stacks/stacks.h"
#include "report/stacks/tail_frames.h"
#include "symbol/language.h"
#include "target/interpreter/interpreter.h"
#include "target/state.h"

static json_object *new_frame(const frame_t *frame, const symbolized_pc_t *named) {
  json_object *object = json_new_object();
  if (named->language != LANGUAGE_NATIVE) {
    json_add_text(object, "language", language_facts(named->language)->key);
    return object;
  }
  json_add_address(object, "pc", frame->pc);
  if (named->module) {
    const image_t *image = &named->module->image;
    json_add_text(object, "module", named->module->path);
    if (named->module->state == MODULE_READY && image->build_id_size)
      json_add_hex(object, "build_id", image->build_id, image->build_id_size);
  } else if (named->source)
    json_add_text(object, "module", named->source);
  if (named->has_offset) json_add_address(object, "offset", named->offset);
  if (frame->exact) json_add_flag(object, "exact", true);
  if (frame->guessed) json_add_flag(object, "guessed", true);
  if (frame->folded) json_add_flag(object, "interpreter", true);
  if (frame->tail_call) json_add_flag(object, "tail_call", true);
  if (frame->async) json_add_flag(object, "async", true);
  return object;
}

static void add_frame(json_object *frames, const stacks_view_t *view, const frame_t *frame) {
  const symbolized_pc_t *named = stack_symbolizer_lookup(view->symbolizer, frame);
  if (!named || (view->app_only && named->system) || (frame->folded && !view->native)) return;
  if (named->count == 0) {
    json_object *object = new_frame(frame, named);
    if (named->why) json_add_text(object, "why", named->why);
    json_append(frames, object);
  }
  for (int i = 0; i < named->count; i++) {
    json_object *object = new_frame(frame, named);
    json_add_function(object, &named->functions[i]);
    json_append(frames, object);
  }
}

void stacks_frames_json(json_object *frames, const stacks_view_t *view, const thread_t *thread) {
  uint32_t count = thread->frame_count;
  const frame_t *all = thread->frames;
  if (view->tail_frames) all = tail_frames_expand(view->tail_frames, thread, &count);
  for (uint32_t i = 0; i < count; i++)
    add_frame(frames, view, &all[i]);
}

static void add_descriptors(json_object *object, target_t *target, const thread_t *thread) {
  enum { MOST = 256 };
  int fds[MOST];
  size_t count = state_wait_descriptors(target, thread, fds, MOST);
  if (!count) return;
  json_object *list = json_new_array();
  for (size_t i = 0; i < count && i < MOST; i++)
    json_append(list, json_object_new_int(fds[i]));
  json_add(object, "fds", list);
}

static void add_wait(json_object *object, target_t *target, const thread_t *thread) {
  const wait_t *wait = &thread->wait;
  char text[4200];
  stacks_wait_text(thread, text, sizeof text);
  if (text[0]) json_add_text(object, "wait", text);
  if (wait->syscall) json_add_text(object, "syscall", wait->syscall);
  if (wait->fd >= 0) json_add_number(object, "fd", wait->fd);
  if (wait->path) json_add_text(object, "path", wait->path);
  add_descriptors(object, target, thread);
  if (wait->address) json_add_address(object, "futex", wait->address);
  if (wait->owner) json_add_number(object, "owner", wait->owner);
  if (wait->is_gil) json_add_text(object, "lock", "GIL");
  if (wait->is_python) json_add_text(object, "lock", "Python");
  if (thread->holds_gil) json_add_flag(object, "holds_gil", true);
  if (thread->signal) json_add_number(object, "signal", thread->signal);
  if (thread->deadlock) json_add_number(object, "deadlock", thread->deadlock);
}

static json_object *new_thread(const stacks_view_t *view, const thread_t *thread) {
  json_object *object = json_new_object();
  json_add_number(object, "tid", thread->tid);
  if (thread->name[0]) json_add_text(object, "name", thread->name);
  const char *state = stacks_state_word(thread->state);
  if (state) json_add_text(object, "state", state);
  add_wait(object, view->target, thread);
  json_object *frames = json_new_array();
  stacks_frames_json(frames, view, thread);
  json_add(object, "frames", frames);
  json_add_flag(object, "complete", thread->ending == ENDING_COMPLETE);
  if (thread->ending == ENDING_TRUNCATED)
    json_add_text(object, "reason", "depth limit");
  else if (thread->reason)
    json_add_text(object, "reason", thread->reason);
  if (thread->frames_problem) {
    char key[32];
    snprintf(key, sizeof key, "%s_missing",
             language_facts(view->target->interpreter->kind->language)->key);
    json_add_text(object, key, thread->frames_problem);
  }
  if (thread->proven) json_add_flag(object, "inferred", true);
  json_add_number(object, "stopped_us", (int64_t)((thread->stopped_ns + 999) / 1000));
  return object;
}

void stacks_json(FILE *out, const stacks_view_t *view) {
  const target_t *target = view->target;
  fputs("{", out);
  if (target->pid) fprintf(out, "\"pid\":%d,", target->pid);
  if (target->exe) {
    json_object *exe = json_new_text(target->exe);
    fprintf(out, "\"exe\":%s,", json_print(exe, JSON_STYLE));
    json_object_put(exe);
  }
  fputs("\"threads\":[", out);
  for (size_t i = 0; i < target->thread_count; i++) {
    json_object *object = new_thread(view, &target->threads[i]);
    fprintf(out, "%s\n%s", i ? "," : "", json_print(object, JSON_STYLE));
    json_object_put(object);
  }
  fputs("\n]", out);
  if (view->goroutines) goroutines_json(out, view, view->goroutines);
  fprintf(out, ",\"elapsed_us\":%llu}\n", (unsigned long long)(target->elapsed_ns / 1000));
}
