// SPDX-License-Identifier: Apache-2.0
#include "ckpt/run_folder.h"
#include "tests/kit/model_folder.h"
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

// ---- a run of one parameter whose value is everywhere the same number

enum { N_ELEMS = 300000 }; // more than one piece

typedef struct world {
    float value;
    int events, last_event; // the process kills itself at the event of that number; 0: never
} world;

static void event(world *w)
{
    if (++w->events == w->last_event)
        (void)kill(getpid(), SIGKILL);
}

static lt_status fetch_value(void *ctx, int64_t first, int64_t n, void *dst)
{
    world *w = ctx;
    float *out = dst;
    (void)first;
    for (int64_t i = 0; i < n; i++)
        out[i] = w->value;
    event(w);
    return LT_OK;
}

static void log_event(void *ctx, lt_log_level level, const char *area, const char *text)
{
    (void)level, (void)area, (void)text;
    event(ctx);
}

// Save `value` as an iteration of ROOT.
static lt_status save(const char *root, int64_t iteration, world *w, int64_t keep_last)
{
    const int64_t dim[] = {N_ELEMS};
    const lt_hf_item item = {.name = "w",
                             .rank = 1,
                             .dim = {N_ELEMS},
                             .from = LT_F32,
                             .file_dtype = LT_BF16,
                             .fetch = fetch_value,
                             .ctx = w};
    const lt_hf_text config = {"config.json", "{}", 2};
    const lt_st_pair meta[] = {{"consumed_samples", "24"}, {"generator", "a b\"c"}};
    const lt_log log = {log_event, w};
    lt_arena *arena;
    lt_st_item state[3];
    LT_TRY(lt_arena_create(&arena, "test"));
    static const char *const parts[] = {"master", "exp_avg", "exp_avg_sq"};
    for (int i = 0; i < 3; i++)
        LT_TRY(lt_run_state_item(arena, parts[i], "w", 1, dim, fetch_value, w, &state[i]));
    lt_run_plan plan = {.root = root,
                        .iteration = iteration,
                        .weights = lt_hf_plan_default(),
                        .state = state,
                        .n_state = 3,
                        .meta = meta,
                        .n_meta = 2,
                        .keep_last = keep_last};
    plan.weights.items = &item;
    plan.weights.n_items = 1;
    plan.weights.texts = &config;
    plan.weights.n_texts = 1;
    const lt_status st = lt_run_save(&plan, &log);
    lt_arena_destroy(arena);
    return st;
}

static void save_value(const char *root, int64_t iteration, float value)
{
    assert_ok(save(root, iteration, &(world){.value = value}, 0));
}

// What a resume from `load` gives: the iteration, and the one number that weights and state must
// agree on.
static int64_t resume(const char *load, float *value)
{
    lt_checkpoint *run;
    const lt_st_tensor *t = NULL;
    const int64_t dim[] = {N_ELEMS};
    static const char *const parts[] = {"master", "exp_avg", "exp_avg_sq"};
    float *buffer;
    void *mem;
    assert_ok(lt_mem_alloc(&mem, N_ELEMS * sizeof(float), "test"));
    buffer = mem;
    assert_ok(lt_run_open(load, NULL, &run));
    assert_int_equal(run->kind, LT_RUN_SAVED);
    assert_ok(lt_hf_need(run->weights, "w", 1, dim, &t));
    assert_string_equal(t->dtype_text, "BF16");
    assert_ok(lt_st_read(t, 0, N_ELEMS, LT_F32, buffer));
    *value = buffer[0];
    for (int i = -1; i < 3; i++) {
        for (int64_t k = 0; k < N_ELEMS; k++)
            assert_true(buffer[k] == *value);
        if (i == 2)
            break;
        assert_ok(lt_run_state(run, parts[i + 1], "w", 1, dim, &t));
        assert_ok(lt_st_read(t, 0, N_ELEMS, LT_F32, buffer));
    }
    const int64_t iteration = run->iteration;
    lt_run_close(run);
    lt_mem_free(mem);
    return iteration;
}

static int64_t resumed_iteration(const char *load)
{
    float value;
    return resume(load, &value);
}

static int64_t count_entries(void **state, const char *dir)
{
    lt_vec names = LT_VEC_OF(char *);
    assert_ok(lt_dir_list(dir, *state, &names));
    const int64_t n = names.n;
    lt_vec_deinit(&names);
    return n;
}

