#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A folder of src/ includes only itself and folders above it in this list (docs/tour.md says why). Unit tests (*_test.c,
# and their own helpers test_*.h) may also include the test kit. Prints each offence as file:line; exit code 1 when there is one.
set -eu
cd "$(dirname "$0")/.."

folders="base tensor device comm graph op model ckpt parallel plan exec optim data train cli"

find src -type f \( -name '*.[ch]' -o -name '*.inc' -o -name '*.cu' -o -name '*.cuh' \) | LC_ALL=C sort | xargs awk -v folders="$folders" '
  BEGIN {
    n = split(folders, list, " ")
    for (i = 1; i <= n; i++)
      rank[list[i]] = i
  }
  FNR == 1 {
    split(FILENAME, part, "/")
    from = part[2]
    is_test = FILENAME ~ /(_test\.c|\/test_[a-z0-9_]*\.[ch])$/
    if (!(from in rank))
      complain("folder " from " is not in the list of tools/check_includes.sh")
  }
  /^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, quoted, "\"")
    to = quoted[2]
    if (is_test && to ~ /^tests\/kit\//)
      next
    sub(/\/.*/, "", to)
    if (quoted[2] !~ /\// || quoted[2] ~ /\.\./)
      complain("include \"" quoted[2] "\" by its path below src/")
    else if (!(to in rank))
      complain("\"" quoted[2] "\" is outside src/")
    else if (rank[to] > rank[from])
      complain(from " may not include \"" quoted[2] "\": " to " comes after it")
  }
  function complain(text) {
    printf "%s:%d: %s\n", FILENAME, FNR, text
    bad = 1
  }
  END { exit bad }
'
