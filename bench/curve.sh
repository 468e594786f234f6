#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The losses of 16 steps on a GPU in bf16 against those on the CPU in fp32: same weights, same batch, a Qwen3-VL-2B cut to
# 4 layers and 2 vision blocks. Each step has to agree within 0.5 %.
# usage: bench/curve.sh build/cuda/bench/step [SEQ]
set -eu
step=$1
seq=${2:-256}
common="--preset qwen3vl-2b --layers 4 --vdepth 2 --images 1 --grid 16 --seq $seq"
losses() { sed -n 's/.*"losses": \[\([^]]*\)\].*/\1/p' | tr ',' '\n' | head -n 16; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# Steps to warm up are steps too: the first 16 of all count.
# shellcheck disable=SC2086 # words
"$step" --device cuda --dtype bf16 --iters 12 $common | losses > "$dir/cuda"
# shellcheck disable=SC2086
"$step" --device cpu --dtype f32 --iters 14 $common | losses > "$dir/cpu"
paste "$dir/cuda" "$dir/cpu" | awk '
  { d = ($1 - $2) / $2; a = d < 0 ? -d : d; most = a > most ? a : most
    printf "step %2d  cuda bf16 %.4f  cpu f32 %.4f  %+.3f %%\n", NR, $1, $2, d * 100 }
  END { ok = NR == 16 && most <= 0.005
        printf "%s: %d steps, the largest difference is %.3f %%\n", ok ? "ok" : "FAIL", NR, most * 100; exit !ok }'
