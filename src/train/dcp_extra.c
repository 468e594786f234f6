// SPDX-License-Identifier: Apache-2.0
// The extra state of a rank: counters, the schedule's and the loader's state, a generator.
#include "base/file.h"
#include "base/rng.h"
#include "ckpt/zip.h"
#include "train/dcp_items.h"

#include <string.h>

enum { RNG_BYTES = 5056, RNG_WORDS = 624 };

static void put_number(uint8_t *to, uint64_t value, int width)
{
    for (int i = 0; i < width; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

// torch's CPU generator after a seed and before its first draw.
static void seeded_state(uint64_t seed, uint8_t *to)
{
    lt_mt19937 g;
    lt_mt19937_seed(&g, seed);
    memset(to, 0, RNG_BYTES);
    put_number(to, seed, 8);
    put_number(to + 8, 1, 4);
    put_number(to + 12, 1, 4);
    for (size_t i = 0; i < RNG_WORDS; i++)
        put_number(to + 24 + 8 * i, g.mt[i], 8);
}

static void put_tensor(lt_pkl *p)
{
    const int64_t size = RNG_BYTES, one = 1;
    lt_pkl_global(p, "torch._utils", "_rebuild_tensor_v2");
    lt_pkl_op(p, LT_PKL_MARK);
    lt_pkl_op(p, LT_PKL_MARK);
    lt_pkl_text(p, "storage");
    lt_pkl_global(p, "torch", "ByteStorage");
    lt_pkl_text(p, "0");
    lt_pkl_text(p, "cpu");
    lt_pkl_int(p, RNG_BYTES);
    lt_pkl_op(p, LT_PKL_TUPLE);
    lt_pkl_op(p, LT_PKL_BINPERSID);
    lt_pkl_int(p, 0);
    lt_pkl_ints(p, &size, 1);
    lt_pkl_ints(p, &one, 1);
    lt_pkl_op(p, LT_PKL_FALSE);
    lt_pkl_global(p, "collections", "OrderedDict");
    lt_pkl_op(p, LT_PKL_EMPTY_TUPLE);
    lt_pkl_op(p, LT_PKL_REDUCE);
    lt_pkl_op(p, LT_PKL_TUPLE);
    lt_pkl_op(p, LT_PKL_REDUCE);
}

static void open_dict(lt_pkl *p, const char *key)
{
    if (key)
        lt_pkl_text(p, key);
    lt_pkl_op(p, LT_PKL_EMPTY_DICT);
    lt_pkl_op(p, LT_PKL_MARK);
}

static void put_int(lt_pkl *p, const char *key, int64_t value)
{
    lt_pkl_text(p, key);
    lt_pkl_int(p, value);
}

static void put_op(lt_pkl *p, const char *key, int opcode)
{
    lt_pkl_text(p, key);
    lt_pkl_op(p, opcode);
}

// A rate for each group; scale NULL: None for each.
static void put_rates(lt_pkl *p, const char *key, const lt_dcp_groups *groups, const double *lr)
{
    lt_pkl_text(p, key);
    lt_pkl_op(p, LT_PKL_EMPTY_LIST);
    lt_pkl_op(p, LT_PKL_MARK);
    for (int64_t g = 0; g < groups->n; g++) {
        if (lr)
            lt_pkl_float(p, *lr * groups->scale[g]);
        else
            lt_pkl_op(p, LT_PKL_NONE);
    }
    lt_pkl_op(p, LT_PKL_APPENDS);
}

// As torch's LambdaLR keeps it.
static void put_schedule(lt_pkl *p, const lt_engine *e, const lt_progress *progress, double lr,
                         const lt_dcp_groups *groups)
{
    open_dict(p, "lr_scheduler");
    put_rates(p, "base_lrs", groups, &e->cfg->training.lr);
    put_int(p, "last_epoch", progress->iteration);
    put_int(p, "_step_count", progress->iteration + 1);
    put_op(p, "_is_initial", LT_PKL_FALSE);
    put_op(p, "_get_lr_called_within_step", LT_PKL_FALSE);
    put_rates(p, "_last_lr", groups, &lr);
    put_rates(p, "lr_lambdas", groups, NULL);
    lt_pkl_op(p, LT_PKL_SETITEMS);
}

// As torchdata's stateful loader keeps it.
static void put_loader(lt_pkl *p, const lt_progress *progress)
{
    open_dict(p, "train_dataloader");
    open_dict(p, "_snapshot");
    put_int(p, "_snapshot_step", progress->iteration);
    open_dict(p, "_main_snapshot");
    open_dict(p, "_sampler_iter_state");
    put_int(p, "yielded", progress->consumed);
    lt_pkl_op(p, LT_PKL_SETITEMS);
    put_int(p, "_num_yielded", progress->iteration);
    put_op(p, "_shared_seed", LT_PKL_NONE);
    lt_pkl_op(p, LT_PKL_SETITEMS);
    lt_pkl_op(p, LT_PKL_SETITEMS);
    put_op(p, "_iterator_finished", LT_PKL_FALSE);
    lt_pkl_op(p, LT_PKL_SETITEMS);
}

static lt_status put_state(lt_pkl *p, const lt_engine *e, const lt_progress *progress, double lr,
                           const lt_dcp_groups *groups)
{
    lt_pkl_begin(p, false);
    open_dict(p, NULL);
    put_int(p, "iteration", progress->iteration);
    put_int(p, "consumed_train_samples", progress->consumed);
    put_int(p, "sampler_cursor", progress->cursor); // these three are lathe's own
    put_int(p, "optimizer_updates", progress->updates);
    put_int(p, "seed", e->cfg->training.seed);
    put_schedule(p, e, progress, lr, groups);
    put_loader(p, progress);
    if (!e->cfg->training.no_save_rng) {
        lt_pkl_text(p, "torch_rng_state");
        put_tensor(p);
    }
    lt_pkl_op(p, LT_PKL_SETITEMS);
    return lt_pkl_end(p);
}

static lt_status put_archive(lt_zip_writer *z, const lt_engine *e, const lt_pkl *p)
{
    uint8_t state[RNG_BYTES];
    LT_TRY(lt_zip_add(z, "data.pkl", p->out.data, p->out.len));
    LT_TRY(lt_zip_add(z, "byteorder", "little", 6));
    if (!e->cfg->training.no_save_rng) {
        seeded_state((uint64_t)e->cfg->training.seed, state);
        LT_TRY(lt_zip_add(z, "data/0", state, sizeof state));
    }
    LT_TRY(lt_zip_add(z, "version", "3\n", 2));
    return lt_zip_end(z);
}

static lt_status write_archive(const lt_engine *e, const char *path, const char *top,
                               const lt_pkl *p)
{
    lt_writer *w;
    lt_zip_writer z = {0};
    LT_TRY(lt_writer_create(path, &w));
    lt_zip_begin(&z, w, top);
    const lt_status st = put_archive(&z, e, p);
    lt_zip_abandon(&z);
    if (st != LT_OK) {
        lt_writer_abandon(w);
        return st;
    }
    return lt_writer_close(&w);
}

lt_status lt_dcp_write_extra(const lt_engine *e, const lt_progress *progress, double lr,
                             const char *dir)
{
    lt_arena *arena = NULL;
    lt_dcp_groups groups;
    lt_pkl p = {0};
    char *folder, *name, *path;
    lt_status st;
    LT_TRY_GOTO(st, lt_arena_create(&arena, "extra state"), done);
    LT_TRY_GOTO(st, lt_dcp_groups_of(e, arena, &groups), done);
    LT_TRY_GOTO(st, lt_path_join(arena, dir, LT_RUN_EXTRA_DIR, &folder), done);
    LT_TRY_GOTO(st,
                lt_arena_printf(arena, &name, "extra_state_rank_%d", e->ranks ? e->ranks->rank : 0),
                done);
    LT_TRY_GOTO(st, lt_arena_printf(arena, &path, "%s/%s.pt", folder, name), done);
    LT_TRY_GOTO(st, lt_dir_make(folder), done);
    LT_TRY_GOTO(st, put_state(&p, e, progress, lr, &groups), done);
    st = write_archive(e, path, name, &p);
done:
    lt_pkl_deinit(&p);
    lt_arena_destroy(arena);
    return st;
}
