#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The first screen of sonde: a small C++ program (orders.cpp) is recorded and judged. Called by ./run demo, from the root
# of the project; an argument names another folder than build/.
set -eu
build=${1:-build}
name=$(basename "$build")
mkdir -p "$build/demo"
"${CXX:-c++}" -g -O1 -std=c++17 -o "$build/demo/orders" examples/orders.cpp
cd "$build/demo"
PATH=$PWD/../bin:$PATH COLUMNS=80
export PATH COLUMNS

# shown WORD…: the command as it is typed, and what it prints.
shown() {
  printf '$ %s\n' "$*"
  sh -c "$*" 2>&1
  echo
}

printf '# In %s/demo, with ../bin in the PATH; source: examples/orders.cpp.\n' "$name"
shown sonde record --malloc --sample --force -o run.sonde -- ./orders
shown sonde why run.sonde
shown "sonde report --top 5 run.sonde sample | grep -A 6 'of the program'"
printf 'next: sonde report run.sonde; sonde help; docs/\n'
