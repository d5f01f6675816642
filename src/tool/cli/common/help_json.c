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

void help_json_add(json_object *verb, const cli_usage_t *usage) {
  static const cli_option_t help = {'h', "help", NULL, "print this help"};
  json_object *options = json_new_array(), *examples = json_new_array();
  const char *group = "options";
  json_add_text(verb, "arguments", usage->arguments ? usage->arguments : "");
  if (usage->words) json_add(verb, "words", words_of(usage->words, " "));
  json_add_text(verb, "about", usage->about);
  for (const cli_option_t *option = usage->options; option && option->key; option++)
    if (option->key == CLI_GROUP_KEY)
      group = option->name;
    else
      json_append(options, option_json(option, group));
  json_append(options, option_json(&help, group));
  json_add(verb, "options", options);
  for (int i = 0; i < CLI_MAX_EXAMPLES && usage->examples[i].command; i++) {
    json_object *example = json_new_object();
    json_add_text(example, "command", usage->examples[i].command);
    json_add_text(example, "does", usage->examples[i].does);
    json_append(examples, example);
  }
  json_add(verb, "examples", examples);
}
