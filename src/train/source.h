// SPDX-License-Identifier: Apache-2.0
// A data set as a run sees it: the rows that are used, how they become samples, and how samples
// become micro-batches.
#ifndef LT_TRAIN_SOURCE_H
#define LT_TRAIN_SOURCE_H

#include "data/dataset/dataset.h"
#include "data/loader.h"
#include "model/model.h"
#include "train/config/config.h"

typedef struct lt_source lt_source;

/**
 * Open tokenizer, template, processor and files of a data section, and find the rows that the
 * reference would keep.
 *
 * in       dataset: cfg->data.dataset_param or val_dataset_param; files (may be NULL): instead of
 *          the section's own
 * keeps    cfg, model, log
 * errors   those of the parts, with file and record; LT_ERR_DATA when no row is of use
 */
LT_NODISCARD lt_status lt_source_open(const lt_config *cfg, const lt_cfg_dataset *dataset,
                                      const lt_texts *files, const lt_model *model, lt_pool *pool,
                                      const lt_log *log, lt_source **out);
/** What lt_source_open_as opens. */
typedef struct lt_source_opts {
    const lt_cfg_dataset *dataset; /* the section */
    const lt_texts *files;         /* instead of the section's own; may be NULL */
    bool validation;               /* val_max_samples counts, not max_samples */
    bool all_records;              /* no record is looked at, none is left out: for lathe check */
} lt_source_opts;
LT_NODISCARD lt_status lt_source_open_as(const lt_config *cfg, const lt_source_opts *opts,
                                         const lt_model *model, lt_pool *pool, const lt_log *log,
                                         lt_source **out);
/**
 * Where validation data come from: data.val_dataset_param, else the file val_dataset of the
 * training data's section (its name goes to *file). False when there are none.
 */
bool lt_source_validation(const lt_config *cfg, lt_source_opts *out, const char **file,
                          lt_texts *files);
void lt_source_close(lt_source *s);
/** The rows themselves: counts, conversations, encoding. */
lt_dataset *lt_source_dataset(const lt_source *s);
/** How samples of this source become micro-batches. */
const lt_collate_opts *lt_source_collate(const lt_source *s);
/** encode and collate set, the rest as lt_loader_opts_default. */
lt_loader_opts lt_source_loader(lt_source *s);
const lt_tokenizer *lt_source_tokenizer(const lt_source *s);
/**
 * "template qwen3_vl_nothink, cutoff_len 16384, pictures of 1024 to 262144 pixels, ..." for the
 * start of a run.
 */
LT_NODISCARD lt_status lt_source_print(const lt_source *s, lt_buf *out);
#endif
