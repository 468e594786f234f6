#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes src/data/tokenizer/unicode_table.c: character classes of Unicode 16.0 and what NFC of Unicode 9.0 knows.

usage: make_unicode_tables.py PYTHON_OF_UNICODE_9 > src/data/tokenizer/unicode_table.c
needs: unicodedata2 16.0.0; an interpreter whose unicodedata is 9.0.0 (CPython 3.6)
"""
import json, subprocess, sys
import unicodedata2 as u16

assert u16.unidata_version == "16.0.0"
LIMIT = 0x110000
BLANKS = [*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]

OLD = r"""
import json, sys, unicodedata as u
assert u.unidata_version == "9.0.0"
known, second, unstable, cls = [], set(), set(), {}
for c in range(0x110000):
    s = chr(c); k = u.category(s)
    if k == "Cn" or k == "Cs": continue
    known.append(c); cls[c] = k[0]
    d = u.decomposition(s)
    if d and d[0] != "<":
        d = [int(x, 16) for x in d.split()]
        if len(d) == 2 and u.normalize("NFC", s) == s: second.add(d[1])
    if u.combining(s) or u.normalize("NFC", s) != s: unstable.add(c)
unstable |= second | set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))
json.dump([known, sorted(unstable), cls], sys.stdout)
"""
known, unstable, cls9 = json.loads(subprocess.run([sys.argv[1], "-c", OLD], capture_output=True, check=True).stdout)
classes = {"L": [], "N": [], "M": []}
for c in range(LIMIT):
    k = u16.category(chr(c))[0]
    if k in classes:
        classes[k].append(c)
    old = cls9.get(str(c))
    if old and (old in "LNM" or k in "LNM") and old != k:  # its class moved: not to be left to a library's own table
        known.remove(c)
        print("class moved: U+%04X %s -> %s" % (c, old, k), file=sys.stderr)

known.remove(0x180E)  # PCRE2 counts it among blanks, whatever its category

def ranges(points):
    out = []
    for c in points:
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out

def emit(name, comment, points):
    r = ranges(points)
    print("\n// %s: %d characters.\nstatic const lt_code_range %s[] = {" % (comment, len(points), name))
    line = "   "
    for a, b in r:
        item = " {0x%x, 0x%x}," % (a, b)
        if len(line) + len(item) > 99:
            print(line)
            line = "   "
        line += item
    print(line + "\n};")

print("""// SPDX-License-Identifier: Apache-2.0
// Character classes of Unicode 16.0, and what the NFC of Unicode 9.0 knows and may change.
// Written by tools/make_unicode_tables.py from the Unicode Character Database (Unicode License V3).
#include "data/tokenizer/unicode.h"

// clang-format off""")
emit("letters", "General category L, Unicode 16.0", classes["L"])
emit("numbers", "General category N, Unicode 16.0", classes["N"])
emit("marks", "General category M, Unicode 16.0", classes["M"])
emit("blanks", "White_Space, Unicode 16.0", BLANKS)
emit("known", "Assigned in Unicode 9.0, class unchanged in 16.0, U+180E left out", known)
emit("unstable", "Combining class not 0, or NFC_Quick_Check not Yes, Unicode 9.0", unstable)
print("""
#define ROW(list, bit) {list, (int)(sizeof list / sizeof list[0]), bit}
const lt_code_list lt_code_lists[LT_N_CODE_LISTS] = {
    ROW(letters, LT_CODE_LETTER), ROW(numbers, LT_CODE_NUMBER), ROW(marks, LT_CODE_MARK),
    ROW(blanks, LT_CODE_BLANK),   ROW(known, LT_CODE_KNOWN),    ROW(unstable, LT_CODE_UNSTABLE),
};
// clang-format on""")
