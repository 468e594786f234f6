// SPDX-License-Identifier: Apache-2.0
// Fuzz target: tokenizer.json from a stranger, then a text through whatever was accepted.
#include "data/tokenizer/tokenizer.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void use(const lt_tokenizer *t, const char *text, size_t len)
{
    lt_vec ids = LT_VEC_OF(int32_t);
    lt_buf back = {0};
    if (lt_tokenizer_encode(t, text, len, 0, &ids) == LT_OK &&
        lt_tokenizer_decode(t, ids.data, ids.n, 0, &back) == LT_OK)
        lt_vec_clear(&ids);
    if (lt_tokenizer_encode(t, text, len, LT_SPLIT_SPECIAL, &ids) != LT_OK)
        lt_error_clear();
    lt_buf_deinit(&back);
    lt_vec_deinit(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const char text[] =
        "<|im_start|>user\nA re\u0301sume\u0301, \U00011935\U00011930 12<|im_end|>\n";
    lt_tokenizer *t;
    if (lt_tokenizer_parse((const char *)data, len, "fuzz", &t) != LT_OK)
        return 0;
    use(t, text, sizeof text - 1);
    use(t, (const char *)data, len < 2000 ? len : 2000);
    lt_tokenizer_close(t);
    return 0;
}
