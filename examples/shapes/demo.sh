#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The demo: draw pictures, train a small Qwen3-VL on them from random weights, ask it about pictures that it has not seen.
# usage: examples/shapes/demo.sh PROGRAM     (from the project's folder; `make demo` does it)
set -eu
lathe=$1
data=examples/shapes/data
run=examples/shapes/run

"$lathe" data shapes "$data"
rm -rf "$run"
"$lathe" train examples/shapes/train.yaml
echo
echo "Questions about pictures that it has not seen:"
"$lathe" eval examples/shapes/train.yaml "training.load=$run" --show 12 --max-tokens 12 --batch 16
echo
echo "The loss curve is $run/loss.svg. Ask it yourself:"
echo "  $lathe generate $run --image $data/images/held_out_00000.png --prompt 'How many shapes are there?'"
