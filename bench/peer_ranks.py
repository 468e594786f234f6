#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The peer's step (a script like peer_hf_step.py) over several GPUs, one process each, and with its key-value cache off.

The script itself makes a process group of one rank unless there is one already: here there is. Its cache, which training has no
use for, keeps torch.compile from most layers. Each rank has the script's batch, so tokens/s are per GPU; the first rank prints.

usage: torchrun --nproc_per_node 2 bench/peer_ranks.py PATH/peer_hf_step.py --size 4b --mode fsdp2 --compile ...
"""
import os
import sys

import torch
import torch.distributed as dist

path = sys.argv[1]
rank = int(os.environ.get("LOCAL_RANK", "0"))
torch.cuda.set_device(rank)
if "WORLD_SIZE" in os.environ:
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    if dist.get_rank() != 0:
        sys.stdout = open(os.devnull, "w")
with open(path) as f:
    text = f.read()
with_cache = "output_hidden_states=True)"
if with_cache not in text:
    sys.exit(f"{path}: the call that keeps a cache is not there; is it another version?")
text = text.replace(with_cache, "output_hidden_states=True, use_cache=False)")
sys.argv = sys.argv[1:]
exec(compile(text, path, "exec"), {"__name__": "__main__", "__file__": path})
if dist.is_initialized():
    dist.destroy_process_group()
