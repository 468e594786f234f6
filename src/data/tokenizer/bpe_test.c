// SPDX-License-Identifier: Apache-2.0
#include "base/rng.h"
#include "data/tokenizer/bpe.h"
#include "tests/kit/lt_test.h"
#include <string.h>

typedef struct rule {
    int32_t left, right, merged;
} rule;

enum { LETTERS = 3, RULES = 60, LONGEST = 160 };

// Random merges over a small alphabet, so that long pieces are full of ties and chains. Ids are
// bytes, then 256, 257, ...
static void random_rules(uint64_t seed, rule *rules)
{
    for (int32_t i = 0; i < RULES; i++) {
        uint32_t r[4];
        lt_philox(seed, 0, (uint64_t)i, r);
        const uint32_t n = LETTERS + (uint32_t)i;
        const int32_t a = (int32_t)(r[0] % n), b = (int32_t)(r[1] % n);
        rules[i] = (rule){a < LETTERS ? 'a' + a : 256 + a - LETTERS,
                          b < LETTERS ? 'a' + b : 256 + b - LETTERS, 256 + i};
    }
}

// By the definition: again and again the pair of lowest rank, leftmost.
static int naive(const rule *rules, int32_t *id, int n)
{
    for (;;) {
        int best = -1, best_rank = RULES;
        for (int i = 0; i + 1 < n; i++) {
            for (int k = 0; k < RULES; k++) {
                if (rules[k].left == id[i] && rules[k].right == id[i + 1] && k < best_rank) {
                    best = i;
                    best_rank = k;
                }
            }
        }
        if (best < 0)
            return n;
        id[best] = rules[best_rank].merged;
        memmove(id + best + 1, id + best + 2, (size_t)(n - best - 2) * sizeof *id);
        n--;
    }
}

// The first rule of each pair counts here, so a table must not be given a pair twice.
static bool is_new(const rule *rules, int i)
{
    for (int k = 0; k < i; k++)
        if (rules[k].left == rules[i].left && rules[k].right == rules[i].right)
            return false;
    return true;
}

static void pieces_of_any_length_merge_as_defined(void **state)
{
    int32_t byte_id[256];
    (void)state;
    for (int32_t b = 0; b < 256; b++)
        byte_id[b] = b;
    lt_bpe_scratch *scratch;
    lt_vec ids = LT_VEC_OF(int32_t);
    for (uint64_t seed = 0; seed < 12; seed++) {
        rule rules[RULES];
        lt_bpe *bpe;
        random_rules(seed, rules);
        assert_ok(lt_bpe_create(byte_id, RULES, &bpe));
        assert_ok(lt_bpe_scratch_create(&scratch));
        for (int i = 0; i < RULES; i++)
            if (is_new(rules, i))
                lt_bpe_put(bpe, rules[i].left, rules[i].right, i, rules[i].merged);
        for (int round = 0; round < 2; round++) { // the second round meets a warm cache
            for (int len = 1; len <= LONGEST; len++) {
                char piece[LONGEST];
                int32_t want[LONGEST];
                for (int i = 0; i < len; i++) {
                    uint32_t r[4];
                    lt_philox(seed + 1000, (uint64_t)len, (uint64_t)i, r);
                    want[i] = 'a' + (int32_t)(r[0] % LETTERS);
                    piece[i] = (char)want[i];
                }
                const int n = naive(rules, want, len);
                lt_vec_clear(&ids);
                assert_ok(lt_bpe_encode(bpe, scratch, piece, (size_t)len, &ids));
                assert_int_equal(ids.n, n);
                assert_memory_equal(ids.data, want, (size_t)n * sizeof *want);
            }
        }
        lt_bpe_scratch_destroy(scratch);
        lt_bpe_destroy(bpe);
    }
    lt_vec_deinit(&ids);
}

static void a_pair_given_twice_keeps_the_later_rank(void **state)
{
    int32_t byte_id[256];
    lt_bpe *bpe;
    lt_bpe_scratch *scratch;
    lt_vec ids = LT_VEC_OF(int32_t);
    (void)state;
    for (int32_t b = 0; b < 256; b++)
        byte_id[b] = b;
    assert_ok(lt_bpe_create(byte_id, 3, &bpe));
    assert_ok(lt_bpe_scratch_create(&scratch));
    lt_bpe_put(bpe, 'a', 'b', 0, 300);
    lt_bpe_put(bpe, 'b', 'c', 1, 301);
    lt_bpe_put(bpe, 'a', 'b', 2, 302);
    assert_ok(lt_bpe_encode(bpe, scratch, "abc", 3, &ids)); // so "bc" goes first
    assert_int_equal(ids.n, 2);
    assert_int_equal(LT_AT(&ids, int32_t, 0), 'a');
    assert_int_equal(LT_AT(&ids, int32_t, 1), 301);
    lt_vec_deinit(&ids);
    lt_bpe_scratch_destroy(scratch);
    lt_bpe_destroy(bpe);
}

LT_TEST_MAIN(LT_TEST(pieces_of_any_length_merge_as_defined),
             LT_TEST(a_pair_given_twice_keeps_the_later_rank))
