#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Brings C files into the shape that .ci/run asks for: comments wrapped at 100 columns, then clang-format.
# usage: tools/format.sh [FILE...]     (without files: all of src, tests, bench, fuzz)
set -eu
cd "$(dirname "$0")/.."

if [ $# = 0 ]; then
  # shellcheck disable=SC2046 # a list of paths without spaces
  set -- $(git ls-files 'src/*.[ch]' 'src/*.inc' 'src/*.cu' 'src/*.cuh' 'tests/*.[ch]' 'bench/*.[ch]' 'fuzz/*.[ch]')
fi

# Only lines that are nothing but a comment: "// text", "/** text */", " * text" (a field name in front keeps its column).
for f; do
  if awk 'length($0) > 100 { found = 1 } END { exit !found }' "$f"; then
    awk '
      # Prints text behind `first`, what does not fit behind `rest`. A sentence cut by the line end goes on in the next line.
      function wrap(text, first, rest, whole,    n, word, i, line) {
        n = split(text, word, " ")
        line = first word[1]
        for (i = 2; i <= n; i++) {
          if (length(line) + 1 + length(word[i]) > 100) {
            print line
            line = rest word[i]
          } else
            line = line " " word[i]
        }
        if (whole || text ~ /[.:;]$/)
          print line
        else {
          open = line
          behind = rest
        }
      }
      function finish() {
        if (open != "")
          print open
        open = ""
      }
      function tail_of(line) { return substr(line, length(behind) + 1) }
      open != "" {
        if (substr($0, 1, length(behind)) == behind && tail_of($0) ~ /^[^ ]/ && tail_of($0) !~ /   */ && $0 !~ /\*\//) {
          text = open " " tail_of($0)
          head = behind
          open = ""
          wrap(substr(text, length(head) + 1), head, head, 0)
          next
        }
        finish()
      }
      length($0) <= 100 { print; next }
      match($0, /^[ \t]*\/\/ /) { wrap(substr($0, RLENGTH + 1), substr($0, 1, RLENGTH), substr($0, 1, RLENGTH), 0); next }
      match($0, /^[ \t]*\/\*\*? /) && /\*\/$/ {
        indent = $0
        sub(/\/\*.*/, "", indent)
        opening = substr($0, 1, RLENGTH - 1)
        text = substr($0, RLENGTH + 1)
        sub(/ *\*\/$/, "", text)
        print opening
        wrap(text, indent " * ", indent " * ", 1)
        print indent " */"
        next
      }
      match($0, /^[ \t]* \* +/) {
        lead = RLENGTH
        if (match($0, /^[ \t]* \* [a-z]+(, [a-z]+)?  +/))
          lead = RLENGTH
        text = substr($0, lead + 1)
        star = index($0, "*")
        if (text !~ /  /) {
          wrap(text, substr($0, 1, lead), substr($0, 1, star) sprintf("%" (lead - star) "s", ""), 0)
          next
        }
      }
      { print }
      END { finish() }
    ' "$f" >"$f.wrapped"
    if cmp -s "$f" "$f.wrapped"; then rm "$f.wrapped"; else cat "$f.wrapped" >"$f" && rm "$f.wrapped"; fi
  fi
done
clang-format -i "$@"
