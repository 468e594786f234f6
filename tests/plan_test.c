// SPDX-License-Identifier: Apache-2.0
// What `lathe plan` says before a run is what the run then uses: its pools to the byte, its memory
// about.
#include "base/file.h"
#include "tests/kit/run_kit.h"
#include "tests/kit/run_place.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SETTINGS = 5 };
typedef struct plan_case {
    lt_place_opts place;
    const char *settings[MAX_SETTINGS];
    bool validation; // on the training data
} plan_case;

static const char offload_layers[] =
    "features.activation_offload_plan.apply_modules=['model.language_model.layers.{*}']";

static const plan_case cases[] = {
    {.settings = {"training.gradient_accumulation_steps=1"}},
    {.settings = {"training.gradient_accumulation_steps=3", "training.micro_batch_size=1"}},
    {.settings = {"lathe.dtype=bf16", "training.micro_batch_size=3"}},
    {.settings = {"lathe.policy=full"}},
    {.settings = {"lathe.policy=lean", "model.skip_flash_attn_recompute=true"}},
    {.settings = {"features.recompute=true",
                  "features.recompute_plan.apply_modules=['model.language_model.layers.{*}']"}},
    {.settings = {"features.enable_activation_offload=true", offload_layers,
                  "parallel.fsdp_plan.cpu_offload=true", "lathe.dtype=bf16",
                  "training.clip_grad=1"}},
    {.place = {.layers = 5},
     .settings = {"features.enable_activation_offload=true", offload_layers, "lathe.policy=full",
                  "model.skip_flash_attn_recompute=true", "training.optimizer=adamw_swap"}},
    {.settings = {"training.optimizer=muon", "lathe.dtype=bf16"}},
    {.settings = {"parallel.fsdp_plan.cpu_offload=true", "training.gradient_accumulation_steps=1"}},
    {.settings = {"model.freeze=[model.visual]", "lathe.dtype=bf16"}},
    {.settings = {"model.freeze=[model.language_model]"}},
    {.settings = {"parallel.fsdp_plan.apply_modules=['model.visual.blocks.{*}', "
                  "'model.language_model.layers.{*}']",
                  "parallel.fsdp_plan.num_to_forward_prefetch=1"}},
    {.settings = {"model.num_hidden_layers=1", "model.vision_depth=1"}},
    {.place = {.untied = true}, .settings = {"lathe.policy=full", "lathe.dtype=bf16"}},
    {.validation = true,
     .settings = {"training.val_interval=3", "training.val_micro_batch_size=11",
                  "training.micro_batch_size=1", "training.gradient_accumulation_steps=1",
                  "lathe.policy=full"}},
    {.validation = true,
     .settings = {"training.val_interval=7", "training.val_micro_batch_size=11",
                  "training.micro_batch_size=1", "training.gradient_accumulation_steps=1"}},
    {.place = {.random = true, .records = 5}, .settings = {"lathe.init=random"}},
};
enum { N_CASES = sizeof cases / sizeof *cases };

static lt_run_result run_with(void *state, const char *dir, const char *command, const plan_case *c)
{
    const char *args[MAX_SETTINGS + 4] = {command, "train.yaml"};
    int n = 2;
    for (int i = 0; i < MAX_SETTINGS && c->settings[i]; i++)
        args[n++] = c->settings[i];
    return lt_run(state, dir, &(lt_run_opts){0}, args);
}

static int64_t bytes_after(const char *text, const char *words)
{
    const char *at = strstr(text, words);
    if (at)
        return strtoll(at + strlen(words), NULL, 10);
    fail_msg("the plan does not say \"%s\":\n%s", words, text);
    return 0;
}

static void validate_on_the_training_data(void *state, const char *dir)
{
    lt_place_edit(state, dir, "train.yaml", "  dataset_param:\n", "  dataset_param: &DATA\n");
    lt_place_edit(state, dir, "train.yaml",
                  "  dataloader_param:", "  val_dataset_param: *DATA\n  dataloader_param:");
}

