// SPDX-License-Identifier: Apache-2.0
// Pickles of protocol 2, opcode by opcode.
#include "ckpt/pickle_write.h"
#include <stdio.h>
#include <string.h>

enum { MAX_GLOBAL = 256 };

static void put(lt_pkl *p, const void *bytes, size_t len)
{
    if (p->st == LT_OK)
        p->st = lt_buf_append(&p->out, bytes, len);
}

// An opcode and a little-endian argument of `width` bytes.
static void put_arg(lt_pkl *p, int opcode, uint64_t value, int width)
{
    uint8_t bytes[9] = {(uint8_t)opcode};
    for (int i = 0; i < width; i++)
        bytes[i + 1] = (uint8_t)(value >> 8 * i);
    put(p, bytes, (size_t)width + 1);
}

void lt_pkl_begin(lt_pkl *p, bool share)
{
    if (share)
        p->st = lt_map_create(&p->memo);
    put_arg(p, 0x80, 2, 1);
}

void lt_pkl_op(lt_pkl *p, int opcode)
{
    put_arg(p, opcode, 0, 0);
}

void lt_pkl_int(lt_pkl *p, int64_t v)
{
    if (v >= 0 && v <= UINT8_MAX)
        put_arg(p, 'K', (uint64_t)v, 1);
    else if (v >= 0 && v <= UINT16_MAX)
        put_arg(p, 'M', (uint64_t)v, 2);
    else if (v >= INT32_MIN && v <= INT32_MAX)
        put_arg(p, 'J', (uint64_t)v, 4);
    else {
        put_arg(p, 0x8a, 8, 1);
        uint8_t bytes[8];
        for (int i = 0; i < 8; i++)
            bytes[i] = (uint8_t)((uint64_t)v >> 8 * i);
        put(p, bytes, sizeof bytes);
    }
}

void lt_pkl_float(lt_pkl *p, double value)
{
    uint64_t bits;
    uint8_t bytes[9] = {'G'};
    memcpy(&bits, &value, sizeof bits);
    for (int i = 0; i < 8; i++)
        bytes[i + 1] = (uint8_t)(bits >> 8 * (7 - i));
    put(p, bytes, sizeof bytes);
}

void lt_pkl_text(lt_pkl *p, const char *text)
{
    const size_t len = strlen(text);
    put_arg(p, 'X', len, 4);
    put(p, text, len);
}

// True when the memo has it, which is then referred to.
static bool recall(lt_pkl *p, const char *what)
{
    int64_t at;
    if (!p->memo || !lt_map_get_text(p->memo, what, &at))
        return false;
    put_arg(p, at <= UINT8_MAX ? 'h' : 'j', (uint64_t)at, at <= UINT8_MAX ? 1 : 4);
    return true;
}

static void memorize(lt_pkl *p, const char *what)
{
    if (!p->memo || p->st != LT_OK)
        return;
    const int64_t at = lt_map_count(p->memo);
    p->st = lt_map_put_text(p->memo, what, at);
    put_arg(p, at <= UINT8_MAX ? 'q' : 'r', (uint64_t)at, at <= UINT8_MAX ? 1 : 4);
}

void lt_pkl_name(lt_pkl *p, const char *text)
{
    const bool share = !strchr(text, '\n');
    if (share && recall(p, text))
        return;
    lt_pkl_text(p, text);
    if (share)
        memorize(p, text);
}

void lt_pkl_global(lt_pkl *p, const char *module, const char *name)
{
    char line[MAX_GLOBAL]; // with line feeds, which no text in the memo has
    const int n = snprintf(line, sizeof line, "c%s\n%s\n", module, name);
    LT_ASSERT(n > 0 && n < MAX_GLOBAL);
    if (recall(p, line))
        return;
    put(p, line, (size_t)n);
    memorize(p, line);
}

void lt_pkl_ints(lt_pkl *p, const int64_t *values, int32_t n)
{
    static const int ends[] = {LT_PKL_EMPTY_TUPLE, LT_PKL_TUPLE1, LT_PKL_TUPLE2, 0x87};
    if (n > 3)
        lt_pkl_op(p, LT_PKL_MARK);
    for (int32_t i = 0; i < n; i++)
        lt_pkl_int(p, values[i]);
    lt_pkl_op(p, n > 3 ? LT_PKL_TUPLE : ends[n]);
}

void lt_pkl_size(lt_pkl *p, const int64_t *values, int32_t n)
{
    lt_pkl_global(p, "torch", "Size");
    lt_pkl_ints(p, values, n);
    lt_pkl_op(p, LT_PKL_TUPLE1);
    lt_pkl_op(p, LT_PKL_REDUCE);
}

void lt_pkl_new(lt_pkl *p, const char *module, const char *name)
{
    lt_pkl_global(p, module, name);
    lt_pkl_op(p, LT_PKL_EMPTY_TUPLE);
    lt_pkl_op(p, LT_PKL_NEWOBJ);
}

lt_status lt_pkl_end(lt_pkl *p)
{
    lt_pkl_op(p, '.');
    return p->st;
}

void lt_pkl_deinit(lt_pkl *p)
{
    lt_buf_deinit(&p->out);
    lt_map_destroy(p->memo);
    *p = (lt_pkl){0};
}
