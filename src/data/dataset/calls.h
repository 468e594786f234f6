// SPDX-License-Identifier: Apache-2.0
// Calls of tools as text.
#ifndef LT_DATA_DATASET_CALLS_H
#define LT_DATA_DATASET_CALLS_H

#include "data/template/template.h"
#include <jansson.h>

/**
 * One call as Qwen's newer templates have it: <tool_call>, <function=NAME>, each argument in
 * <parameter=KEY>. What is no object counts as no arguments.
 * source   spec data-pipeline 4.3
 */
LT_NODISCARD lt_status lt_write_xml_call(const json_t *name, json_t *arguments, lt_buf *out);

/**
 * A turn of the role function_call: JSON of one call or a list of calls, a thought before it, is
 * written as the template writes calls.
 *
 * source   LLaMA-Factory's FunctionFormatter, and the function_formatter of its tool formats
 * in       chat->calls: not LT_CALLS_NONE
 * out      *out: memory is the arena's
 * errors   LT_ERR_DATA: no JSON, a call without name or arguments
 */
LT_NODISCARD lt_status lt_write_calls(const lt_template *chat, lt_span turn, lt_arena *arena,
                                      lt_span *out);
#endif
