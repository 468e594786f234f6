// SPDX-License-Identifier: Apache-2.0
// Chat templates: a table of slots, and the way from turns with media to token ids.
#ifndef LT_DATA_TEMPLATE_TEMPLATE_H
#define LT_DATA_TEMPLATE_TEMPLATE_H

#include "data/sample.h"
#include "data/tokenizer/tokenizer.h"

/** Who speaks. The last two come from tool calls of the formatting `openai`. */
typedef enum lt_role {
    LT_ROLE_USER,
    LT_ROLE_ASSISTANT,
    LT_ROLE_OBSERVATION,
    LT_ROLE_FUNCTION,
    LT_ROLE_TOOL_CALL,
    LT_ROLE_TOOL_RESPONSE,
    LT_N_ROLES
} lt_role;
/** "user", "function_call", ... as messages print it. */
const char *lt_role_name(lt_role role);

/** A text with its length: it may hold zeros. */
typedef struct lt_span {
    const char *s;
    size_t len;
} lt_span;
static inline bool lt_span_empty(lt_span t)
{
    return t.len == 0;
}

typedef struct lt_turn {
    lt_role role;
    lt_span text;
} lt_turn;

/** How the schemas of tools are written into the system text. */
typedef enum lt_tools_form {
    LT_TOOLS_GIVEN, /* as the record has them */
    LT_TOOLS_OUTER, /* {"type": "function", "function": ...} around each, where it isn't yet */
    LT_TOOLS_INNER, /* the object under "function" alone */
    LT_N_TOOLS_FORMS
} lt_tools_form;

/** How a turn of the role function_call, the JSON of calls, is written. */
typedef enum lt_calls_form {
    LT_CALLS_NONE, /* there is no place for one */
    LT_CALLS_JSON, /* each call as JSON between tags */
    LT_CALLS_XML   /* each in tags, its arguments too */
} lt_calls_form;

/** Whose ways are followed where MindSpeed-MM's and LLaMA-Factory's differ. */
typedef enum lt_habits { LT_HABITS_MINDSPEED, LT_HABITS_FACTORY } lt_habits;

/** What a template does with media. */
typedef enum lt_media_plugin {
    LT_PLUGIN_NONE, /* tags are ordinary text, a record with media is refused */
    LT_PLUGIN_QWEN  /* <image> becomes start token, pads, end token; as many tags as images */
} lt_media_plugin;

/** How pictures become patches. */
typedef enum lt_picture_form {
    LT_PICTURES_QWEN,       /* one grid of its own size */
    LT_PICTURES_INTERN,     /* InternVL's tiles, as its own code makes them */
    LT_PICTURES_INTERN_PORT /* the same as transformers' port makes them */
} lt_picture_form;

/** One row of the table. A slot's text holds {{content}} once. */
typedef struct lt_template {
    const char *name;
    const char *system;            /* slot of the system text */
    const char *slots[LT_N_ROLES]; /* NULL: the template has no place for that role */
    const char *default_system;    /* when a record has none; NULL: none */
    const char *tool_preamble;     /* around the tool schemas (%s); NULL: they are ignored */
    lt_tools_form tools_form;
    lt_calls_form calls;
    bool tools_last;        /* the preamble follows the system text directly, else it comes first */
    bool reasoning;         /* an answer without a thought gets an empty one */
    bool thinking_setting;  /* enable_thinking decides about it, else it is always trained */
    const char *thought[2]; /* its markers, with the newlines that belong to them */
    const char *empty_thought;
    lt_media_plugin media;
    lt_picture_form pictures;
    bool segments;     /* every turn is tokenised by itself, in any order: see template/intern.h */
    bool no_tools;     /* tools of a record are refused, not ignored */
    bool video_stamps; /* a video is a piece for each slice, each with its time in front */
    bool nearest_budget; /* pictures are brought within the budget by the nearest pixel */
    const char *stop;    /* the token that ends an answer */
    const char *pad;
    const char *vision_start, *vision_end, *image_pad, *video_pad; /* of LT_PLUGIN_QWEN */
} lt_template;

/** All templates, and how many. */
const lt_template *lt_template_list(int64_t *n);
/**
 * By name.
 * errors  LT_ERR_CONFIG, with the names there are and the nearest one
 */
LT_NODISCARD lt_status lt_template_find(const char *name, const lt_template **out);

/**
 * The template as LLaMA-Factory has it, or `chat` itself by MindSpeed-MM's habits.
 * source   spec data-pipeline 2.5
 */
const lt_template *lt_template_as(const lt_template *chat, lt_habits habits);

/** What to do with a text that spells a vision placeholder token itself, say "<|image_pad|>". */
typedef enum lt_literal {
    LT_LITERAL_KEEP,  /* it becomes that token, as in the reference */
    LT_LITERAL_REFUSE /* LT_ERR_DATA: a model would look for a picture there */
} lt_literal;

