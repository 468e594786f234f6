// SPDX-License-Identifier: Apache-2.0
// Layout of a saved model: the source's files where there are some, else new ones up to a limit.
#include "ckpt/hf_layout.h"
#include "ckpt/json_text.h"
#include <stdlib.h>
#include <string.h>

// Names of the plan's items and what became of them.
typedef struct naming {
    const lt_hf_plan *plan;
    lt_map *by_name; // item or alias -> index of the item
    bool *placed;    // per item: some file has it
} naming;

static lt_status add_file(lt_hf_layout *layout, const char *name, const lt_st *source)
{
    const lt_hf_layout_file file = {.name = name, .source = source, .items = LT_VEC_OF(lt_st_item)};
    return lt_vec_push(&layout->files, &file);
}

static lt_hf_layout_file *file_at(const lt_hf_layout *layout, int64_t i)
{
    return &LT_AT(&layout->files, lt_hf_layout_file, i);
}

static lt_status add_item(lt_hf_layout *layout, int64_t file, const lt_st_item *item)
{
    if (!lt_add_i64(layout->bytes, (int64_t)item->tensor.bytes, &layout->bytes) ||
        !lt_add_i64(layout->n_elems, lt_st_elems(&item->tensor), &layout->n_elems))
        return LT_FAIL(LT_ERR_SHAPE, "tensor %s: the model's size overflows 63 bits",
                       item->tensor.name);
    return lt_vec_push(&file_at(layout, file)->items, item);
}

// ---- names

static lt_status name_items(naming *names)
{
    for (int64_t i = 0; i < names->plan->n_items; i++) {
        const lt_hf_item *item = &names->plan->items[i];
        for (int32_t k = -1; k < item->n_aliases; k++) {
            const char *name = k < 0 ? item->name : item->aliases[k];
            int64_t other;
            if (lt_map_get_text(names->by_name, name, &other))
                return LT_FAIL(LT_ERR_FORMAT,
                               "tensor %s stands twice among the tensors to be saved", name);
            LT_TRY(lt_map_put_text(names->by_name, name, i));
        }
    }
    return LT_OK;
}

// The plan's dtype, else that of the file that the tensor came from, else the item's own wish.
// Integers stay what they are.
static lt_dtype dtype_in_file(const lt_hf_plan *plan, const lt_hf_item *item,
                              const lt_st_tensor *source)
{
    if (!lt_dtype_is_float(item->from))
        return item->from;
    if (plan->save_dtype != LT_N_DTYPES)
        return plan->save_dtype;
    if (source != NULL && source->dtype != LT_N_DTYPES && lt_dtype_is_float(source->dtype))
        return source->dtype;
    return item->file_dtype;
}

// Item i under the name `name`, which is its own or an alias that `source` carries.
static lt_status place_item(lt_hf_layout *layout, naming *names, int64_t file, int64_t i,
                            const char *name, const lt_st_tensor *source)
{
    const lt_hf_item *from = &names->plan->items[i];
    lt_st_item item = {.from = from->from, .fetch = from->fetch, .ctx = from->ctx};
    LT_TRY(lt_st_plan(name, dtype_in_file(names->plan, from, source), from->rank, from->dim,
                      &item.tensor));
    names->placed[i] = true;
    return add_item(layout, file, &item);
}

// ---- as the source

static lt_status follow_source_file(lt_hf_layout *layout, naming *names, const lt_hf *source,
                                    int64_t f)
{
    const lt_st *st = lt_hf_file(source, f);
    LT_TRY(add_file(layout, lt_hf_file_name(source, f), st));
    for (int64_t k = 0; k < lt_st_count(st); k++) {
        const lt_st_tensor *t = lt_st_at(st, k);
        int64_t i;
        if (lt_hf_find(source, t->name) != t)
            continue; // passed over at opening: another file's tensor of that name counts
        if (lt_map_get_text(names->by_name, t->name, &i))
            LT_TRY(place_item(layout, names, f, i, t->name, t));
        else
            LT_TRY(add_item(layout, f, &(lt_st_item){.tensor = *t}));
    }
    return LT_OK;
}

static lt_status follow_source(lt_hf_layout *layout, naming *names, const lt_hf *source)
{
    const int64_t n_files = lt_hf_n_files(source);
    layout->has_index = lt_hf_has_index(source);
    for (int64_t f = 0; f < n_files; f++)
        LT_TRY(follow_source_file(layout, names, source, f));
    for (int64_t i = 0; i < names->plan->n_items; i++)
        if (!names->placed[i])
            LT_TRY(place_item(layout, names, n_files - 1, i, names->plan->items[i].name, NULL));
    return LT_OK;
}

// ---- anew