static void the_pools_of_the_plan_are_those_of_the_run(void **state)
{
    for (int i = 0; i < N_CASES; i++) {
        const char *dir = lt_place(*state, &cases[i].place);
        if (cases[i].validation)
            validate_on_the_training_data(*state, dir);
        const lt_run_result plan = run_with(*state, dir, "plan", &cases[i]);
        assert_exit(plan, 0);
        const lt_run_result run = run_with(*state, dir, "train", &cases[i]);
        assert_exit(run, 0);
        const int64_t planned = bytes_after(plan.out, "device pool in all: ");
        const char *metrics = lt_run_metrics(*state, lt_test_path(*state, dir, "out"));
        const int64_t used = (int64_t)lt_run_metric(metrics, 6, "memory_bytes");
        if (planned != used)
            fail_msg("case %d: planned %lld bytes, used %lld\n%s", i, (long long)planned,
                     (long long)used, plan.out);
        assert_true(bytes_after(plan.out, "step pool") > 0);
        const int64_t host = strstr(plan.out, "on the host in all: ")
                                 ? bytes_after(plan.out, "on the host in all: ")
                                 : 0;
        assert_int_equal(host, (int64_t)lt_run_metric(metrics, 6, "host_bytes"));
    }
}

// The rest of a run sees other batches than its beginning.
static void a_plan_of_a_resumed_run_is_that_of_its_rest(void **state)
{
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    static const char *const settings[] = {"training.train_iters=4", "training.load=out",
                                           "training.micro_batch_size=1",
                                           "training.gradient_accumulation_steps=1"};
    const lt_run_result first = lt_lathe(*state, dir, "train", "train.yaml",
                                         "training.train_iters=3", settings[2], settings[3]);
    assert_exit(first, 0);
    const lt_run_result plan = lt_lathe(*state, dir, "plan", "train.yaml", settings[0], settings[1],
                                        settings[2], settings[3]);
    const lt_run_result run = lt_lathe(*state, dir, "train", "train.yaml", settings[0], settings[1],
                                       settings[2], settings[3]);
    assert_exit(plan, 0);
    assert_exit(run, 0);
    const char *metrics = lt_run_metrics(*state, lt_test_path(*state, dir, "out"));
    assert_int_equal(bytes_after(plan.out, "device pool in all: "),
                     (int64_t)lt_run_metric(metrics, 4, "memory_bytes"));
    assert_text_contains(plan.out, "1 steps looked at");
    const lt_run_result done = lt_lathe(*state, dir, "plan", "train.yaml", settings[0], settings[1],
                                        settings[2], settings[3]);
    assert_exit(done, 0);
    assert_text_contains(done.out, "no step is left to be done");
}

static double number_after(const char *text, const char *words)
{
    const char *at = strstr(text, words);
    assert_non_null(at);
    return strtod(at + strlen(words), NULL);
}

// The line after step 2 says what is allocated, and the most that was touched: all of it.
static void the_memory_line_is_that_of_a_plan_of_two_steps(void **state)
{
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    const lt_run_result plan = lt_lathe(*state, dir, "plan", "train.yaml", "--steps", "2");
    const lt_run_result run =
        lt_lathe(*state, dir, "train", "train.yaml", "training.train_iters=6");
    assert_exit(plan, 0);
    assert_exit(run, 0);
    const double mib = 1024.0 * 1024.0;
    const double total = (double)bytes_after(plan.out, "device pool in all: ") / mib,
                 step = (double)bytes_after(plan.out, "step pool") / mib;
    const char *line = strstr(run.out, "[Rank 0] (after 2 iterations) memory (MB) | allocated: ");
    assert_non_null(line);
    const double allocated = number_after(line, "| allocated: "),
                 most = number_after(line, "| max allocated: "),
                 reserved = number_after(line, "| reserved: "),
                 most_reserved = number_after(line, "| max reserved: ");
    assert_near(allocated, total - step, 0);
    assert_near(most, total, 0);
    assert_near(reserved, total, 0);
    assert_near(most_reserved, total, 0);
}

