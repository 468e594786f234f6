#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What neither the compilers nor clang-format see: the licence line, the line that says what a file is for, who may call
# malloc, who may print or exit, over-long lines and files. Prints each offence as file:line; exit code 1 when there is one.
set -eu
cd "$(dirname "$0")/.."

dirs=""
for d in src tests bench fuzz; do
  [ ! -d $d ] || dirs="$dirs $d"
done
# shellcheck disable=SC2086 # a list of words
find $dirs -type f \( -name '*.[ch]' -o -name '*.inc' -o -name '*.cu' -o -name '*.cuh' \) | LC_ALL=C sort | xargs awk '
  FNR == 1 {
    library = FILENAME ~ /^src\// && FILENAME !~ /_test\.c$/ && FILENAME !~ /^src\/cli\//
    if ($0 != "// SPDX-License-Identifier: Apache-2.0")
      complain("line 1 is not the licence line")
  }
  FNR == 2 && FILENAME !~ /_test\.c$/ && $0 !~ /^\/\/ ./ { complain("line 2 does not say what the file is for") }
  length($0) > 100 && $0 !~ /"/ { complain("longer than 100 columns") }
  FNR == 701 { complain("longer than 700 lines: split it by subject") }
  library { code = $0; sub(/\/\/.*/, "", code); gsub(/"([^"\\]|\\.)*"/, "\"\"", code) }
  library && FILENAME !~ /^src\/base\// && code ~ /(^|[^a-zA-Z0-9_.>])(malloc|calloc|realloc|aligned_alloc|strdup|strndup)\(/ {
    complain("only src/base calls malloc and its kin")
  }
  library && code ~ /(^|[^a-zA-Z0-9_.>])(printf|puts|putchar|exit|_exit)\(/ { complain("the library neither prints nor exits") }
  library && FILENAME !~ /^src\/base\// && code ~ /(^|[^a-zA-Z0-9_])(stdout|stderr)([^a-zA-Z0-9_]|$)/ { complain("the library does not print") }
  library && code ~ /^[ \t]*#[ \t]*if[ \t]+0/ { complain("git remembers old code") }
  function complain(text) {
    printf "%s:%d: %s\n", FILENAME, FNR, text
    bad = 1
  }
  END { exit bad }
'
