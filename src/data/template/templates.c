// SPDX-License-Identifier: Apache-2.0
// The table of templates. A new one is a row.
#include "data/template/intern.h"
#include <string.h>

static const char chatml_system[] = "<|im_start|>system\n{{content}}<|im_end|>\n";
static const char chatml_user[] =
    "<|im_start|>user\n{{content}}<|im_end|>\n<|im_start|>assistant\n";
static const char chatml_answer[] = "{{content}}<|im_end|>\n";
static const char tool_response[] =
    "<|im_start|>user\n<tool_response>\n{{content}}\n</tool_response><|im_end|>\n"
    "<|im_start|>assistant\n";

// MindSpeed-MM's slot of Qwen2-VL.
static const char tool_turn[] = "<|im_start|>tool\n{{content}}<|im_end|>\n<|im_start|>assistant\n";

// What all templates of the Qwen line share; `result` is the slot of what a tool answers.
#define QWEN(result)                                                                               \
    .system = chatml_system,                                                                       \
    .slots = {[LT_ROLE_USER] = chatml_user,                                                        \
              [LT_ROLE_ASSISTANT] = chatml_answer,                                                 \
              [LT_ROLE_OBSERVATION] = (result),                                                    \
              [LT_ROLE_TOOL_CALL] = chatml_answer,                                                 \
              [LT_ROLE_TOOL_RESPONSE] = (result)},                                                 \
    .stop = "<|im_end|>", .pad = "<|endoftext|>"
#define QWEN_VISION                                                                                \
    .media = LT_PLUGIN_QWEN, .vision_start = "<|vision_start|>", .vision_end = "<|vision_end|>",   \
    .image_pad = "<|image_pad|>", .video_pad = "<|video_pad|>"
#define INTERN_VISION                                                                              \
    .default_system = lt_intern_system, .no_tools = true, .media = LT_PLUGIN_QWEN,                 \
    .vision_start = "<img>", .vision_end = "</img>", .image_pad = "<IMG_CONTEXT>"
#define QWEN3_VISION QWEN_VISION, .video_stamps = true
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

// The tools block of Qwen3.5's. LLaMA-Factory puts two newlines before it, MindSpeed-MM none.
#define XML_TOOLS                                                                                  \
    "# Tools\n\nYou have access to the following functions:\n\n<tools>\n%s\n</tools>\n\n"          \
    "If you choose to call a function ONLY reply in the following format with NO suffix:\n\n"      \
    "<tool_call>\n<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n"    \
    "</parameter>\n<parameter=example_parameter_2>\nThis is the value for the second parameter\n"  \
    "that can span\nmultiple lines\n</parameter>\n</function>\n</tool_call>\n\n<IMPORTANT>\n"      \
    "Reminder:\n- Function calls MUST follow the specified format: an inner "                      \
    "<function=...></function> block must be nested within <tool_call></tool_call> XML tags\n"     \
    "- Required parameters MUST be specified\n"                                                    \
    "- You may provide optional reasoning for your function call in natural language BEFORE the "  \
    "function call, but NOT after\n"                                                               \
    "- If there is no function call available, answer the question like normal with your current " \
    "knowledge and do not tell the user about function calls\n</IMPORTANT>"
static const char qwen_xml_tools[] = XML_TOOLS;
static const char qwen_xml_tools_behind[] = "\n\n" XML_TOOLS;

// The rows that LLaMA-Factory alone has.
#define TOOLS_BEHIND(preamble, form)                                                               \
    .tool_preamble = (preamble), .tools_form = (form), .tools_last = true
#define FACTORY_THOUGHT                                                                            \
    {                                                                                              \
        "<think>\n", "\n</think>\n\n"                                                              \
    }
#define SET_THOUGHT                                                                                \
    .reasoning = true, .thinking_setting = true, .thought = FACTORY_THOUGHT,                       \
    .empty_thought = "<think>\n\n</think>\n\n"

