// SPDX-License-Identifier: Apache-2.0
// Finding and reading expert weights in each of their layouts.
#include "ckpt/hf_experts.h"
#include <stdio.h>
#include <string.h>

static const struct fused {
    const char *suffix;
    int32_t n_parts;
    const char *parts[2];
} fused_names[] = {{".experts.gate_up_proj", 2, {"gate_proj", "up_proj"}},
                   {".experts.down_proj", 1, {"down_proj"}}};
enum { N_FUSED = sizeof fused_names / sizeof *fused_names, NAME_MAX_BYTES = 512 };

static const struct fused *fused_of(const char *name)
{
    const size_t len = strlen(name);
    for (int i = 0; i < N_FUSED; i++) {
        const size_t tail = strlen(fused_names[i].suffix);
        if (len > tail && strcmp(name + len - tail, fused_names[i].suffix) == 0)
            return &fused_names[i];
    }
    return NULL;
}

bool lt_hf_is_experts(const char *name)
{
    return fused_of(name) != NULL;
}

static lt_status one_part(lt_hf *hf, lt_arena *arena, const char *name, int32_t rank,
                          const int64_t *dim, lt_hf_weight *out)
{
    void *memory = NULL;
    LT_TRY(lt_arena_take(arena, sizeof(lt_st_tensor *), &memory));
    const lt_st_tensor **parts = memory;
    LT_TRY(lt_hf_need(hf, name, rank, dim, &parts[0]));
    out->parts = parts;
    out->n_parts = 1;
    return LT_OK;
}

// PATH of "PATH.experts.gate_up_proj" with what comes behind it.
static bool name_of(char *to, const char *name, const struct fused *f, const char *fmt_tail,
                    int64_t e, const char *part)
{
    const size_t path = strlen(name) - strlen(f->suffix);
    const int len = e < 0 ? snprintf(to, NAME_MAX_BYTES, "%.*s%s", (int)path, name, fmt_tail)
                          : snprintf(to, NAME_MAX_BYTES, "%.*s.experts.%lld.%s.weight", (int)path,
                                     name, (long long)e, part);
    return len > 0 && len < NAME_MAX_BYTES;
}

bool lt_hf_has_weight(const lt_hf *hf, const char *name)
{
    char text[NAME_MAX_BYTES];
    const struct fused *f = fused_of(name);
    return lt_hf_find(hf, name) ||
           (f && name_of(text, name, f, "", 0, f->parts[0]) && lt_hf_find(hf, text));
}

static lt_status find_per_expert(lt_hf *hf, lt_arena *arena, const char *name,
                                 const struct fused *f, lt_hf_weight *out)
{
    char text[NAME_MAX_BYTES];
    void *memory = NULL;
    const int64_t n = out->dim[0] * f->n_parts;
    const int64_t dim[2] = {out->dim[1] / f->n_parts, out->dim[2]};
    LT_TRY(lt_arena_take(arena, (size_t)n * sizeof(lt_st_tensor *), &memory));
    const lt_st_tensor **parts = memory;
    for (int64_t i = 0; i < n; i++) {
        if (!name_of(text, name, f, "", i / f->n_parts, f->parts[i % f->n_parts]))
            return LT_FAIL(LT_ERR_FORMAT, "the name %s is too long for a tensor of experts", name);
        LT_TRY(lt_hf_need(hf, text, 2, dim, &parts[i]));
    }
    out->form = LT_HF_PER_EXPERT;
    out->n_parts = (int32_t)n;
    out->parts = parts;
    return LT_OK;
}

static bool has_dims(const lt_st_tensor *t, int64_t rows, int64_t cols)
{
    return t && t->rank == 3 && t->dim[1] == rows && t->dim[2] == cols;
}

// Which way the two matrices of a layer lie. With 2I = H gate_up_proj fits both ways, but then
// down_proj, of I = H / 2, does not.
static bool is_transposed(const lt_st_tensor *gate_up, const lt_st_tensor *down, int64_t two_i,
                          int64_t h, bool family, bool *by_family)
{
    const bool square = two_i == h;
    *by_family = false;
    if (!square)
        return has_dims(gate_up, h, two_i);
    if (has_dims(down, h, two_i / 2) || has_dims(down, two_i / 2, h))
        return has_dims(down, two_i / 2, h);
    *by_family = true;
    return family;
}

