// SPDX-License-Identifier: Apache-2.0
// A user's YAML file, loaded, type-checked, held against every rule that can be checked before a
// run, and printed.
#ifndef LT_TRAIN_CONFIG_CONFIG_H
#define LT_TRAIN_CONFIG_CONFIG_H

#include "base/log.h"
#include "base/text.h"
#include "train/config/sections.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What follows from the sizes of `parallel` and the number of ranks. All 0 while the number of
 * ranks is unknown. */
typedef struct lt_cfg_sizes {
    int64_t world;          /* ranks */
    int64_t dp;             /* data parallel: world / (ring * ulysses) */
    int64_t dp_shard;       /* fully_shard / ring / ulysses */
    int64_t dp_replicate;   /* dp / dp_shard */
    int64_t fully_shard;    /* ranks that share the parameters of a unit */
    int64_t ep, efsdp, edp; /* expert mesh: edp = world / (efsdp * ep) */
    int64_t global_batch;   /* micro_batch_size * dp * gradient_accumulation_steps */
} lt_cfg_sizes;

typedef struct lt_config_state lt_config_state;

/** The whole configuration. Texts and lists live as long as it does. */
typedef struct lt_config {
    lt_cfg_parallel parallel;
    lt_cfg_data data;
    lt_cfg_model model;
    lt_cfg_features features;
    lt_cfg_training training;
    lt_cfg_tools tools;
    lt_cfg_lathe lathe;
    lt_cfg_sizes sizes;
    lt_config_state *state; /* where each key was set, what was found wrong */
} lt_config;

typedef struct lt_config_opts {
    const char *const
        *overrides; /* "section.key=value"; the value is a YAML scalar or a flow list or mapping */
    int64_t n_overrides;
    int64_t world_size; /* ranks; 0: unknown, rules about sizes are then left out */
} lt_config_opts;

/**
 * Read, merge, convert and check; all that is wrong is collected, and nothing is logged. For those
 * who show a file with its faults; a run calls lt_config_load.
 *
 * source   spec/config-trainer-checkpoint.md, section 1
 * out      *out, whatever is wrong with the values: a key that is wrong has its default
 * errors   LT_ERR_NOT_FOUND, LT_ERR_IO; LT_ERR_CONFIG when the file is no YAML, no mapping, or of
 * another family of files; LT_ERR_MEMORY
 */
LT_NODISCARD lt_status lt_config_read(const char *path, const lt_config_opts *opts,
                                      lt_config **out);
/** The same for a text in memory; `name` stands in messages. */
LT_NODISCARD lt_status lt_config_read_text(const char *name, const char *text, size_t len,
                                           const lt_config_opts *opts, lt_config **out);

/** LT_OK, or LT_ERR_CONFIG with every error of the file, one a line: "file:line: key.path: what and
 * what to do". */
LT_NODISCARD lt_status lt_config_verdict(const lt_config *cfg);

/** lt_config_read, its warnings to the log, lt_config_verdict. */
LT_NODISCARD lt_status lt_config_load(const char *path, const lt_config_opts *opts,
                                      const lt_log *log, lt_config **out);

/** Accepts NULL. */
void lt_config_destroy(lt_config *cfg);

/** What was found: errors, warnings, notes, in the order of the schema. The text has its place in
 * front. */
typedef enum lt_config_level { LT_CONFIG_ERROR, LT_CONFIG_WARNING, LT_CONFIG_NOTE } lt_config_level;
typedef struct lt_config_issue {
    lt_config_level level;
    const char *text;
} lt_config_issue;
int64_t lt_config_n_issues(const lt_config *cfg);
lt_config_issue lt_config_issue_at(const lt_config *cfg, int64_t i);

/** Every field, nested, as YAML that loads to the same values; fields that the file leaves out end
 * in "# default". */
LT_NODISCARD lt_status lt_config_print(const lt_config *cfg, lt_buf *out);

/** Who asks: each looks at the sections that it uses (evaluation and generation at parallel, data,
 * model, lathe). */
typedef enum lt_config_use { LT_USE_TRAIN, LT_USE_PLAN, LT_USE_EVAL } lt_config_use;

/**
 * Refuse what this build cannot do: each key that is set to a value whose feature does not exist,
 * and what the command needs and the file does not give. Hints that change no result go to the log
 * as one note.
 *
 * errors   LT_ERR_UNSUPPORTED (or LT_ERR_CONFIG when something is missing): all of them, one a line
 */
LT_NODISCARD lt_status lt_config_refuse(const lt_config *cfg, lt_config_use use, const lt_log *log);

/** Was the key set, by the file or by an override (and not to null where null means absent)? */
bool lt_config_given(const lt_config *cfg, const char *key_path);
/** "file.yaml:12", "override 2", or "default": for messages about a key's value. */
typedef struct lt_config_place {
    char s[256];
} lt_config_place;
lt_config_place lt_config_where(const lt_config *cfg, const char *key_path);

/** The table of all keys as Markdown: key, type, default, state, meaning. For `lathe config --keys`
 * and the user guide. */
LT_NODISCARD lt_status lt_config_keys(lt_buf *out);

// ---- what several callers would otherwise derive each for itself ----

/** The dtype of activations and gathered weights: lathe.dtype, else fsdp_plan.param_dtype, else
 * fp32. */
lt_cfg_compute lt_config_compute_dtype(const lt_config *cfg);
/** Are several samples put into a row? Unless it is set, only when pretraining. */
bool lt_config_packs(const lt_cfg_basic *b);
/** Where tokenizer and processor files are read: preprocess_parameters.model_name_or_path, else
 * model's. NULL when neither. */
const char *lt_config_processor_dir(const lt_config *cfg, const lt_cfg_dataset *dataset);
/**
 * Rows of hidden states that the loss takes at a time: chunk_size (or, with
 * enable_dynamic_chunk_loss, the largest power of two up to total_chunk_size / micro_batch_size)
 * counts sequence positions, each of micro_batch_size rows. The same value serves when chunk loss
 * is off: lathe never makes the logits of a whole sequence.
 */
int64_t lt_config_loss_rows(const lt_config *cfg);

#ifdef __cplusplus
}
#endif
#endif
