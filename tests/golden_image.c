// SPDX-License-Identifier: Apache-2.0
// golden_image DIR...: compare decoded pictures and patch rows with DIR/NAME.npz for each
// DIR/images/NAME, byte by byte.
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "data/image/image.h"
#include "tests/kit/npz.h"

typedef struct counts {
    int passed, failed, skipped;
} counts;

typedef struct limits {
    lt_image_budget budget;
    lt_image_processor processor;
} limits;

/** Where the first difference lies, and how many there are. */
static bool same_bytes(const char *name, const char *key, const uint8_t *got, const lt_tensor *want,
                       int64_t n)
{
    if (want->dtype != LT_U8 || lt_n_elems(want) != n) {
        printf("FAIL %s %s: %lld bytes, the golden array is %s\n", name, key, (long long)n,
               lt_shape_print(want).s);
        return false;
    }
    const uint8_t *w = want->data;
    int64_t bad = 0, first = -1;
    for (int64_t i = 0; i < n; i++) {
        if (got[i] != w[i]) {
            first = first < 0 ? i : first;
            bad++;
        }
    }
    if (bad > 0) {
        printf("FAIL %s %s: %lld of %lld bytes differ, first at %lld: %d instead of %d\n", name,
               key, (long long)bad, (long long)n, (long long)first, got[first], w[first]);
    } else {
        printf("ok   %s %s: %lld bytes\n", name, key, (long long)n);
    }
    return bad == 0;
}

static bool same_grid(const char *name, const char *key, lt_grid got, const lt_tensor *want)
{
    if (want != NULL && want->dtype == LT_I64 && lt_n_elems(want) == 3 &&
        lt_load_int(want, 0) == got.t && lt_load_int(want, 1) == got.h &&
        lt_load_int(want, 2) == got.w)
        return true;
    printf("FAIL %s %s: grid %lld x %lld x %lld isn't the golden one\n", name, key,
           (long long)got.t, (long long)got.h, (long long)got.w);
    return false;
}

/** The patch rows of one processor; those that the golden file lacks are not compared. */
static lt_status check_rows(const char *name, const lt_image *rgb, lt_image_processor p,
                            const char *label, const lt_npz *npz, counts *c)
{
    char key[64], grid_key[64];
    (void)snprintf(key, sizeof key, "%s.u8", label);
    (void)snprintf(grid_key, sizeof grid_key, "%s.grid_thw", label);
    const lt_tensor *want = lt_npz_get(npz, key);
    if (want == NULL)
        return LT_OK;
    lt_grid grid;
    void *rows = NULL;
    LT_TRY(lt_image_grid_of_size(&p, rgb->h, rgb->w, &grid));
    const int64_t n = lt_grid_patches(grid) * lt_image_row_width(&p);
    LT_TRY(lt_mem_alloc(&rows, (size_t)n, "patch rows"));
    const lt_status st = lt_image_rows(&p, rgb, LT_U8, rows);
    if (st == LT_OK) {
        const bool ok = same_grid(name, key, grid, lt_npz_get(npz, grid_key)) &&
                        same_bytes(name, key, rows, want, n);
        *(ok ? &c->passed : &c->failed) += 1;
    }
    lt_mem_free(rows);
    return st;
}

static lt_status check_all(const char *name, const lt_image *rgb, const limits *l,
                           const lt_npz *npz, counts *c)
{
    static const struct {
        const char *label;
        lt_resampler resampler;
    } kinds[] = {{"pil", LT_RESAMPLE_PILLOW}, {"torchvision", LT_RESAMPLE_TORCHVISION}};
    const lt_tensor *want = lt_npz_get(npz, "rgb");
    if (want == NULL)
        return LT_FAIL(LT_ERR_FORMAT, "the golden file has no array rgb");
    const bool shape = want->rank == 3 && want->dim[0] == rgb->h && want->dim[1] == rgb->w;
    if (!shape)
        printf("FAIL %s rgb: %lld x %lld pixels, the golden array is %s\n", name, (long long)rgb->w,
               (long long)rgb->h, lt_shape_print(want).s);
    const bool ok = shape && same_bytes(name, "rgb", rgb->px, want, rgb->h * rgb->w * 3);
    *(ok ? &c->passed : &c->failed) += 1;
    for (size_t i = 0; i < 2; i++) {
        lt_image_processor p = l->processor;
        p.resampler = kinds[i].resampler;
        LT_TRY(check_rows(name, rgb, p, kinds[i].label, npz, c));
    }
    return LT_OK;
}