// ---- saving and resuming

static void a_run_resumes_from_its_root_or_from_one_iteration(void **state)
{
    const char *root = lt_test_path(*state, lt_test_dir(*state), "runs/a");
    float value;
    save_value(root, 2, 2.5F);
    save_value(root, 4, 4.5F);
    assert_text_equal(test_get(*state, root, LT_RUN_TRACKER), "4");
    assert_int_equal(resume(root, &value), 4);
    assert_true(value == 4.5F);
    assert_int_equal(resume(lt_test_path(*state, root, "iter_0000002"), &value), 2);
    assert_true(value == 2.5F);
    lt_checkpoint *run;
    const char *text = NULL;
    int64_t number = 0;
    assert_ok(lt_run_open(root, NULL, &run));
    assert_ok(lt_run_number(run, "consumed_samples", &number));
    assert_int_equal(number, 24);
    assert_ok(lt_run_text(run, "generator", &text));
    assert_string_equal(text, "a b\"c");
    assert_fails(lt_run_text(run, "nothing", &text), LT_ERR_NOT_FOUND,
                 "lathe_state.safetensors: the state's metadata lacks nothing");
    assert_fails(lt_run_number(run, "generator", &number), LT_ERR_FORMAT, "not a whole number");
    const lt_st_tensor *t = NULL;
    assert_fails(lt_run_state(run, "master", "v", 1, (int64_t[]){1}, &t), LT_ERR_NOT_FOUND,
                 "the state lacks tensor master.v");
    assert_fails(lt_run_state(run, "exp_avg", "w", 1, (int64_t[]){7}, &t), LT_ERR_SHAPE,
                 "exp_avg.w is F32[300000] and the model needs F32[7]");
    lt_run_close(run);
    save_value(root, 12345678, 1.0F);
    assert_int_equal(resumed_iteration(root), 12345678);
    assert_int_equal(count_entries(state, root), 4);
}

static void an_iteration_that_exists_is_replaced(void **state)
{
    const char *root = lt_test_dir(*state);
    float value;
    save_value(root, 2, 2.0F);
    save_value(root, 2, 3.0F);
    assert_int_equal(resume(root, &value), 2);
    assert_true(value == 3.0F);
    assert_int_equal(count_entries(state, root), 2);
    const char *foreign = lt_test_path(*state, root, "iter_0000004");
    assert_ok(lt_dir_make(foreign));
    test_put(*state, foreign, ".metadata", "x");
    assert_fails(save(root, 4, &(world){0}, 0), LT_ERR_IO,
                 "is no checkpoint of lathe: it isn't replaced");
    assert_int_equal(resumed_iteration(root), 2);
}

static void weights_alone_can_be_saved_and_loaded(void **state)
{
    const char *root = lt_test_dir(*state), *in = lt_test_path(*state, root, "in");
    const test_tensor list[] = {{"w", 0, "F16", 4}};
    lt_checkpoint *run;
    lt_hf *source;
    test_model(*state, in, list, 1, 1);
    assert_ok(lt_hf_open(in, NULL, &source));
    const lt_run_plan plan = {
        .root = root, .iteration = 7, .weights = test_plan(*state, source, NULL), .no_state = true};
    assert_ok(lt_run_save(&plan, NULL));
    assert_ok(lt_run_open(root, NULL, &run));
    assert_int_equal(run->kind, LT_RUN_MODEL);
    assert_int_equal(run->iteration, 7);
    assert_null(run->state);
    assert_same_model(run->weights, source);
    lt_run_close(run);
    assert_ok(lt_run_open(in, NULL, &run)); // a model folder as it was downloaded
    assert_int_equal(run->kind, LT_RUN_MODEL);
    assert_int_equal(run->iteration, 0);
    lt_run_close(run);
    lt_hf_close(source);
}