/** What becomes of the empty thought in front of an answer that has none. */
typedef enum lt_empty_thought {
    LT_THOUGHT_AUTO,  /* as the template and enable_thinking say */
    LT_THOUGHT_TRAIN, /* it is part of the answer, with labels */
    LT_THOUGHT_MASK,  /* it is part of the question, without */
    LT_THOUGHT_OMIT   /* there is none */
} lt_empty_thought;

typedef struct lt_renderer_opts {
    const lt_tokenizer *tokenizer;
    const lt_template *chat;
    int64_t merge;         /* patches along a side of one placeholder token */
    const char *image_tag; /* "<image>" */
    const char *video_tag; /* "<video>" */
    lt_literal literals;
    bool no_thinking; /* enable_thinking: false */
    lt_empty_thought empty_thought;
    bool split_special_tokens;
} lt_renderer_opts;
/** merge 2, the usual tags, literals kept, thinking on, the empty thought as the template says. */
lt_renderer_opts lt_renderer_opts_default(void);

typedef struct lt_renderer lt_renderer;
/**
 * keeps    the tokenizer and the tags
 * errors   LT_ERR_CONFIG when the tokenizer lacks a token that the template needs, naming both
 * threads  const once made
 */
LT_NODISCARD lt_status lt_renderer_create(const lt_renderer_opts *opts, lt_renderer **out);
void lt_renderer_destroy(lt_renderer *r);

/** Ids of the template's tokens; -1 where it has none. */
typedef struct lt_template_ids {
    int32_t stop, pad, vision_end;
    lt_vision_ids vision;
} lt_template_ids;
const lt_template_ids *lt_renderer_ids(const lt_renderer *r);

/** Media of a conversation, counted; each kind is taken from the front as its tags are met. */
typedef struct lt_media_cursor {
    const lt_media *images;
    int64_t n_images, next_image;
    const lt_media *videos;
    int64_t n_videos, next_video;
} lt_media_cursor;

/** Where the placeholders of an image, or of a piece of a video, came to lie. */
typedef struct lt_media_place {
    lt_media_kind kind;
    int64_t index; /* in the cursor's images or videos */
    int64_t start; /* of its start token in `ids`; the pads follow, then the end token */
    int64_t n_pads;
} lt_media_place;

/** The placeholder token that the text spells itself, NULL when it spells none. */
const char *lt_literal_in(const lt_renderer *r, lt_span text);
/** LT_ERR_DATA, with the sentence about such a text. */
lt_status lt_refuse_literal(const char *token);
/** How often the tag stands in the text. */
int64_t lt_count_tag(lt_span text, const char *tag);

/**
 * Ids of the system slot: the record's system text, else the template's own, behind the tool
 * preamble where there are tools.
 * out  ids: int32_t appended; nothing when there is none of them
 */
LT_NODISCARD lt_status lt_render_system(const lt_renderer *r, lt_span system, lt_span tools,
                                        lt_vec *ids);
/**
 * Ids of a text by itself, the template's stop token behind it: what pretraining learns from.
 * out  ids: int32_t appended
 * errors   LT_ERR_DATA: a literal placeholder (LT_LITERAL_REFUSE)
 */
LT_NODISCARD lt_status lt_render_text(const lt_renderer *r, lt_span text, lt_vec *ids);
/**
 * Ids of one turn in its slot, media expanded.
 *
 * in       pair: its number from 0, which replaces the first {{idx}} of what a user says
 * out      ids: int32_t appended; places (may be NULL): lt_media_place pushed
 * errors   LT_ERR_DATA: no slot for the role, more tags than media, a literal placeholder
 *          (LT_LITERAL_REFUSE);
 *          LT_ERR_UNSUPPORTED: media with split_special_tokens
 */
LT_NODISCARD lt_status lt_render_turn(const lt_renderer *r, const lt_turn *turn, int64_t pair,
                                      lt_media_cursor *media, lt_vec *ids, lt_vec *places);
/**
 * The empty thought's ids, when the template reasons and `answer` holds neither marker of a
 * thought; else nothing.
 */
LT_NODISCARD lt_status lt_render_thought(const lt_renderer *r, lt_span answer, lt_vec *ids);
/** Where it goes: LT_THOUGHT_TRAIN, _MASK or _OMIT, never _AUTO. */
lt_empty_thought lt_thought_place(const lt_renderer *r);
/** True when the thoughts of answers are cut out: of all of them, or of those of `history` only. */
bool lt_thoughts_go(const lt_renderer *r, bool history);
/**
 * `answer` without its thoughts (marker, anything, marker) and the newlines in front of the rest.
 * source   LLaMA-Factory's ReasoningTemplate.remove_thought
 * out      *out: the arena's, or `answer` itself when it has none
 */
LT_NODISCARD lt_status lt_without_thoughts(const lt_renderer *r, lt_span answer, lt_arena *arena,
                                           lt_span *out);
#endif
