// SPDX-License-Identifier: Apache-2.0
// Python pickles as trees of plain values: nothing is ever called, objects stay inert nodes.
#ifndef LT_CKPT_PICKLE_H
#define LT_CKPT_PICKLE_H

#include "base/memory.h"

typedef enum lt_pickle_kind {
    LT_PICKLE_NONE,
    LT_PICKLE_BOOL,
    LT_PICKLE_INT,
    LT_PICKLE_BIG, /* a whole number beyond 64 bits: little-endian two's complement in `text` */
    LT_PICKLE_FLOAT,
    LT_PICKLE_TEXT,
    LT_PICKLE_BYTES,
    LT_PICKLE_LIST,
    LT_PICKLE_TUPLE,
    LT_PICKLE_SET,
    LT_PICKLE_DICT,
    LT_PICKLE_GLOBAL,    /* a class or function, by name */
    LT_PICKLE_OBJECT,    /* a call, or an instance: what it was made of */
    LT_PICKLE_PERSISTENT /* what the file's surroundings know by an id */
} lt_pickle_kind;

typedef struct lt_pickle lt_pickle;
/** Values may be shared, and may even hold themselves: who walks a tree bounds the depth. */
struct lt_pickle {
    lt_pickle_kind kind;
    union {
        int64_t integer; /* BOOL, INT */
        double real;
        struct { /* TEXT (UTF-8, zero-terminated), BYTES, BIG */
            const char *text;
            size_t len;
        };
        struct { /* LIST, TUPLE, SET; DICT has key, value, key, value, ... in 2 * n */
            lt_pickle **items;
            int64_t n, room;
        };
        struct {
            const char *module, *name;
        };
        struct { /* OBJECT */
            lt_pickle *callable, *args, *state;
            lt_pickle *list, *dict; /* what was appended and set; NULL: nothing */
        };
        lt_pickle *id; /* PERSISTENT */
    };
};

/** What a global may be used for. */
enum { LT_PICKLE_BARE = 1, LT_PICKLE_CALL = 2, LT_PICKLE_NEW = 4 };

typedef struct lt_pickle_global {
    const char *module, *name;
    unsigned uses;
    const char *of; /* calls: how the name of the global ends that comes first; NULL: anything */
} lt_pickle_global;

typedef struct lt_pickle_rules {
    const lt_pickle_global *globals; /* [n] */
    int64_t n;
    bool inert; /* others are let in too, as nodes that nobody asks for */
} lt_pickle_rules;

/**
 * Read one pickle of protocol 2 to 5. The tree lives in the arena, which takes a bounded multiple
 * of `len`. where: what the bytes are, for messages.
 *
 * source   CPython, Lib/pickle.py and pickletools.py
 * errors   LT_ERR_FORMAT: cut short, an opcode or a global that has no place here (by name), one
 *          that finds the wrong things on the stack, more than rules->globals allows
 */
LT_NODISCARD lt_status lt_pickle_parse(const void *bytes, size_t len, const lt_pickle_rules *rules,
                                       const char *where, lt_arena *arena, const lt_pickle **out);

/** Whether v is the global module.name (module NULL: any). */
bool lt_pickle_is_global(const lt_pickle *v, const char *module, const char *name);
/** Whether v was made by calling, or as an instance of, module.name. */
bool lt_pickle_is_object(const lt_pickle *v, const char *module, const char *name);
/** The value of a text key in a dict, or in a dict-like object (OrderedDict); NULL: none. */
const lt_pickle *lt_pickle_get(const lt_pickle *v, const char *key);
/** The entries of a dict or dict-like object; NULL when v is neither. An empty one has n = 0. */
const lt_pickle *lt_pickle_dict(const lt_pickle *v);
/** A text without NUL bytes, or NULL. */
const char *lt_pickle_text(const lt_pickle *v);
bool lt_pickle_int(const lt_pickle *v, int64_t *out);
/** A float, or a whole number as one. */
bool lt_pickle_real(const lt_pickle *v, double *out);
/** "a torch.Size", "a text": for messages. */
const char *lt_pickle_kind_text(const lt_pickle *v);
#endif
