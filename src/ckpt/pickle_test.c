// SPDX-License-Identifier: Apache-2.0
#include "ckpt/pickle.h"
#include "ckpt/pickle_write.h"
#include "tests/kit/lt_test.h"
#include <string.h>

static const lt_pickle_global globals[] = {{"torch", "Size", LT_PICKLE_CALL, NULL},
                                           {"torch", "float32", LT_PICKLE_BARE, NULL},
                                           {"builtins", "getattr", LT_PICKLE_CALL, "ENCODING"},
                                           {"a", "ENCODING", LT_PICKLE_BARE, NULL}};
static const lt_pickle_rules strict = {globals, sizeof globals / sizeof *globals, false};
static const lt_pickle_rules inert = {globals, sizeof globals / sizeof *globals, true};

static lt_status parse(void **state, const char *bytes, size_t len, const lt_pickle_rules *rules,
                       const lt_pickle **out)
{
    return lt_pickle_parse(bytes, len, rules, "x", *state, out);
}

#define PARSE(text, rules, out) parse(state, text, sizeof(text) - 1, rules, out)

static void values_of_every_protocol_are_read(void **state)
{
    const lt_pickle *v;
    int64_t n;
    double x;
    assert_ok(PARSE("\x80\2K\x05.", &strict, &v)); // BININT1
    assert_true(lt_pickle_int(v, &n) && n == 5);
    assert_ok(PARSE("\x80\2J\xfe\xff\xff\xff.", &strict, &v)); // BININT is signed
    assert_true(lt_pickle_int(v, &n) && n == -2);
    assert_ok(PARSE("\x80\4\x95\4\0\0\0\0\0\0\0\x8a\2\0\x80.", &strict, &v)); // FRAME, LONG1
    assert_true(lt_pickle_int(v, &n) && n == -32768);
    assert_ok(PARSE("\x80\2G\x3f\xf8\0\0\0\0\0\0.", &strict, &v));
    assert_true(lt_pickle_real(v, &x) && x == 1.5);
    assert_ok(PARSE("\x80\5]\x94(\x8c\1a\x94h\1e.", &strict, &v)); // MEMOIZE counts from 0
    assert_int_equal(v->n, 2);
    assert_ptr_equal(v->items[0], v->items[1]);
    assert_ok(PARSE("\x80\2}q\0X\1\0\0\0kh\0s.", &strict, &v)); // a dict that holds itself
    assert_ptr_equal(lt_pickle_get(v, "k"), v);
    assert_ok(PARSE("\x80\2\x8a\x09\1\0\0\0\0\0\0\0\1.", &strict, &v));
    assert_int_equal(v->kind, LT_PICKLE_BIG);
}

static void what_may_run_nowhere_is_refused_by_name(void **state)
{
    const lt_pickle *v;
    static const char system_[] = "\x80\2cos\nsystem\nX\2\0\0\0ls\x85R.";
    assert_fails(PARSE("\x80\2cos\nsystem\nX\2\0\0\0ls\x85R.", &strict, &v), LT_ERR_FORMAT,
                 "names os.system");
    assert_ok(parse(state, system_, sizeof system_ - 1, &inert, &v)); // a node, never a call
    assert_true(lt_pickle_is_object(v, "os", "system"));
    assert_fails(PARSE("\x80\2ctorch\nfloat32\n)R.", &strict, &v), LT_ERR_FORMAT,
                 "calls torch.float32");
    assert_fails(PARSE("\x80\2ctorch\nSize\n)\x81.", &strict, &v), LT_ERR_FORMAT,
                 "makes torch.Size");
    assert_fails(PARSE("\x80\2"
                       "cbuiltins\ngetattr\nctorch\nfloat32\nX\1\0\0\0x\x86R.",
                       &strict, &v),
                 LT_ERR_FORMAT, "calls builtins.getattr");
    assert_ok(PARSE("\x80\2"
                    "cbuiltins\ngetattr\nca\nENCODING\nX\1\0\0\0x\x86R.",
                    &strict, &v));
    assert_fails(PARSE("\x80\2(cos\nsystem\no.", &inert, &v), LT_ERR_FORMAT, "OBJ (0x6f)");
    assert_fails(PARSE("\x80\x06N.", &strict, &v), LT_ERR_FORMAT, "protocol 6");
}

static void malformed_pickles_are_errors(void **state)
{
    const lt_pickle *v;
    assert_fails(PARSE("", &strict, &v), LT_ERR_FORMAT, "cut short");
    assert_fails(PARSE("\x80\2X\xff\xff\xff\x7f"
                       "abc.",
                       &strict, &v),
                 LT_ERR_FORMAT, "cut short");
    assert_fails(PARSE("\x80\2h\0.", &strict, &v), LT_ERR_FORMAT, "the memo has nothing");
    assert_fails(PARSE("\x80\2Nr\xff\xff\xff\x7f.", &strict, &v), LT_ERR_FORMAT, "memo number");
    assert_fails(PARSE("\x80\2NNa.", &strict, &v), LT_ERR_FORMAT, "what is no list");
    assert_fails(PARSE("\x80\2}(Nu.", &strict, &v), LT_ERR_FORMAT, "a key has no value");
    assert_fails(PARSE("\x80\2(N\x85.", &strict, &v), LT_ERR_FORMAT, "left over");
    assert_fails(PARSE("\x80\2N(\x85.", &strict, &v), LT_ERR_FORMAT, "the stack is empty");
    assert_fails(PARSE("\x80\2NNb.", &strict, &v), LT_ERR_FORMAT, "what is no object");
    assert_fails(PARSE("\x80\4\x95\xff\0\0\0\0\0\0\0N.", &strict, &v), LT_ERR_FORMAT, "a frame");
}

static void what_is_written_reads_back(void **state)
{
    static const int64_t sizes[] = {3000000000, 0, 255, 256, 65536};
    const lt_pickle *v;
    lt_pkl p = {0};
    int64_t n;
    lt_pkl_begin(&p, true);
    lt_pkl_op(&p, LT_PKL_EMPTY_LIST);
    lt_pkl_op(&p, LT_PKL_MARK);
    for (int i = 0; i < 2; i++) {
        lt_pkl_name(&p, "gr\xc3\xb6\xc3\x9f"
                        "e");
        lt_pkl_size(&p, sizes, 5);
    }
    lt_pkl_int(&p, -1);
    lt_pkl_op(&p, LT_PKL_APPENDS);
    assert_ok(lt_pkl_end(&p));
    assert_ok(lt_pickle_parse(p.out.data, p.out.len, &strict, "x", *state, &v));
    assert_int_equal(v->n, 5);
    assert_ptr_equal(v->items[0], v->items[2]); // from the memo
    assert_true(lt_pickle_is_object(v->items[3], "torch", "Size"));
    for (int i = 0; i < 5; i++)
        assert_true(lt_pickle_int(v->items[3]->args->items[0]->items[i], &n) && n == sizes[i]);
    assert_true(lt_pickle_int(v->items[4], &n) && n == -1);
    lt_pkl_deinit(&p);
}

LT_TEST_MAIN(LT_TEST(values_of_every_protocol_are_read),
             LT_TEST(what_may_run_nowhere_is_refused_by_name),
             LT_TEST(malformed_pickles_are_errors), LT_TEST(what_is_written_reads_back))