// A run that loaded from an iteration goes on saving after that iteration was removed: all of it is
// mapped.
static void the_source_may_be_removed_under_a_running_run(void **state)
{
    const char *root = lt_test_dir(*state);
    lt_checkpoint *run;
    float value;
    save_value(root, 2, 2.0F);
    assert_ok(lt_run_open(root, NULL, &run));
    assert_ok(lt_dir_remove(lt_test_path(*state, root, "iter_0000002")));
    const lt_st_tensor *t = lt_hf_find(run->weights, "w");
    lt_run_plan plan = {
        .root = root, .iteration = 4, .weights = test_plan(*state, run->weights, NULL)};
    world w = {.value = 2.0F};
    lt_st_item items[3];
    static const char *const parts[] = {"master", "exp_avg", "exp_avg_sq"};
    for (int i = 0; i < 3; i++)
        assert_ok(lt_run_state_item(*state, parts[i], "w", 1, t->dim, fetch_value, &w, &items[i]));
    plan.state = items;
    plan.n_state = 3;
    assert_ok(lt_run_save(&plan, NULL));
    lt_run_close(run);
    assert_int_equal(resume(root, &value), 4);
    assert_text_equal(test_get(*state, lt_test_path(*state, root, "iter_0000004"), "config.json"),
                      "{}");
}

// ---- what can't be loaded

static void a_path_that_leads_nowhere_says_what_was_looked_for(void **state)
{
    static const struct {
        const char *tracker, *message;
        lt_status code;
    } cases[] = {
        {"100", "latest_checkpointed_iteration.txt names ", LT_ERR_NOT_FOUND},
        {"100", "iter_0000100, which holds no checkpoint; there are iter_0000002",
         LT_ERR_NOT_FOUND},
        {"release", "release, which holds no checkpoint", LT_ERR_NOT_FOUND},
        {"", "says \"\"; an iteration's number or release", LT_ERR_FORMAT},
        {"abc", "says \"abc\"", LT_ERR_FORMAT},
        {"-1", "says \"-1\"", LT_ERR_FORMAT},
        {"9999999999999999999999", "an iteration's number", LT_ERR_FORMAT},
        {"../../etc", "an iteration's number", LT_ERR_FORMAT},
    };
    const char *root = lt_test_dir(*state);
    lt_checkpoint *run;
    assert_fails(lt_run_open("/nonexistent", NULL, &run), LT_ERR_NOT_FOUND,
                 "no folder /nonexistent");
    assert_fails(lt_run_open(root, NULL, &run), LT_ERR_NOT_FOUND,
                 "is no checkpoint: it has none of latest_checkpointed_iteration.txt (a training "
                 "run), model.safetensors, "
                 "model.safetensors.index.json (a model), .metadata");
    save_value(root, 2, 1.0F);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        test_put(*state, root, LT_RUN_TRACKER, cases[i].tracker);
        assert_fails(lt_run_open(root, NULL, &run), cases[i].code, cases[i].message);
    }
    assert_int_equal(unlink(lt_test_path(*state, root, LT_RUN_TRACKER)), 0);
    assert_fails(lt_run_open(root, NULL, &run), LT_ERR_NOT_FOUND, "; there are iter_0000002");
    test_put(*state, root, LT_RUN_TRACKER, "2\n"); // an editor's newline does no harm
    assert_int_equal(resumed_iteration(root), 2);
}

static void other_formats_and_versions_are_named(void **state)
{
    const char *root = lt_test_dir(*state), *dir = lt_test_path(*state, root, "release");
    lt_checkpoint *run;
    assert_ok(lt_dir_make(dir));
    test_put(*state, dir, ".metadata", "x");
    test_put(*state, root, LT_RUN_TRACKER, "release");
    assert_fails(lt_run_open(root, NULL, &run), LT_ERR_FORMAT, "release/.metadata: its pickle");
    save_value(root, 2, 1.0F);
    const char *path = lt_test_path(*state, root, "iter_0000002/" LT_RUN_STATE);
    assert_ok(
        lt_st_write(path, NULL, 0, (lt_st_pair[]){{"lathe_state", "2"}, {"iteration", "2"}}, 2));
    assert_fails(lt_run_open(root, NULL, &run), LT_ERR_UNSUPPORTED,
                 "version 2; this lathe reads version 1");
    assert_ok(
        lt_st_write(path, NULL, 0, (lt_st_pair[]){{"lathe_state", "1"}, {"iteration", "9"}}, 2));
    assert_fails(lt_run_open(root, NULL, &run), LT_ERR_FORMAT,
                 "state of iteration 9, in the folder of iteration 2");
    assert_ok(lt_st_write(path, NULL, 0, NULL, 0));
    assert_fails(lt_run_open(root, NULL, &run), LT_ERR_NOT_FOUND, "lacks lathe_state");
    test_put(*state, root, "iter_0000002/" LT_RUN_STATE, "cut");
    assert_fails(lt_run_open(root, NULL, &run), LT_ERR_FORMAT,
                 "lathe_state.safetensors: the file is cut short");
}