static void check_file(const char *dir, const char *name, const limits *l, counts *c)
{
    char image_path[4096], npz_path[4096];
    (void)snprintf(image_path, sizeof image_path, "%s/images/%s", dir, name);
    (void)snprintf(npz_path, sizeof npz_path, "%s/%s.npz", dir, name);
    lt_image rgb = {0};
    lt_npz *npz = NULL;
    lt_status st = lt_image_load(image_path, &l->budget, &rgb);
    if (st == LT_ERR_UNSUPPORTED) {
        printf("skip %s: %s\n", name, lt_error_message());
        c->skipped++;
        return;
    }
    if (st == LT_OK)
        st = lt_npz_open(npz_path, &npz);
    if (st == LT_OK)
        st = check_all(name, &rgb, l, npz, c);
    if (st != LT_OK) {
        printf("FAIL %s: %s\n", name, lt_error_message());
        c->failed++;
    }
    lt_npz_close(npz);
    lt_image_deinit(&rgb);
}

/** The limits that the cases were made with, from DIR/images.json where it says them. */
static limits limits_of(const char *dir)
{
    char path[4096];
    limits l = {.budget = {262144, 1024, LT_IMAGE_BICUBIC, false},
                .processor = lt_image_processor_default()};
    (void)snprintf(path, sizeof path, "%s/images.json", dir);
    json_t *root = json_load_file(path, 0, NULL);
    const json_t *size = json_object_get(root, "processor_size");
    const struct {
        const json_t *in;
        const char *key;
        int64_t *out;
    } rows[] = {{root, "image_max_pixels", &l.budget.max_pixels},
                {root, "image_min_pixels", &l.budget.min_pixels},
                {size, "shortest_edge", &l.processor.min_pixels},
                {size, "longest_edge", &l.processor.max_pixels}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const json_t *v = json_object_get(rows[i].in, rows[i].key);
        if (json_is_integer(v))
            *rows[i].out = json_integer_value(v);
    }
    json_decref(root);
    return l;
}

static lt_status check_dir(const char *dir, counts *c)
{
    const limits l = limits_of(dir);
    lt_arena *arena = NULL;
    lt_vec names = LT_VEC_OF(char *);
    lt_status st;
    const int before = c->passed + c->failed + c->skipped;
    LT_TRY(lt_arena_create(&arena, "file names"));
    LT_TRY_GOTO(st, lt_dir_list(dir, arena, &names), done);
    for (int64_t i = 0; i < names.n; i++) {
        char *name = LT_AT(&names, char *, i);
        if (lt_text_ends(name, ".npz")) {
            name[strlen(name) - 4] = 0;
            check_file(dir, name, &l, c);
        }
    }
    if (c->passed + c->failed + c->skipped == before)
        st = LT_FAIL(LT_ERR_NOT_FOUND, "%s holds no .npz", dir);
done:
    lt_vec_deinit(&names);
    lt_arena_destroy(arena);
    return st;
}

int main(int argc, char **argv)
{
    counts c = {0};
    if (argc < 2) {
        (void)fprintf(stderr,
                      "usage: golden_image DIR...   with DIR/images/NAME and DIR/NAME.npz\n");
        return 2;
    }
    for (int i = 1; i < argc; i++) {
        if (check_dir(argv[i], &c) != LT_OK) {
            printf("FAIL %s: %s\n", argv[i], lt_error_message());
            c.failed++;
        }
    }
    printf("%d skipped (formats that aren't read)\n", c.skipped);
    printf("%d passed, %d failed\n", c.passed, c.failed);
    return c.failed > 0;
}
