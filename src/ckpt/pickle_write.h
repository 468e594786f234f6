// SPDX-License-Identifier: Apache-2.0
// Writing pickles of protocol 2, which every unpickler of PyTorch knows.
#ifndef LT_CKPT_PICKLE_WRITE_H
#define LT_CKPT_PICKLE_WRITE_H

#include "base/text.h"

/**
 * A pickle being written. Zero it first. The first failure sticks; lt_pkl_end gives it. With a memo
 * what was written once (globals, shared texts) is referred to after that.
 */
typedef struct lt_pkl {
    lt_buf out;
    lt_map *memo; /* NULL: nothing is shared */
    lt_status st;
} lt_pkl;

enum { /* opcodes without an argument */
       LT_PKL_MARK = '(',
       LT_PKL_TUPLE = 't',
       LT_PKL_EMPTY_TUPLE = ')',
       LT_PKL_TUPLE1 = 0x85,
       LT_PKL_TUPLE2 = 0x86,
       LT_PKL_EMPTY_LIST = ']',
       LT_PKL_APPENDS = 'e',
       LT_PKL_EMPTY_DICT = '}',
       LT_PKL_SETITEMS = 'u',
       LT_PKL_NEWOBJ = 0x81,
       LT_PKL_REDUCE = 'R',
       LT_PKL_BUILD = 'b',
       LT_PKL_BINPERSID = 'Q',
       LT_PKL_NONE = 'N',
       LT_PKL_TRUE = 0x88,
       LT_PKL_FALSE = 0x89
};

/** PROTO 2. */
void lt_pkl_begin(lt_pkl *p, bool share);
void lt_pkl_op(lt_pkl *p, int opcode);
void lt_pkl_int(lt_pkl *p, int64_t value);
void lt_pkl_float(lt_pkl *p, double value);
void lt_pkl_text(lt_pkl *p, const char *text);
/** A text that comes again. */
void lt_pkl_name(lt_pkl *p, const char *text);
void lt_pkl_global(lt_pkl *p, const char *module, const char *name);
/** A tuple of whole numbers. */
void lt_pkl_ints(lt_pkl *p, const int64_t *values, int32_t n);
/** torch.Size of them. */
void lt_pkl_size(lt_pkl *p, const int64_t *values, int32_t n);
/** An instance without arguments, to be followed by its state and BUILD. */
void lt_pkl_new(lt_pkl *p, const char *module, const char *name);
/** STOP. The pickle is p->out; lt_pkl_deinit in any case. */
LT_NODISCARD lt_status lt_pkl_end(lt_pkl *p);
void lt_pkl_deinit(lt_pkl *p);
#endif