static lt_status find_experts(lt_hf *hf, lt_arena *arena, const char *name, bool transposed,
                              lt_hf_weight *out)
{
    const struct fused *f = fused_of(name);
    char text[NAME_MAX_BYTES], pair[N_FUSED][NAME_MAX_BYTES];
    bool fits = name_of(text, name, f, "", 0, f->parts[0]);
    for (int i = 0; i < N_FUSED; i++)
        fits = fits && name_of(pair[i], name, f, fused_names[i].suffix, -1, NULL);
    if (!fits)
        return LT_FAIL(LT_ERR_FORMAT, "the name %s is too long for a tensor of experts", name);
    if (!lt_hf_find(hf, name) && lt_hf_find(hf, text))
        return find_per_expert(hf, arena, name, f, out);
    const bool is_down = f != &fused_names[0];
    const int64_t two_i = is_down ? 2 * out->dim[2] : out->dim[1],
                  h = is_down ? out->dim[1] : out->dim[2];
    int64_t dim[3] = {out->dim[0], out->dim[1], out->dim[2]};
    if (is_transposed(lt_hf_find(hf, pair[0]), lt_hf_find(hf, pair[1]), two_i, h, transposed,
                      &out->by_family)) {
        out->form = LT_HF_TRANSPOSED;
        dim[1] = out->dim[2];
        dim[2] = out->dim[1];
    }
    return one_part(hf, arena, name, 3, dim, out);
}

lt_status lt_hf_find_weight(lt_hf *hf, lt_arena *arena, const char *name, int32_t rank,
                            const int64_t *dim, bool transposed, lt_hf_weight *out)
{
    *out = (lt_hf_weight){.form = LT_HF_AS_IS, .rank = rank};
    for (int32_t i = 0; i < rank; i++)
        out->dim[i] = dim[i];
    if (rank == 3 && fused_of(name))
        return find_experts(hf, arena, name, transposed, out);
    return one_part(hf, arena, name, rank, dim, out);
}

/* ---- reading ---- */

// Elements of one part.
static int64_t part_elems(const lt_hf_weight *w)
{
    return w->form == LT_HF_PER_EXPERT
               ? w->dim[1] * w->dim[2] / (w->n_parts / lt_max_i64(w->dim[0], 1))
               : 0;
}

int64_t lt_hf_part_first(const lt_hf_weight *w, int32_t part)
{
    return part * part_elems(w);
}

static lt_status read_parts(const lt_hf_weight *w, int64_t first, int64_t n, lt_dtype as, char *dst)
{
    const int64_t each = part_elems(w);
    while (n > 0) {
        const int64_t at = first % each, take = lt_min_i64(n, each - at);
        LT_TRY(lt_st_read(w->parts[first / each], at, take, as, dst));
        dst += (size_t)take * lt_dtype_bytes(as);
        first += take;
        n -= take;
    }
    return LT_OK;
}

// Rows [row, row + n_rows) of one expert in lathe's order, [E out, in]: columns of the file's
// [E, in, out]. Of the first and the last row only what lies in [first, first + n) is wanted.
static lt_status read_columns(const lt_hf_weight *w, int64_t row, int64_t n_rows, int64_t first,
                              int64_t n, lt_dtype as, char *dst)
{
    enum { ROWS_MAX = 256 };
    double column[ROWS_MAX]; // as wide as any dtype
    const int64_t out = w->dim[1], in = w->dim[2], e = row / out, from = row % out;
    const size_t size = lt_dtype_bytes(as);
    LT_ASSERT(n_rows <= ROWS_MAX);
    for (int64_t k = 0; k < in; k++) {
        LT_TRY(lt_st_read(w->parts[0], (e * in + k) * out + from, n_rows, as, column));
        for (int64_t r = 0; r < n_rows; r++) {
            const int64_t at = (row + r) * in + k - first;
            if (at >= 0 && at < n)
                memcpy(dst + (size_t)at * size, (const char *)column + (size_t)r * size, size);
        }
    }
    return LT_OK;
}

static lt_status read_transposed(const lt_hf_weight *w, int64_t first, int64_t n, lt_dtype as,
                                 char *dst)
{
    enum { ROWS = 256 };
    const int64_t out = w->dim[1], in = w->dim[2];
    const int64_t end = (first + n + in - 1) / in;
    for (int64_t row = first / in; row < end;) {
        const int64_t left_of_expert = out - row % out;
        const int64_t rows = lt_min_i64(ROWS, lt_min_i64(left_of_expert, end - row));
        LT_TRY(read_columns(w, row, rows, first, n, as, dst));
        row += rows;
    }
    return LT_OK;
}

lt_status lt_hf_weight_read(const lt_hf_weight *w, int64_t first, int64_t n, lt_dtype as, void *dst)
{
    if (n == 0)
        return LT_OK;
    switch (w->form) {
    case LT_HF_AS_IS:
        break;
    case LT_HF_TRANSPOSED:
        return read_transposed(w, first, n, as, dst);
    case LT_HF_PER_EXPERT:
        return read_parts(w, first, n, as, dst);
    }
    return lt_st_read(w->parts[0], first, n, as, dst);
}
