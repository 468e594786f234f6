#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What several GPUs of one host are measured by: golden models over NCCL, the curve of 20 steps, tokens/s a GPU over prefetch
# depths, layouts and sizes, each beside one GPU in the same run, and the peer where its script and torch are at hand.
# JSON lines go to standard output. NVLink multicast stays off.
# usage: bench/multi_gpu.sh BUILD GOLDEN [RANKS [PEER.py]]     BUILD: build/cuda; GOLDEN: .../golden/model/qwen3_vl
set -u
build=$1 golden=$2 ranks=${3:-2} peer=${4:-}
export NCCL_NVLS_ENABLE=0
step=$build/bench/step
limit() { timeout "${1}" sh -c "$2" || echo "{\"failed\": \"$2\", \"code\": $?}"; }

echo "# golden models over $ranks GPUs"
for layout in fsdp hsdp ddp; do
  limit 120 "$build/tests/golden_model --device cuda -n $ranks --layout $layout --quiet $golden"
done

echo "# 20 steps in bf16: one GPU, $ranks GPUs; the losses have to agree within 0.3 %"
small="--device cuda --dtype bf16 --preset qwen3vl-2b --layers 4 --vdepth 2 --images 1 --grid 16 --seq 256 --iters 12"
limit 120 "$step $small"
for layout in fsdp ddp; do limit 120 "$step $small --ranks $ranks --layout $layout"; done

echo "# tokens/s a GPU"
for size in 4b 8b; do
  policy=$([ $size = 4b ] && echo keep || echo full:7,lean)
  common="$step --device cuda --dtype bf16 --preset qwen3vl-$size --policy $policy --iters 10"
  [ $size = 8b ] && common="$common --keep-attention"
  limit 200 "$common"
  limit 200 "$common --ranks $ranks"
done
echo "# prefetch depths, gathered parameters that stay"
common="$step --device cuda --dtype bf16 --preset qwen3vl-4b --policy keep --iters 8 --ranks $ranks"
for depth in "0 0" "0 1" "1 0" "1 1" "2 1" "1 2" "2 2"; do
  set -- $depth
  limit 120 "$common --forward-prefetch $1 --backward-prefetch $2"
done
limit 120 "$common --keep-gathered"

[ -n "$peer" ] || exit 0
echo "# the peer"
for size in 4b 8b; do
  for n in 1 "$ranks"; do
    limit 300 "torchrun --nproc_per_node $n $(dirname "$0")/peer_ranks.py $peer --size $size --mode fsdp2 --chunk-loss --attn cudnn --compile --no-recompute"
  done
done
