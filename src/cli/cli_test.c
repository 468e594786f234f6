// SPDX-License-Identifier: Apache-2.0
#include "cli/cli.h"
#include "tests/kit/lt_test.h"
#include <string.h>

static void every_command_can_be_looked_up_and_explained(void **state)
{
    (void)state;
    for (int64_t i = 0; i < lt_n_commands; i++) {
        const lt_command *c = lt_commands[i];
        lt_buf out = {0};
        assert_ptr_equal(lt_command_find(c->name), c);
        assert_non_null(c->run);
        assert_true(strlen(c->summary) < 80);
        assert_true(c->max_positional == 0 || c->positional);
        assert_ok(lt_args_usage(c, &out));
        assert_text_contains(out.data, c->summary);
        lt_buf_deinit(&out);
    }
    assert_null(lt_command_find("no-such-command"));
}

static void every_status_has_a_documented_exit_code(void **state)
{
    (void)state;
    static const lt_status all[] = {
#define STATUS(name, text) LT_##name,
        LT_STATUS_LIST(STATUS)
#undef STATUS
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const int code = lt_exit_code_of(all[i]);
        int64_t k = 0;
        while (k < lt_n_exit_codes && lt_exit_codes[k].code != code)
            k++;
        assert_true(k < lt_n_exit_codes);
        assert_int_equal(code == 0, all[i] == LT_OK);
    }
}

LT_TEST_MAIN(LT_TEST(every_command_can_be_looked_up_and_explained),
             LT_TEST(every_status_has_a_documented_exit_code))
