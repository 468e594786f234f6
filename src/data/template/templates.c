// SPDX-License-Identifier: Apache-2.0
// The table of templates. A new one is a row.
#include "data/template/template.h"
#include <string.h>

static const char chatml_system[] = "<|im_start|>system\n{{content}}<|im_end|>\n";
static const char chatml_user[] =
    "<|im_start|>user\n{{content}}<|im_end|>\n<|im_start|>assistant\n";
static const char chatml_answer[] = "{{content}}<|im_end|>\n";
static const char tool_response[] =
    "<|im_start|>user\n<tool_response>\n{{content}}\n</tool_response><|im_end|>\n"
    "<|im_start|>assistant\n";

// What all templates of the Qwen3 line share.
#define QWEN3                                                                                      \
    .system = chatml_system,                                                                       \
    .slots = {[LT_ROLE_USER] = chatml_user,                                                        \
              [LT_ROLE_ASSISTANT] = chatml_answer,                                                 \
              [LT_ROLE_OBSERVATION] = tool_response,                                               \
              [LT_ROLE_TOOL_CALL] = chatml_answer,                                                 \
              [LT_ROLE_TOOL_RESPONSE] = tool_response},                                            \
    .stop = "<|im_end|>", .pad = "<|endoftext|>"
#define QWEN_VISION                                                                                \
    .media = LT_PLUGIN_QWEN, .vision_start = "<|vision_start|>", .vision_end = "<|vision_end|>",   \
    .image_pad = "<|image_pad|>", .video_pad = "<|video_pad|>"
#define QWEN_THOUGHT                                                                               \
    .reasoning = true, .thought = {"<think>", "</think>"},                                         \
    .empty_thought = "<think>\n\n</think>\n\n"

// The tools block of Qwen3's chat template.
static const char qwen_json_tools[] =
    "\n\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n%s\n"
    "</tools>\n\nFor each function call, return a json object with function name and arguments "
    "within <tool_call></tool_call> XML tags:\n<tool_call>\n"
    "{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>";

static const lt_template templates[] = {
    {.name = "qwen3_vl", QWEN3, QWEN_VISION, QWEN_THOUGHT},
    {.name = "qwen3_vl_nothink", QWEN3, QWEN_VISION, .tool_preamble = qwen_json_tools},
};
enum { N_TEMPLATES = sizeof templates / sizeof templates[0] };

const lt_template *lt_template_list(int64_t *n)
{
    *n = N_TEMPLATES;
    return templates;
}

lt_status lt_template_find(const char *name, const lt_template **out)
{
    const char *names[N_TEMPLATES];
    char all[512] = "";
    for (size_t i = 0; i < N_TEMPLATES; i++) {
        names[i] = templates[i].name;
        if (strcmp(name, names[i]) == 0) {
            *out = &templates[i];
            return LT_OK;
        }
        strncat(all, i > 0 ? ", " : "", sizeof all - strlen(all) - 1);
        strncat(all, names[i], sizeof all - strlen(all) - 1);
    }
    const char *near = lt_text_nearest(name, names, N_TEMPLATES);
    return LT_FAIL(LT_ERR_CONFIG, "there is no template \"%.80s\" (known: %s)%s%s%s", name, all,
                   near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

const char *lt_role_name(lt_role role)
{
    static const char *const names[LT_N_ROLES] = {
        [LT_ROLE_USER] = "user",
        [LT_ROLE_ASSISTANT] = "assistant",
        [LT_ROLE_OBSERVATION] = "observation",
        [LT_ROLE_FUNCTION] = "function_call",
        [LT_ROLE_TOOL_CALL] = "tool_call",
        [LT_ROLE_TOOL_RESPONSE] = "tool_response",
    };
    return names[role];
}