// A model of 14 million parameters: anonymous memory at its peak within 10 % and 150 MB of the
// plan. Pages of the mapped checkpoint are not anonymous.
static void the_process_needs_what_the_plan_says(void **state)
{
    if (lt_run_sanitized()) {
        print_message("a sanitizer's memory is not planned\n");
        skip();
    }
    const char *dir = lt_place(*state, &(lt_place_opts){.hidden = 768, .layers = 4});
    const char *const two = "training.train_iters=2", *const none = "training.save=null";
    const lt_run_result plan = lt_lathe(*state, dir, "plan", "train.yaml", two, none);
    const lt_run_result run = lt_lathe(*state, dir, "train", "train.yaml", two, none);
    assert_exit(plan, 0);
    assert_exit(run, 0);
    const double planned = (double)bytes_after(plan.out, "device pool in all: ");
    print_message("planned %.0f MB, anonymous memory at its peak %.0f MB\n", planned * 1e-6,
                  (double)run.anonymous * 1e-6);
    assert_true(planned > 200e6);
    assert_true((double)run.anonymous < planned * 1.1 + 150e6);
    assert_true((double)run.anonymous > planned * 0.9 - 150e6);
}

static void a_plan_says_whether_it_fits(void **state)
{
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    const lt_run_result fits =
        lt_lathe(*state, dir, "plan", "train.yaml", "--device-memory", "1GiB");
    assert_exit(fits, 0);
    assert_text_contains(fits.out, "it fits into 1.0 GiB");
    const lt_run_result tight =
        lt_lathe(*state, dir, "plan", "train.yaml", "--device-memory", "1MiB");
    assert_exit(tight, 0);
    assert_text_contains(tight.out, "it does NOT fit into 1.0 MiB");
}

// The first piece of advice, followed, makes it fit.
static void advice_makes_it_fit(void **state)
{
    const char *dir = lt_place(*state, &(lt_place_opts){.layers = 4});
    const lt_run_result whole = lt_lathe(*state, dir, "plan", "train.yaml", "--device", "h200");
    assert_exit(whole, 0);
    assert_text_contains(whole.out, "it fits into 139.0 GiB");
    assert_text_contains(whole.out, "a step of that batch on h200: about ");
    assert_text_contains(whole.out, "matrix products");
    char memory[64], policy[96] = "lathe.";
    (void)snprintf(memory, sizeof memory, "%lld",
                   (long long)bytes_after(whole.out, "device pool in all: ") - 100000);
    const lt_run_result tight =
        lt_lathe(*state, dir, "plan", "train.yaml", "--device", "h200", "--device-memory", memory);
    assert_exit(tight, 0);
    const char *first =
        strstr(tight.out, "changes that make it fit, cheapest first:\n  lathe.policy: ");
    assert_non_null(first);
    first = strstr(first, "policy: ") + strlen("policy: ");
    (void)snprintf(policy, sizeof policy, "lathe.policy=%.*s",
                   (int)strspn(first, "aefklnpu:,0123456789"), first);
    policy[strlen(policy) -
           (policy[strlen(policy) - 1] == ':' || policy[strlen(policy) - 1] == ',')] = 0;
    const lt_run_result again = lt_lathe(*state, dir, "plan", "train.yaml", "--device", "h200",
                                         "--device-memory", memory, policy);
    assert_exit(again, 0);
    assert_text_contains(again.out, "it fits into ");
}

static void a_plan_may_be_for_other_devices_and_many_ranks(void **state)
{
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    const lt_run_result many = lt_lathe(*state, dir, "plan", "train.yaml", "--device", "a100",
                                        "--ranks", "512", "--worst-case", "--svg", "memory.svg");
    assert_exit(many, 0);
    assert_text_contains(many.out, "the first of 512 ranks; parameters in 512 pieces");
    assert_text_contains(many.out, "traffic of a rank: ");
    const char *svg = lt_place_read(*state, dir, "memory.svg");
    assert_text_contains(svg, "<svg xmlns=");
    assert_text_contains(svg, "</svg>");
    assert_text_contains(svg, "saved values, up to ");
    assert_null(strstr(svg, "nan"));
    const lt_run_result bad =
        lt_lathe(*state, dir, "plan", "train.yaml", "--device", "abacus", "--worst-case");
    assert_exit(bad, 2);
    assert_text_contains(bad.err, "\"abacus\" is not known: it must be one of h200, a100, cpu");
}

static int64_t planned_with(void **state, const char *dir, const char *policy, const char *budget)
{
    const lt_run_result plan = lt_lathe(*state, dir, "plan", "train.yaml", policy, budget);
    assert_exit(plan, 0);
    return bytes_after(plan.out, "device pool in all: ");
}

