#!/bin/sh
# SPDX-License-Identifier: MIT
# What the built libraries show and need. usage: exports.sh NM READELF LIBDIR SOURCE
#
# - libsonde.so and libsonde.a export the names in cmake/libsonde.symbols, which are those that the public headers
#   declare and the few that the list explains. What instrumented code calls is weak.
# - What the inside leaves undefined is memcpy and its family.
# - libsonde-agent.so needs no library and no symbol at all, and hides sonde_*.
# - libsonde-attached.so has no thread-local storage either, and exports one name.
# - libsonde-verbs.so exports one name, and the command beside it needs no other library than libc.
# - libsonde-policy.so exports one name, and needs libyaml and libc.
nm=$1 readelf=$2 lib=$3 source=$4
status=0

# fault WHAT NAMES: complains when NAMES are not empty.
fault() {
  [ -z "$2" ] && return
  status=1
  echo "$1:"
  echo "$2" | sed 's/^/  /'
}

names=$(mktemp -d)
trap 'rm -rf "$names"' EXIT
export LC_ALL=C
grep -v '^#' "$source/cmake/libsonde.symbols" | grep . | sort >"$names/listed"
"$nm" -D --defined-only "$lib/libsonde.so" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort >"$names/so"
"$nm" -g --defined-only "$lib/libsonde.a" | awk 'NF == 3 { print $3 }' | sort >"$names/a"
# A declaration may take several lines: they are joined up to the parenthesis.
cat "$source"/include/sonde/*.h | tr '\n' ' ' | grep -oE 'SONDE_API [^(;]*\(' | grep -oE 'sonde_[a-z0-9_]+ *\($' |
  tr -d ' (' | sort -u >"$names/declared"

echo "libsonde.so exports $(wc -l <"$names/so") names"
for library in so a; do
  fault "libsonde.$library exports names that cmake/libsonde.symbols does not list" \
    "$(comm -13 "$names/listed" "$names/$library")"
  fault "libsonde.$library lacks names of cmake/libsonde.symbols" "$(comm -23 "$names/listed" "$names/$library")"
done
fault "libsonde.so exports, not weakly, what instrumented code calls" \
  "$("$nm" -D --defined-only "$lib/libsonde.so" | awk '$2 != "W" && $3 ~ /^__cyg_profile_func_/ { print $3 }')"
fault "names that headers declare and cmake/libsonde.symbols does not list" \
  "$(comm -13 "$names/listed" "$names/declared")"
fault "names that cmake/libsonde.symbols lists, and no header declares" \
  "$(sed -n '/^# include/,$p' "$source/cmake/libsonde.symbols" | grep -v '^#' | sort | comm -23 - "$names/declared")"

# Weak references are answered for: they may be absent.
allowed='^(memcpy|memmove|memset|memcmp|_GLOBAL_OFFSET_TABLE_|_DYNAMIC)$'
fault "the inside needs more than memcpy, memmove, memset, memcmp" \
  "$("$nm" -u "$lib/libsonde.a" | awk '$1 == "U" { print $2 }' | grep -Ev "$allowed")"

if [ -e "$lib/libsonde-agent.so" ]; then
  echo "libsonde-agent.so is checked"
  fault "libsonde-agent.so needs libraries" \
    "$("$readelf" -d "$lib/libsonde-agent.so" | grep NEEDED)"
  fault "libsonde-agent.so shows the API" \
    "$("$nm" -D --defined-only "$lib/libsonde-agent.so" | grep ' sonde_')"
  fault "libsonde-agent.so has undefined symbols" \
    "$("$nm" -D -u "$lib/libsonde-agent.so" | awk '{ print $NF }')"
fi

# No loader sees it: nothing may be left to resolve, no thread has storage for it, and what is relocated is the base.
attached=$lib/libsonde-attached.so
if [ -e "$attached" ]; then
  echo "libsonde-attached.so is checked"
  fault "libsonde-attached.so needs libraries" "$("$readelf" -d "$attached" | grep NEEDED)"
  fault "libsonde-attached.so has undefined symbols" "$("$nm" -D -u "$attached" | awk '{ print $NF }')"
  fault "libsonde-attached.so has thread-local storage" "$("$readelf" -lW "$attached" | awk '$1 == "TLS"')"
  fault "libsonde-attached.so has other relocations than those of its base" \
    "$("$readelf" -rW "$attached" | awk '$3 ~ /^R_/ && $3 !~ /_RELATIVE$/')"
  fault "libsonde-attached.so exports other names than its start" \
    "$("$nm" -D --defined-only "$attached" | awk '$3 != "sonde_attach_run"')"
  [ -n "$("$nm" -D --defined-only "$attached")" ] || fault "libsonde-attached.so exports nothing" "sonde_attach_run"
fi

# Preloaded, too; only the names that it stands before are seen.
dormant=$lib/libsonde-dormant.so
if [ -e "$dormant" ]; then
  echo "libsonde-dormant.so is checked"
  fault "libsonde-dormant.so needs libraries" "$("$readelf" -d "$dormant" | grep NEEDED)"
  fault "libsonde-dormant.so has undefined symbols" "$("$nm" -D -u "$dormant" | awk '{ print $NF }')"
  fault "libsonde-dormant.so has thread-local storage" "$("$readelf" -lW "$dormant" | awk '$1 == "TLS"')"
  fault "libsonde-dormant.so exports other names" "$("$nm" -D --defined-only "$dormant" | awk '{ print $3 }' |
    grep -Ev '^((m|c|re)alloc|free|(epoll_)?p?(wait|select|poll)2?|epoll_pwait|__p?poll_chk)$')"
fi

# The loading of a library would delay every start of `sonde record`.
verbs=$lib/libsonde-verbs.so
if [ -e "$verbs" ]; then
  echo "libsonde-verbs.so and the command are checked"
  fault "libsonde-verbs.so exports other names than its table" \
    "$("$nm" -D --defined-only "$verbs" | awk '$3 != "sonde_verbs"')"
  [ -n "$("$nm" -D --defined-only "$verbs")" ] || fault "libsonde-verbs.so exports nothing" "sonde_verbs"
  fault "the command needs other libraries than libc" "$("$readelf" -d "$lib/../bin/sonde" | grep NEEDED |
    grep -Ev '\[(lib(c|dl|pthread)\.so\.[0-9]+|ld-linux[a-z0-9.-]*)\]')"
fi
policy=$lib/libsonde-policy.so
if [ -e "$policy" ]; then
  echo "libsonde-policy.so is checked"
  fault "libsonde-policy.so exports other names than its table" \
    "$("$nm" -D --defined-only "$policy" | awk '$3 != "sonde_policy"')"
  fault "libsonde-policy.so needs other libraries than libyaml and libc" "$("$readelf" -d "$policy" | grep NEEDED |
    grep -Ev '\[(lib(c|dl|pthread)\.so\.[0-9]+|libyaml-0\.so\.[0-9]+|ld-linux[a-z0-9.-]*)\]')"
fi
exit $status
