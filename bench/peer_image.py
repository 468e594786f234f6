#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pictures a second, from file to patch rows, by the reference's path and by lathe in turn.

The reference's path: Pillow opens, brings the picture within the pixel budget and converts it; transformers'
image processor of Qwen3-VL resizes, normalises and lays out patch rows, the fast one by torchvision, the slow one by
Pillow and numpy. WORKERS processes of one torch thread each, as data loader workers are; lathe takes as many threads.
Everything runs on the processors that this script may use (taskset -c 0,1). One JSON line per case and round, then the
medians. Needs torch, torchvision, transformers and Pillow.

    taskset -c 0,1 python3 bench/peer_image.py [PICTURE.jpg] [--rounds 5] [--seconds 4] [--lathe build/release/bench/image]
"""
import argparse
import json
import math
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time

MAX_PIXELS, MIN_PIXELS = 262144, 1024
LIMITS = {"shortest_edge": 65536, "longest_edge": 16777216}


def make_picture(path):
    """640 x 480, smooth colours with a grain, as a photograph has: 4:2:0, quality 90."""
    import numpy
    from PIL import Image

    rng = numpy.random.default_rng(1)
    coarse = rng.integers(0, 256, (12, 16, 3), dtype=numpy.uint8)
    smooth = numpy.asarray(Image.fromarray(coarse).resize((640, 480), Image.BICUBIC), dtype=numpy.int16)
    grain = rng.normal(0, 6, smooth.shape)
    Image.fromarray((smooth + grain).clip(0, 255).astype(numpy.uint8)).save(path, quality=90)


def regularise(image):
    """The pixel budget of the data pipeline, then RGB."""
    if image.width * image.height > MAX_PIXELS:
        f = math.sqrt(MAX_PIXELS / (image.width * image.height))
        image = image.resize((int(image.width * f), int(image.height * f)))
    if image.width * image.height < MIN_PIXELS:
        f = math.sqrt(MIN_PIXELS / (image.width * image.height))
        image = image.resize((int(image.width * f), int(image.height * f)))
    return image.convert("RGB") if image.mode != "RGB" else image


def processor(kind):
    import transformers

    name = "Qwen2VLImageProcessorFast" if kind == "fast" else "Qwen2VLImageProcessor"
    return getattr(transformers, name)(
        patch_size=16, temporal_patch_size=2, merge_size=2, size=LIMITS, min_pixels=LIMITS["shortest_edge"],
        max_pixels=LIMITS["longest_edge"], image_mean=[0.5] * 3, image_std=[0.5] * 3)


def worker(kind, path, begin, seconds, out):
    import torch
    from PIL import Image

    torch.set_num_threads(1)
    p = processor(kind)

    def one():
        return p(images=[regularise(Image.open(path))], return_tensors="pt")["pixel_values"]

    one()
    begin.wait()
    start, cpu, n = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - start < seconds:
        one()
        n += 1
    out.put((n, time.perf_counter() - start, time.process_time() - cpu))


def reference(kind, path, seconds, workers):
    context = multiprocessing.get_context("spawn")
    begin, out = context.Barrier(workers), context.Queue()
    group = [context.Process(target=worker, args=(kind, path, begin, seconds, out)) for _ in range(workers)]
    for w in group:
        w.start()
    results = [out.get() for _ in group]
    for w in group:
        w.join()
    n = sum(r[0] for r in results)
    return {"case": kind, "per_s": n / max(r[1] for r in results), "cpu_ms": 1000 * sum(r[2] for r in results) / n}


def lathe(program, path, seconds, workers):
    text = subprocess.run([program, path, str(seconds), str(workers)], capture_output=True, text=True, check=True).stdout
    for line in text.splitlines():
        row = json.loads(line)
        if row.get("case") == "pictures":
            return {"case": "lathe", "per_s": row["per_s"], "cpu_ms": row["cpu_ms"]}
    sys.exit("no line of the case pictures: " + text)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("picture", nargs="?")
    a.add_argument("--rounds", type=int, default=5)
    a.add_argument("--seconds", type=float, default=4)
    a.add_argument("--workers", type=int, default=2)
    a.add_argument("--lathe", default="build/release/bench/image")
    o = a.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if not o.picture:
            o.picture = os.path.join(folder, "640x480.jpg")
            make_picture(o.picture)
        rows = []
        for r in range(o.rounds):
            rows.append(lathe(o.lathe, o.picture, o.seconds, o.workers))
            for kind in ("fast", "slow"):
                rows.append(reference(kind, o.picture, o.seconds, o.workers))
            for row in rows[-3:]:
                print(json.dumps({"round": r + 1, **{k: round(v, 2) if k != "case" else v for k, v in row.items()}}), flush=True)
        for case in ("lathe", "fast", "slow"):
            mine = [row for row in rows if row["case"] == case]
            print(json.dumps({"median": case, "per_s": round(statistics.median(m["per_s"] for m in mine), 1),
                              "cpu_ms": round(statistics.median(m["cpu_ms"] for m in mine), 2)}))


if __name__ == "__main__":
    main()
