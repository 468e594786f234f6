// SPDX-License-Identifier: Apache-2.0
// A place to train in: a folder with a tiny model, pictures, a data set and a configuration.
#ifndef LT_TESTS_KIT_RUN_PLACE_H
#define LT_TESTS_KIT_RUN_PLACE_H

#include "tests/kit/lt_test.h"

/** Zeros: a tied model in one F32 file, 11 records. */
typedef struct lt_place_opts {
    bool random; /* no weights in the folder; a run needs lathe.init=random */
    bool untied; /* the head has a weight of its own */
    bool bf16;   /* dtype of the stored weights */
    int files;   /* more than 1: so many shards, with an index */
    bool extra;  /* tensors that no parameter takes, one of them of a dtype unknown to lathe */
    int records; /* of data.json */
    int hidden;  /* of the decoder: 32, or as wished */
    int layers;  /* of the decoder: 2, or as wished */
} lt_place_opts;

/** What the place holds, by name. */
#define LT_PLACE_CONFIG "train.yaml"
#define LT_PLACE_MODEL "model"
#define LT_PLACE_DATA "data.json"
#define LT_PLACE_PICTURES "pictures"
#define LT_PLACE_OUT "out" /* training.save */
enum { LT_PLACE_RECORDS = 11, LT_PLACE_PICTURE_COUNT = 4, LT_PLACE_VOCAB = 320 };

/**
 * Make the folder; its path. train.yaml trains 6 steps of 2 x 2 samples in f32 on two threads and
 * saves to out/ at the end. Records come in threes: text alone, one picture, two pictures.
 */
const char *lt_place(void *state, const lt_place_opts *opts);

/**
 * A place for Qwen3.5, dense or with experts: linear attention in two layers of three, 4 layers, a
 * head of its own; no weights, so a run needs lathe.init=random.
 */
const char *lt_hybrid_place(void *state, bool experts);

/** Write DIR/NAME; fmt as for printf. */
void lt_place_write(void *state, const char *dir, const char *name, const char *fmt, ...)
    LT_PRINTF(4, 5);
/** The text of DIR/NAME. */
const char *lt_place_read(void *state, const char *dir, const char *name);
/** In DIR/NAME, replace the first `from` by `to`; fails the test when it is not there. */
void lt_place_edit(void *state, const char *dir, const char *name, const char *from,
                   const char *to);
/** A picture of smooth colour that depends on `seed`, as an RGB PNG. */
void lt_place_png(void *state, const char *path, int width, int height, int seed);
#endif