static const lt_template templates[] = {
    {.name = "qwen3_vl", QWEN(tool_response), QWEN3_VISION, QWEN_THOUGHT},
    {.name = "qwen3_vl_nothink",
     QWEN(tool_response),
     QWEN3_VISION,
     .tool_preamble = qwen_json_tools},
    {.name = "qwen3_6",
     QWEN(tool_response),
     QWEN3_VISION,
     QWEN_THOUGHT,
     .tool_preamble = qwen_xml_tools},
    {.name = "qwen3_6_nothink", QWEN(tool_response), .tool_preamble = qwen_xml_tools},
    {.name = "qwen3_5",
     QWEN(tool_response),
     QWEN3_VISION,
     SET_THOUGHT,
     TOOLS_BEHIND(qwen_xml_tools_behind, LT_TOOLS_INNER)},
    {.name = "qwen3_5_nothink",
     QWEN(tool_response),
     QWEN3_VISION,
     TOOLS_BEHIND(qwen_xml_tools_behind, LT_TOOLS_INNER)},
    {.name = "qwen2vl",
     QWEN(tool_turn),
     QWEN_VISION,
     .default_system = "You are a helpful assistant.",
     .nearest_budget = true},
    {.name = "qwen2_vl",
     QWEN(tool_response),
     QWEN_VISION,
     .default_system = "You are a helpful assistant.",
     TOOLS_BEHIND(qwen_json_tools, LT_TOOLS_OUTER)},
    {.name = "internvl2_5",
     QWEN(tool_response),
     INTERN_VISION,
     .pictures = LT_PICTURES_INTERN,
     .segments = true},
    {.name = "intern_vl", QWEN(tool_response), INTERN_VISION, .pictures = LT_PICTURES_INTERN_PORT},
};
enum { N_TEMPLATES = sizeof templates / sizeof templates[0] };

// By LLaMA-Factory's habits: what the rows above differ in. All take turns of the role
// function_call, and cut a thought off such a turn.
#define FACTORY                                                                                    \
    .system = chatml_system,                                                                       \
    .slots = {[LT_ROLE_USER] = chatml_user,          [LT_ROLE_ASSISTANT] = chatml_answer,          \
              [LT_ROLE_OBSERVATION] = tool_response, [LT_ROLE_FUNCTION] = chatml_answer,           \
              [LT_ROLE_TOOL_CALL] = chatml_answer,   [LT_ROLE_TOOL_RESPONSE] = tool_response},     \
    .stop = "<|im_end|>", .pad = "<|endoftext|>"
#define FACTORY_JSON TOOLS_BEHIND(qwen_json_tools, LT_TOOLS_OUTER), .calls = LT_CALLS_JSON
#define FACTORY_XML TOOLS_BEHIND(qwen_xml_tools_behind, LT_TOOLS_INNER), .calls = LT_CALLS_XML
static const lt_template factory_templates[] = {
    {.name = "qwen3_vl", FACTORY, QWEN3_VISION, SET_THOUGHT, FACTORY_JSON},
    {.name = "qwen3_vl_nothink", FACTORY, QWEN3_VISION, FACTORY_JSON, .thought = FACTORY_THOUGHT},
    {.name = "qwen3_6", FACTORY, QWEN3_VISION, SET_THOUGHT, FACTORY_XML},
    {.name = "qwen3_6_nothink", FACTORY, QWEN3_VISION, FACTORY_XML, .thought = FACTORY_THOUGHT},
    {.name = "qwen3_5", FACTORY, QWEN3_VISION, SET_THOUGHT, FACTORY_XML},
    {.name = "qwen3_5_nothink", FACTORY, QWEN3_VISION, FACTORY_XML, .thought = FACTORY_THOUGHT},
    {.name = "qwen2_vl",
     FACTORY,
     QWEN_VISION,
     FACTORY_JSON,
     .default_system = "You are a helpful assistant.",
     .thought = FACTORY_THOUGHT},
};

const lt_template *lt_template_as(const lt_template *chat, lt_habits habits)
{
    const char *name = strcmp(chat->name, "qwen2vl") == 0 ? "qwen2_vl" : chat->name;
    for (size_t i = 0; i < sizeof factory_templates / sizeof factory_templates[0]; i++)
        if (habits == LT_HABITS_FACTORY && strcmp(factory_templates[i].name, name) == 0)
            return &factory_templates[i];
    return chat;
}

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
