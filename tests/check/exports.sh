#!/bin/sh
# SPDX-License-Identifier: MIT
# What the built libraries show and need. usage: exports.sh NM READELF LIBDIR
#
# - libsonde.so and libsonde.a define sonde_* alone, and weakly what instrumented code calls.
# - What the inside leaves undefined is memcpy and its family.
# - libsonde-agent.so needs no library and no symbol at all, and hides sonde_*.
nm=$1 readelf=$2 lib=$3
status=0

# fault WHAT NAMES: complains when NAMES are not empty.
fault() {
  [ -z "$2" ] && return
  status=1
  echo "$1:"
  echo "$2" | sed 's/^/  /'
}

echo "libsonde.so exports $("$nm" -D --defined-only "$lib/libsonde.so" | grep -c ' sonde_') functions"
fault "libsonde.so exports more than sonde_*" \
  "$("$nm" -D --defined-only "$lib/libsonde.so" | awk '$2 != "A" && !($2 == "W" && $3 ~ /^__cyg_profile_func_/) && $3 !~ /^sonde_/ { print $3 }')"
fault "libsonde.a has global names that are not sonde_*" \
  "$("$nm" -g --defined-only "$lib/libsonde.a" | awk 'NF == 3 && !($2 == "W" && $3 ~ /^__cyg_profile_func_/) && $3 !~ /^sonde_/ { print $3 }')"
[ "$("$nm" -g --defined-only "$lib/libsonde.a" | grep -c sonde_)" -gt 0 ] ||
  fault "libsonde.a" "defines nothing"

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
exit $status
