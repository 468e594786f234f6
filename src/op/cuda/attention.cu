// SPDX-License-Identifier: Apache-2.0
// attention: the library's fused kernels where they can, the plain ones elsewhere. Which of them a
// shape gets is logged once.
#include "op/cuda/attention.cuh"
#include <string.h>

static lt_status check_segments(const lt_op_args *a)
{
    const int64_t tokens = a->in[0]->dim[0];
    const int32_t *segments = lt_index(a->in[3]);
    for (int64_t i = 0, n = lt_n_elems(a->in[3]); i < n; i++) {
        const int32_t before = i > 0 ? segments[i - 1] : 0;
        if (segments[i] < before || segments[i] > tokens)
            return LT_FAIL(LT_ERR_DATA, "attention: segments[%lld] is %d, not in %d to %lld",
                           (long long)i, segments[i], before, (long long)tokens);
    }
    return LT_OK;
}

// A kind of attention, as far as the log tells them apart. Compared byte by byte.
struct choice {
    char op[16];
    int32_t heads, kv_heads, width, dtype, causal, backward, fused;
};

static void tell(const lt_op_args *a, lt_pass pass, const char *why)
{
    const lt_attention_attr *attr = (const lt_attention_attr *)a->attr;
    choice c;
    if (a->in[0]->dim[0] == 0)
        return; // says nothing about the kind
    memset(&c, 0, sizeof c);
    memcpy(c.op, "attention", sizeof "attention");
    c.heads = attr->heads, c.kv_heads = attr->kv_heads;
    c.width = (int32_t)(a->in[0]->dim[1] / attr->heads), c.dtype = (int32_t)a->in[0]->dtype;
    c.causal = attr->causal, c.backward = pass == LT_BACKWARD, c.fused = !why;
    lt_cuda_tell_once(a->run->device, &c, sizeof c,
                      "attention %s, %s%s, %d query and %d key heads of %d: %s%s",
                      pass == LT_BACKWARD ? "backward" : "forward", lt_dtype_name(a->in[0]->dtype),
                      attr->causal ? ", causal" : "", c.heads, c.kv_heads, c.width,
                      why ? "the plain kernel, since " : "cuDNN's fused kernel", why ? why : "");
}

lt_status lt_attention_fwd_cuda(const lt_op_args *a)
{
    const char *why = NULL;
    LT_TRY(lt_cuda_begin(a));
    LT_TRY(check_segments(a));
    LT_TRY(lt_attention_fused(a, LT_FORWARD, &why));
    tell(a, LT_FORWARD, why);
    lt_error_clear();
    return why ? lt_attention_fwd_plain(a) : LT_OK;
}

lt_status lt_attention_bwd_cuda(const lt_op_args *a)
{
    const char *why = NULL;
    LT_TRY(lt_cuda_begin(a));
    LT_TRY(check_segments(a));
    LT_TRY(lt_attention_fused(a, LT_BACKWARD, &why));
    tell(a, LT_BACKWARD, why);
    lt_error_clear();
    return why ? lt_attention_bwd_plain(a) : LT_OK;
}

size_t lt_attention_scratch_cuda(const lt_op_args *a, lt_pass pass)
{
    return lt_attention_fused_scratch(a, pass);
}