// As much is kept as the budget allows: all of it, something between, or next to nothing.
static void the_policy_auto_keeps_what_fits(void **state)
{
    const char *dir = lt_place(*state, &(lt_place_opts){.layers = 4});
    const char *const no_limit = "lathe.memory_budget=1TiB";
    const int64_t keep = planned_with(state, dir, "lathe.policy=keep", no_limit),
                  lean = planned_with(state, dir, "lathe.policy=lean", no_limit),
                  full = planned_with(state, dir, "lathe.policy=full", no_limit);
    assert_true(full < lean && lean < keep);
    assert_int_equal(planned_with(state, dir, "lathe.policy=auto", no_limit), keep);
    const int64_t budgets[] = {keep - 1, lean, lean - 1, (lean + full) / 2, full};
    for (size_t i = 0; i < sizeof budgets / sizeof budgets[0]; i++) {
        char budget[64];
        (void)snprintf(budget, sizeof budget, "lathe.memory_budget=%lld", (long long)budgets[i]);
        assert_true(planned_with(state, dir, "lathe.policy=auto", budget) <= budgets[i]);
        const lt_run_result run = lt_lathe(*state, dir, "train", "train.yaml", "lathe.policy=auto",
                                           budget, "training.save=null");
        assert_exit(run, 0);
    }
}

// What a step will need is known before the first one: the run begins with enough, and not with a
// byte less.
static void a_run_that_cannot_fit_does_not_begin(void **state)
{
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    char enough[64], less[64];
    const lt_run_result plan = lt_lathe(*state, dir, "plan", "train.yaml");
    assert_exit(plan, 0);
    const int64_t planned = bytes_after(plan.out, "device pool in all: ");
    (void)snprintf(enough, sizeof enough, "lathe.memory_budget=%lld", (long long)planned);
    (void)snprintf(less, sizeof less, "lathe.memory_budget=%lld", (long long)planned - 1);
    const lt_run_result tight = lt_lathe(*state, dir, "train", "train.yaml", less);
    assert_exit(tight, 1);
    assert_text_contains(tight.err, "for its largest batch: ");
    assert_text_contains(tight.err, "or raise lathe.memory_budget");
    assert_null(strstr(tight.out, " iteration "));
    const lt_run_result fits = lt_lathe(*state, dir, "train", "train.yaml", enough);
    assert_exit(fits, 0);
    assert_text_contains(fits.err, "memory: ");
    assert_text_contains(fits.err, "the largest batch has ");
}

static void records_that_cutoff_len_shortens_are_counted(void **state)
{
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    const lt_run_result whole = lt_lathe(*state, dir, "train", "train.yaml");
    assert_exit(whole, 0);
    assert_null(strstr(whole.err, "shortens"));
    const lt_run_result cut = lt_lathe(*state, dir, "train", "train.yaml",
                                       "data.dataset_param.basic_parameters.cutoff_len=60");
    assert_exit(cut, 0);
    assert_text_contains(cut.err, "note: cutoff_len 60 shortens 7 of the 10 records looked at");
}

// Without the data the worst case is planned, which is never less.
static void the_worst_case_is_never_less(void **state)
{
    const char *dir = lt_place(*state, &(lt_place_opts){0});
    const lt_run_result plan = lt_lathe(*state, dir, "plan", "train.yaml");
    const lt_run_result worst = lt_lathe(*state, dir, "plan", "train.yaml", "--worst-case");
    assert_exit(plan, 0);
    assert_exit(worst, 0);
    assert_text_contains(worst.out, "(the worst case");
    assert_true(bytes_after(worst.out, "device pool in all: ") >=
                bytes_after(plan.out, "device pool in all: "));
}

LT_TEST_MAIN(LT_TEST(the_pools_of_the_plan_are_those_of_the_run),
             LT_TEST(a_plan_of_a_resumed_run_is_that_of_its_rest),
             LT_TEST(the_memory_line_is_that_of_a_plan_of_two_steps),
             LT_TEST(the_process_needs_what_the_plan_says), LT_TEST(a_plan_says_whether_it_fits),
             LT_TEST(advice_makes_it_fit), LT_TEST(a_plan_may_be_for_other_devices_and_many_ranks),
             LT_TEST(the_policy_auto_keeps_what_fits),
             LT_TEST(a_run_that_cannot_fit_does_not_begin),
             LT_TEST(records_that_cutoff_len_shortens_are_counted),
             LT_TEST(the_worst_case_is_never_less))