static lt_status fill_files(lt_hf_layout *layout, naming *names, int64_t limit)
{
    int64_t held = 0;
    LT_TRY(add_file(layout, LT_HF_SINGLE, NULL));
    for (int64_t i = 0; i < names->plan->n_items; i++) {
        const int64_t before = layout->bytes;
        const lt_hf_item *item = &names->plan->items[i];
        lt_st_tensor t;
        LT_TRY(lt_st_plan(item->name, dtype_in_file(names->plan, item, NULL), item->rank, item->dim,
                          &t));
        if (held > 0 && (held > limit || (int64_t)t.bytes > limit - held)) {
            LT_TRY(add_file(layout, "", NULL));
            held = 0;
        }
        LT_TRY(place_item(layout, names, layout->files.n - 1, i, item->name, NULL));
        held += layout->bytes - before;
    }
    return LT_OK;
}

static lt_status lay_anew(lt_hf_layout *layout, naming *names)
{
    LT_TRY(fill_files(layout, names, names->plan->shard_bytes));
    layout->has_index = layout->files.n > 1;
    for (int64_t f = 0; layout->has_index && f < layout->files.n; f++) {
        char *name;
        LT_TRY(lt_arena_printf(layout->arena, &name, "model-%05lld-of-%05lld.safetensors",
                               (long long)f + 1, (long long)layout->files.n));
        file_at(layout, f)->name = name;
    }
    return LT_OK;
}

lt_status lt_hf_layout_init(lt_hf_layout *layout, const lt_hf_plan *plan)
{
    naming names = {.plan = plan};
    lt_status st;
    void *placed = NULL;
    *layout = (lt_hf_layout){.files = LT_VEC_OF(lt_hf_layout_file)};
    LT_TRY_GOTO(st, lt_arena_create(&layout->arena, "checkpoint layout"), done);
    LT_TRY_GOTO(st, lt_map_create(&names.by_name), done);
    LT_TRY_GOTO(
        st,
        lt_mem_alloc(&placed, (size_t)plan->n_items * sizeof *names.placed, "checkpoint layout"),
        done);
    names.placed = placed;
    LT_TRY_GOTO(st, name_items(&names), done);
    const bool follow = plan->source != NULL && lt_hf_n_files(plan->source) > 0;
    st = follow ? follow_source(layout, &names, plan->source) : lay_anew(layout, &names);
done:
    lt_map_destroy(names.by_name);
    lt_mem_free(placed);
    if (st != LT_OK)
        lt_hf_layout_deinit(layout);
    return st;
}

void lt_hf_layout_deinit(lt_hf_layout *layout)
{
    for (int64_t f = 0; f < layout->files.n; f++)
        lt_vec_deinit(&file_at(layout, f)->items);
    lt_vec_deinit(&layout->files);
    lt_arena_destroy(layout->arena);
    layout->arena = NULL;
}

// ---- the index

static int by_key(const void *a, const void *b)
{
    return strcmp(((const lt_st_pair *)a)->key, ((const lt_st_pair *)b)->key);
}

static lt_status print_index(const lt_hf_layout *layout, const lt_vec *pairs, lt_buf *out)
{
    LT_TRY(lt_buf_printf(
        out,
        "{\n  \"metadata\": {\n    \"total_parameters\": %lld,\n    \"total_size\": %lld\n  },\n",
        (long long)layout->n_elems, (long long)layout->bytes));
    LT_TRY(lt_buf_text(out, "  \"weight_map\": {"));
    for (int64_t i = 0; i < pairs->n; i++) {
        LT_TRY(lt_buf_text(out, i > 0 ? ",\n    " : "\n    "));
        LT_TRY(lt_json_quote(out, LT_AT(pairs, lt_st_pair, i).key));
        LT_TRY(lt_buf_text(out, ": "));
        LT_TRY(lt_json_quote(out, LT_AT(pairs, lt_st_pair, i).value));
    }
    return lt_buf_text(out, "\n  }\n}\n");
}

lt_status lt_hf_layout_index(const lt_hf_layout *layout, lt_buf *out)
{
    lt_vec pairs = LT_VEC_OF(lt_st_pair);
    lt_status st = LT_OK;
    for (int64_t f = 0; f < layout->files.n; f++) {
        const lt_hf_layout_file *file = file_at(layout, f);
        for (int64_t i = 0; i < file->items.n && st == LT_OK; i++)
            st = lt_vec_push(
                &pairs, &(lt_st_pair){LT_AT(&file->items, lt_st_item, i).tensor.name, file->name});
    }
    if (st == LT_OK) {
        if (pairs.n > 0)
            qsort(pairs.data, (size_t)pairs.n, sizeof(lt_st_pair), by_key);
        st = print_index(layout, &pairs, out);
    }
    lt_vec_deinit(&pairs);
    return st;
}
