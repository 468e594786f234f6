// SPDX-License-Identifier: Apache-2.0
// From a conversation to a sample: ids, labels, media, cut to length as the reference cuts.
#ifndef LT_DATA_DATASET_ENCODE_H
#define LT_DATA_DATASET_ENCODE_H

#include "data/dataset/convert.h"
#include "data/dataset/records.h"

/**
 * The grid that the picture at `path` will have; its record has n_images of them.
 * errors   what the picture's reader says; the message names the path
 * threads  any number at once
 */
typedef lt_status (*lt_grid_fn)(void *ctx, const char *path, int64_t n_images, lt_grid *out);
/**
 * The medium that a video will be: frames, times, grid. *out is the arena's.
 * errors   what its readers say, with the path
 * threads  any number at once
 */
typedef lt_status (*lt_clip_fn)(void *ctx, const lt_video_ref *video, lt_arena *arena,
                                lt_media *out);

typedef struct lt_encode_opts {
    lt_renderer_opts render; /* tokenizer, template, merge, tags, literals */
    int64_t cutoff_len;
    bool train_on_prompt, mask_history;
    bool mask_first;        /* no label on the first token: what packing does */
    bool text_alone;        /* pretraining: the first turn's text, no template, all of it trained */
    bool refuse_cut_images; /* a cut through an image is an error, as training wants */
    const char *media_dir;  /* dataset_dir: where media are looked for first; NULL or "": nowhere */
    lt_grid_fn grid_of;     /* NULL: conversations with images are refused */
    lt_clip_fn clip_of;     /* NULL: conversations with videos are */
    void *grid_ctx;         /* of both */
} lt_encode_opts;
/** As lt_renderer_opts_default; cutoff_len 1024, cuts left standing. */
lt_encode_opts lt_encode_opts_default(void);

typedef struct lt_encoder lt_encoder;
/**
 * keeps    what opts point to
 * errors   LT_ERR_CONFIG: cutoff_len below 1, a token that the template needs and the tokenizer
 *          lacks, train_on_prompt, mask_history or split_special_tokens with a template of segments
 * threads  const once made
 */
LT_NODISCARD lt_status lt_encoder_create(const lt_encode_opts *opts, lt_encoder **out);
void lt_encoder_destroy(lt_encoder *e);
/** The template's token ids. */
const lt_template_ids *lt_encoder_ids(const lt_encoder *e);

/** What was lost to cutoff_len. */
typedef struct lt_cut {
    int64_t full_len; /* tokens before the cut; equals the sample's length when nothing was lost */
    int64_t cut_images;  /* images and videos of which some placeholders were lost */
    int64_t lost_images; /* of which all were: they are not among the sample's media */
} lt_cut;

/**
 * Encode an accepted conversation (dropped is NULL).
 *
 * source   MindSpeed-MM's supervised processor and templates; spec data-pipeline 5, 6
 * out      *out: memory is the arena's; file and record from `place`. *cut may be NULL
 * errors   LT_ERR_DATA: tags and media that differ in number (with both counts), a picture that is
 *          missing or cannot be used, a literal placeholder, a cut through an image or video where
 *          that is refused. Messages begin with file, line and record
 * threads  any number at once, each with its own arena
 */
LT_NODISCARD lt_status lt_encode(const lt_encoder *e, const lt_conversation *c,
                                 lt_record_place place, lt_arena *arena, lt_sample *out,
                                 lt_cut *cut);
/**
 * The checks of lt_encode that need no pixels and no tokens: counts of tags, literal placeholders,
 * that each image is there.
 */
LT_NODISCARD lt_status lt_encode_check(const lt_encoder *e, const lt_conversation *c,
                                       lt_record_place place, lt_arena *arena);

/**
 * MindSpeed-MM's infer_seqlen: how many of `source` and `target` tokens stay when `limit` are
 * allowed.
 */
void lt_cut_lengths(int64_t source, int64_t target, int64_t limit, int64_t *new_source,
                    int64_t *new_target);
/**
 * dir/path when that is a file (an absolute path stands for itself), else path as it is; *found:
 * there is such a file.
 */
LT_NODISCARD lt_status lt_media_path(const char *dir, const char *path, lt_arena *arena,
                                     const char **out, bool *found);
#endif
