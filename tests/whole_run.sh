#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A family's small model learns the shapes from random weights on the CPU, to 95 % exact match on pictures that it has not seen.
# usage: tests/whole_run.sh LATHE FAMILY FOLDER [section.key=value ...]     e.g. training.train_iters=100; from the project's folder
set -eu
lathe=$1 family=$2 dir=$3
shift 3

# The rows: model_id, steps, template, more settings. The system text stands in the place of InternVL's own, which is long.
case $family in
qwen3_vl) steps=2400 template=qwen3_vl_nothink more= ;;
qwen3_vl_moe) steps=2400 template=qwen3_vl_nothink more=features.loss_cfg.router_aux_loss_coef=0.001 ;;
internvl3_5) steps=3200 template=intern_vl more=data.dataset_param.attr.system=system ;;
*) echo "there is no row for the family $family" >&2; exit 2 ;;
esac
want=95

rm -rf "$dir"
"$lathe" data shapes "$dir" --family "$family"
if [ "$template" = intern_vl ]; then
  for file in train.json held_out.json; do
    sed -i 's/"messages": \[/"system": "Look.", "messages": [/' "$dir/$file"
  done
fi
set -- model.model_id="$family" model.model_name_or_path="$dir/model" \
  data.dataset_param.preprocess_parameters.model_name_or_path="$dir/model" \
  data.dataset_param.basic_parameters.dataset_dir="$dir" data.dataset_param.basic_parameters.dataset="$dir/train.json" \
  data.dataset_param.basic_parameters.val_dataset="$dir/held_out.json" data.dataset_param.basic_parameters.template="$template" \
  parallel.fsdp_plan.apply_modules=[] training.save="$dir/run" training.train_iters="$steps" training.log_interval=50 $more "$@"
"$lathe" train examples/shapes/train.yaml "$@"
"$lathe" eval examples/shapes/train.yaml "$@" training.load="$dir/run" --show 4 --max-tokens 12 --batch 16 | tee "$dir/answers.txt"
got=$(sed -n 's/.*exact match [0-9]* of [0-9]* (\([0-9]*\).*/\1/p' "$dir/answers.txt")
[ "${got:-0}" -ge "$want" ] || { echo "$family: $got % exact match, wanted $want %" >&2; exit 1; }
