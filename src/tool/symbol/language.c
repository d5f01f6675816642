/* SPDX-License-Identifier: MIT */
#include "symbol/language.h"

#include "symbol/roles/lua.h"
#include "symbol/roles/perl.h"
#include "symbol/roles/php.h"
#include "symbol/python.h"
#include "symbol/roles/ruby.h"

static const language_facts_t facts[LANGUAGE_COUNT] = {
    [LANGUAGE_NATIVE] = {"native", "native", "native", 0},
    [LANGUAGE_PYTHON] = {"Python", "python", "cpython", python_role},
    [LANGUAGE_RUBY] = {"Ruby", "ruby", "ruby", ruby_role},
    [LANGUAGE_PHP] = {"PHP", "php", "php", php_role},
    [LANGUAGE_LUA] = {"Lua", "lua", "lua", lua_role},
    [LANGUAGE_PERL] = {"Perl", "perl", "perl", perl_role},
};

const language_facts_t *language_facts(language_t language) { return &facts[language]; }