// ---- old iterations

static void only_the_newest_iterations_are_kept(void **state)
{
    const char *root = lt_test_dir(*state);
    static const char *const stay[] = {"iter_0000001", "iter_0000099", "iter_x",
                                       "notes"}; // DCP, later, other names
    for (int i = 0; i < 4; i++)
        assert_ok(lt_dir_make(lt_test_path(*state, root, stay[i])));
    test_put(*state, root, "iter_0000001/.metadata", "x");
    test_model(*state, lt_test_path(*state, root, "iter_0000099"), &(test_tensor){"w", 0, "F32", 1},
               1, 1);
    for (int64_t i = 2; i <= 6; i++)
        assert_ok(save(root, i, &(world){.value = (float)i}, 2));
    for (int i = 0; i < 4; i++)
        assert_true(lt_file_exists(lt_test_path(*state, root, stay[i])));
    assert_int_equal(count_entries(state, root), 4 + 2 + 1);
    assert_int_equal(resumed_iteration(lt_test_path(*state, root, "iter_0000005")), 5);
    assert_int_equal(resumed_iteration(root), 6);
    assert_ok(lt_run_prune(root, 0, 6, NULL)); // never the current one
    assert_int_equal(resumed_iteration(root), 6);
    assert_int_equal(count_entries(state, root), 4 + 1 + 1);
}

// ---- killed

// Runs a save that kills itself at its event k; true when it ended before that.
static bool save_until(const char *root, int64_t iteration, float value, int k)
{
    int how;
    const pid_t child = fork();
    if (child == 0) {
        world w = {.value = value, .last_event = k};
        _exit(save(root, iteration, &w, 1) == LT_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    if (WIFSIGNALED(how))
        return false;
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    return true;
}

static void a_save_that_is_killed_anywhere_leaves_a_whole_checkpoint(void **state)
{
    const char *root = lt_test_dir(*state);
    float value;
    int k = 1;
    save_value(root, 2, 2.0F);
    while (!save_until(root, 4, 4.0F, k)) {
        const int64_t iteration = resume(root, &value);
        assert_true((iteration == 2 && value == 2.0F) || (iteration == 4 && value == 4.0F));
        k++;
    }
    assert_true(k > 10); // each piece of the four tensors, and each log line
    assert_int_equal(resume(root, &value), 4);
    assert_int_equal(count_entries(state, root),
                     2); // nothing is left behind: iter_0000004 and the tracker
    // The same while an iteration is replaced by another of the same number.
    for (k = 1; !save_until(root, 4, 5.0F, k); k++) {
        assert_int_equal(resume(root, &value), 4);
        assert_true(value == 4.0F || value == 5.0F);
    }
    assert_int_equal(resume(root, &value), 4);
    assert_true(value == 5.0F);
    assert_int_equal(count_entries(state, root), 2);
}

// As it is where two folders can't be exchanged in one call, killed between the two renames.
static void an_iteration_that_was_moved_aside_is_found(void **state)
{
    const char *root = lt_test_dir(*state);
    save_value(root, 2, 2.0F);
    assert_ok(lt_path_rename(lt_test_path(*state, root, "iter_0000002"),
                             lt_test_path(*state, root, "iter_0000002.old-999999999")));
    test_put(*state, root, LT_RUN_TRACKER ".tmp.999999999", "4");
    assert_int_equal(resumed_iteration(root), 2);
    save_value(root, 4, 4.0F);
    assert_int_equal(count_entries(state, root), 3);
}

LT_TEST_MAIN(LT_TEST(a_run_resumes_from_its_root_or_from_one_iteration),
             LT_TEST(an_iteration_that_exists_is_replaced),
             LT_TEST(weights_alone_can_be_saved_and_loaded),
             LT_TEST(the_source_may_be_removed_under_a_running_run),
             LT_TEST(a_path_that_leads_nowhere_says_what_was_looked_for),
             LT_TEST(other_formats_and_versions_are_named),
             LT_TEST(only_the_newest_iterations_are_kept),
             LT_TEST(a_save_that_is_killed_anywhere_leaves_a_whole_checkpoint),
             LT_TEST(an_iteration_that_was_moved_aside_is_found))
