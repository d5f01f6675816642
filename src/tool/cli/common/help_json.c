/* SPDX-License-Identifier: MIT */
#include "cli/common/help_json.h"

#include <ctype.h>
#include <string.h>

static json_object *new_text(const char *text, size_t size) {
  char copy[512];
  snprintf(copy, sizeof copy, "%.*s", (int)size, text);
  return json_new_text(copy);
}

/* The words of TEXT, which SEPARATORS are between, up to a ']' or the end. */
static json_object *words_of(const char *text, const char *separators) {
  json_object *list = json_new_array();
  for (size_t size; *text && *text != ']'; text += size) {
    text += strspn(text, separators);
    size = strcspn(text, separators);
    size_t ends = strcspn(text, "]");
    if (ends < size) size = ends;
    if (size) json_append(list, new_text(text, size));
  }
  return list;
}

static json_object *option_json(const cli_option_t *option, const char *group) {
  json_object *o = json_new_object();
  char letter[2] = {(char)option->key, 0};
  json_add_text(o, "name", option->name);
  if (option->key < CLI_LONG_ONLY && isgraph(option->key)) json_add_text(o, "letter", letter);
  json_add_text(o, "group", group);
  if (option->value) {
    const char *value = option->value + (option->value[0] == '[');
    size_t name = strcspn(value, ":]");
    json_add(o, "value", new_text(value, name));
    json_add_flag(o, "value_optional", value != option->value);
    if (value[name] == ':') json_add(o, "values", words_of(value + name + 1, "|"));
  }
  json_add_text(o, "help", option->help);
  return o;
}

static json_object *examples_json(const cli_example_t *examples, int most) {
  json_object *list = json_new_array();
  for (int i = 0; i < most && examples[i].command; i++) {
    json_object *example = json_new_object();
    json_add_text(example, "command", examples[i].command);
    json_add_text(example, "does", examples[i].does);
    json_append(list, example);
  }
  return list;
}

static json_object *part_json(const cli_part_t *part) {
  json_object *o = json_new_object();
  json_add_text(o, "name", part->name);
  json_add_text(o, "form", part->form);
  json_add_text(o, "summary", part->summary);
  json_add_text(o, "about", part->about);
  json_add(o, "options", words_of(part->options ? part->options : "", " "));
  json_add(o, "examples", examples_json(part->examples, CLI_MAX_PART_EXAMPLES));
  return o;
}

/* Without WORDS of its own, a verb's words are the names of its parts. */
static void add_parts(json_object *verb, const cli_usage_t *usage) {
  json_object *parts = json_new_array(), *words = json_new_array();
  for (const cli_part_t *part = usage->parts; part && part->name; part++) {
    json_append(parts, part_json(part));
    if (!usage->words) json_append(words, json_new_text(part->name));
  }
  if (usage->words) {
    json_object_put(words);
    words = words_of(usage->words, " ");
  }
  json_add(verb, "words", words);
  if (usage->parts_are) json_add_text(verb, "parts_are", usage->parts_are);
  if (usage->before_part) json_add_text(verb, "before_part", usage->before_part);
  json_add(verb, "parts", parts);
}

void help_json_add(json_object *verb, const cli_usage_t *usage) {
  static const cli_option_t help = {'h', "help", NULL, "print this help"};
  json_object *options = json_new_array();
  const char *group = "options";
  json_add_text(verb, "arguments", usage->arguments ? usage->arguments : "");
  if (usage->words || usage->parts) add_parts(verb, usage);
  json_add_text(verb, "about", usage->about);
  for (const cli_option_t *option = usage->options; option && option->key; option++)
    if (option->key == CLI_GROUP_KEY)
      group = option->name;
    else
      json_append(options, option_json(option, group));
  json_append(options, option_json(&help, group));
  json_add(verb, "options", options);
  json_add(verb, "examples", examples_json(usage->examples, CLI_MAX_EXAMPLES));
}
