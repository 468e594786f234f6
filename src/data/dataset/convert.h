// SPDX-License-Identifier: Apache-2.0
// Converters: from a record, whatever its columns are called, to turns, system text, tools and
// media paths.
#ifndef LT_DATA_DATASET_CONVERT_H
#define LT_DATA_DATASET_CONVERT_H

#include "data/template/template.h"
#include <jansson.h>

/** How columns are named: data.dataset_param.attr. NULL: there is no such column. */
typedef struct lt_attr {
    /* "sharegpt", "alpaca", "openai", "multimodal_tool"; "internvl": of its own data sets */
    const char *formatting;
    const char *messages, *role_tag, *content_tag;
    /* values of the role key */
    const char *user_tag, *assistant_tag, *observation_tag, *function_tag, *system_tag;
    const char *images, *videos, *system, *tools;
    const char *prompt, *query, *response, *history; /* alpaca */
    lt_habits habits; /* LLaMA-Factory's keep blanks around texts, and want a text in every turn */
    bool no_answers;  /* pretraining: alpaca's records need no answer */
    const char *image_tag; /* internvl: put in front where it is missing; NULL: <image> */
} lt_attr;
/**
 * sharegpt; conversations, from, value; human, gpt, observation, function_call, system; the rest
 * NULL.
 */
lt_attr lt_attr_default(void);
/**
 * errors LT_ERR_CONFIG for an unknown formatting, a turn key or role that is NULL, alpaca without a
 * prompt column
 */
LT_NODISCARD lt_status lt_attr_check(const lt_attr *attr);

/** Columns and keys that a data set must have somewhere; bits of lt_conversation.seen. */
enum {
    LT_SEEN_MESSAGES = 1,
    LT_SEEN_CONTENT = 2, /* the content key, in a turn */
    LT_SEEN_IMAGES = 4,
    LT_SEEN_VIDEOS = 8,
    LT_SEEN_SYSTEM = 16,
    LT_SEEN_PROMPT = 32,
    LT_SEEN_QUERY = 64,
    LT_SEEN_RESPONSE = 128,
    LT_SEEN_HISTORY = 256
};

/** A converted record. Memory is the arena's. */
typedef struct lt_conversation {
    const char *dropped; /* why it is no use; NULL: accepted, turns are questions and answers */
    const char *dropped_kind; /* those words before values were put in */
    lt_turn *turns;
    int64_t n_turns;
    lt_span system;
    bool has_system;                 /* internvl: the record has a system entry, be it empty */
    lt_span tools[LT_N_TOOLS_FORMS]; /* schemas joined by newlines, in each form */
    const char **images;
    lt_video_ref *videos;
    int64_t n_images, n_videos;
    const char *unread_images; /* what may be the images' column when attr.images is NULL */
    unsigned seen;
} lt_conversation;

/**
 * source   MindSpeed-MM's converters; spec data-pipeline 4
 * errors   LT_ERR_DATA for what ends a run there: a column or key of the wrong type, turns without
 *          a role; the message says which, not where: see lt_record_note
 * threads  any
 */
LT_NODISCARD lt_status lt_convert_record(const lt_attr *attr, json_t *record, lt_arena *arena,
                                         lt_conversation *out);

/** What Python's str.strip leaves: White_Space and U+001C to U+001F go at both ends. */
lt_span lt_strip(lt_span text);
#endif
