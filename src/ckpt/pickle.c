// SPDX-License-Identifier: Apache-2.0
// The pickle machine: a stack, a memo and a table of opcodes. The bytes come from strangers, so it
// builds values and never runs anything.
#include "ckpt/pickle.h"
#include "base/text.h"
#include <string.h>

enum {
    MAX_BYTES = 1 << 30, // of one pickle; every opcode makes at most one node
    MAX_PROTOCOL = 5,
    MAX_GLOBAL_BYTES = 512, // of a module's or a class's name
    MAX_INT_BYTES = 1 << 16,
};

typedef struct machine {
    const uint8_t *bytes;
    size_t len, at;
    const lt_pickle_rules *rules;
    const char *where;
    lt_arena *arena;
    lt_vec stack; // lt_pickle *
    lt_vec marks; // int64_t: heights of the stack
    lt_vec memo;  // lt_pickle *, NULL where nothing was put
    bool done;
} machine;

typedef lt_status (*op_fn)(machine *m, size_t arg);
typedef struct opcode {
    const char *name;
    op_fn run;  // NULL: refused by name
    size_t arg; // handed to run: what tells siblings apart
} opcode;

static lt_status bad(const machine *m, const char *what)
{
    return LT_FAIL(LT_ERR_FORMAT, "%s: its pickle is malformed at byte %zu: %s", m->where, m->at,
                   what);
}

// ---- bytes

static lt_status take(machine *m, size_t n, const uint8_t **out)
{
    if (n > m->len - m->at) {
        return LT_FAIL(LT_ERR_FORMAT,
                       "%s: its pickle is cut short: %zu bytes are wanted at byte %zu of %zu",
                       m->where, n, m->at, m->len);
    }
    *out = m->bytes + m->at;
    m->at += n;
    return LT_OK;
}

// An unsigned little-endian number of 1, 2, 4 or 8 bytes.
static lt_status take_number(machine *m, size_t width, uint64_t *out)
{
    const uint8_t *p;
    uint64_t value = 0;
    LT_TRY(take(m, width, &p));
    for (size_t i = width; i > 0; i--)
        value = value << 8 | p[i - 1];
    *out = value;
    return LT_OK;
}

// ---- stack

static lt_status new_node(machine *m, lt_pickle_kind kind, lt_pickle **out)
{
    void *memory;
    LT_TRY(lt_arena_take(m->arena, sizeof(lt_pickle), &memory));
    *out = memory;
    (*out)->kind = kind;
    return LT_OK;
}

static lt_status push(machine *m, lt_pickle *v)
{
    return lt_vec_push(&m->stack, (const void *)&v);
}

static lt_status push_new(machine *m, lt_pickle_kind kind, lt_pickle **out)
{
    LT_TRY(new_node(m, kind, out));
    return push(m, *out);
}

// The height below which nothing may be taken.
static int64_t floor_of(const machine *m)
{
    return m->marks.n > 0 ? LT_AT(&m->marks, int64_t, m->marks.n - 1) : 0;
}

static lt_status pop(machine *m, lt_pickle **out)
{
    if (m->stack.n <= floor_of(m))
        return bad(m, "the stack is empty");
    *out = LT_AT(&m->stack, lt_pickle *, --m->stack.n);
    return LT_OK;
}

static lt_status top(const machine *m, lt_pickle **out)
{
    if (m->stack.n <= floor_of(m))
        return bad(m, "the stack is empty");
    *out = LT_AT(&m->stack, lt_pickle *, m->stack.n - 1);
    return LT_OK;
}

// Everything above the last mark, which goes too. Valid until the next push.
static lt_status pop_mark(machine *m, lt_pickle ***items, int64_t *n)
{
    if (m->marks.n == 0)
        return bad(m, "there is no mark");
    const int64_t base = LT_AT(&m->marks, int64_t, --m->marks.n);
    *items = &LT_AT(&m->stack, lt_pickle *, base);
    *n = m->stack.n - base;
    m->stack.n = base;
    return LT_OK;
}

// ---- containers

static lt_status append(machine *m, lt_pickle *to, lt_pickle *const *items, int64_t n)
{
    if (n > to->room - to->n) {
        const int64_t room = lt_max_i64(2 * to->room, to->n + n);
        void *memory;
        LT_TRY(lt_arena_take(m->arena, (size_t)room * sizeof(void *), &memory));
        if (to->n > 0)
            memcpy(memory, (const void *)to->items, (size_t)to->n * sizeof(void *));
        to->items = memory;
        to->room = room;
    }
    if (n > 0)
        memcpy((void *)(to->items + to->n), (const void *)items, (size_t)n * sizeof(void *));
    to->n += n;
    return LT_OK;
}

// The list or dict that an object's items go to.
static lt_status part_of(machine *m, lt_pickle **part, lt_pickle_kind kind)
{
    return *part ? LT_OK : new_node(m, kind, part);
}

static lt_status add_items(machine *m, lt_pickle *to, lt_pickle *const *items, int64_t n)
{
    if (to->kind == LT_PICKLE_OBJECT) {
        LT_TRY(part_of(m, &to->list, LT_PICKLE_LIST));
        to = to->list;
    }
    if (to->kind != LT_PICKLE_LIST && to->kind != LT_PICKLE_SET)
        return bad(m, "items are added to what is no list");
    return append(m, to, items, n);
}

// A dict counts its pairs, and `append` single values.
static lt_status add_pairs(machine *m, lt_pickle *to, lt_pickle *const *items, int64_t n)
{
    if (n % 2 != 0)
        return bad(m, "a key has no value");
    if (to->kind == LT_PICKLE_OBJECT) {
        LT_TRY(part_of(m, &to->dict, LT_PICKLE_DICT));
        to = to->dict;
    }
    if (to->kind != LT_PICKLE_DICT)
        return bad(m, "keys are set in what is no dict");
    to->n *= 2;
    const lt_status st = append(m, to, items, n);
    to->n /= 2;
    return st;
}

static lt_status op_empty(machine *m, size_t kind)
{
    lt_pickle *v;
    return push_new(m, (lt_pickle_kind)kind, &v);
}

static lt_status op_tuple(machine *m, size_t n)
{
    lt_pickle *items[3], *v;
    for (size_t i = n; i > 0; i--)
        LT_TRY(pop(m, &items[i - 1]));
    LT_TRY(new_node(m, LT_PICKLE_TUPLE, &v));
    LT_TRY(append(m, v, items, (int64_t)n));
    return push(m, v);
}

static lt_status op_marked(machine *m, size_t kind)
{
    lt_pickle **items, *v;
    int64_t n;
    LT_TRY(pop_mark(m, &items, &n));
    LT_TRY(new_node(m, (lt_pickle_kind)kind, &v));
    LT_TRY(kind == LT_PICKLE_DICT ? add_pairs(m, v, items, n) : append(m, v, items, n));
    return push(m, v);
}

static lt_status op_append(machine *m, size_t unused)
{
    (void)unused;
    lt_pickle *item, *to;
    LT_TRY(pop(m, &item));
    LT_TRY(top(m, &to));
    return add_items(m, to, &item, 1);
}

static lt_status op_appends(machine *m, size_t unused)
{
    (void)unused;
    lt_pickle **items, *to;
    int64_t n;
    LT_TRY(pop_mark(m, &items, &n));
    LT_TRY(top(m, &to));
    return add_items(m, to, items, n);
}

static lt_status op_setitem(machine *m, size_t unused)
{
    (void)unused;
    lt_pickle *pair[2], *to;
    LT_TRY(pop(m, &pair[1]));
    LT_TRY(pop(m, &pair[0]));
    LT_TRY(top(m, &to));
    return add_pairs(m, to, pair, 2);
}

static lt_status op_setitems(machine *m, size_t unused)
{
    (void)unused;
    lt_pickle **items, *to;
    int64_t n;
    LT_TRY(pop_mark(m, &items, &n));
    LT_TRY(top(m, &to));
    return add_pairs(m, to, items, n);
}

static lt_status op_mark(machine *m, size_t unused)
{
    (void)unused;
    return lt_vec_push(&m->marks, &m->stack.n);
}

static lt_status op_pop(machine *m, size_t unused)
{
    (void)unused;
    lt_pickle *v;
    if (m->marks.n > 0 && floor_of(m) == m->stack.n) { // what is on top is the mark
        m->marks.n--;
        return LT_OK;
    }
    return pop(m, &v);
}

static lt_status op_pop_mark(machine *m, size_t unused)
{
    (void)unused;
    lt_pickle **items;
    int64_t n;
    return pop_mark(m, &items, &n);
}

static lt_status op_dup(machine *m, size_t unused)
{
    (void)unused;
    lt_pickle *v;
    LT_TRY(top(m, &v));
    return push(m, v);
}

// ---- numbers and texts

static lt_status op_constant(machine *m, size_t which)
{
    lt_pickle *v;
    LT_TRY(push_new(m, which == 2 ? LT_PICKLE_NONE : LT_PICKLE_BOOL, &v));
    v->integer = which == 1;
    return LT_OK;
}

static lt_status push_int(machine *m, int64_t value)
{
    lt_pickle *v;
    LT_TRY(push_new(m, LT_PICKLE_INT, &v));
    v->integer = value;
    return LT_OK;
}

static lt_status op_int(machine *m, size_t width)
{
    uint64_t raw;
    LT_TRY(take_number(m, width, &raw));
    return push_int(m, width == 4 ? (int64_t)(int32_t)(uint32_t)raw : (int64_t)raw);
}

// A signed number of any length, little-endian.
static lt_status op_long(machine *m, size_t width)
{
    uint64_t n;
    const uint8_t *p;
    LT_TRY(take_number(m, width, &n));
    if (n > MAX_INT_BYTES)
        return bad(m, "a whole number is too long");
    LT_TRY(take(m, (size_t)n, &p));
    if (n > 8) {
        lt_pickle *v;
        char *copy;
        LT_TRY(push_new(m, LT_PICKLE_BIG, &v));
        LT_TRY(lt_arena_text(m->arena, (const char *)p, (size_t)n, &copy));
        v->text = copy;
        v->len = (size_t)n;
        return LT_OK;
    }
    uint64_t value = n > 0 && p[n - 1] >= 0x80 ? UINT64_MAX : 0;
    for (uint64_t i = n; i > 0; i--)
        value = value << 8 | p[i - 1];
    return push_int(m, (int64_t)value);
}

static lt_status op_float(machine *m, size_t unused)
{
    (void)unused;
    const uint8_t *p;
    lt_pickle *v;
    uint64_t bits = 0;
    LT_TRY(take(m, 8, &p));
    for (int i = 0; i < 8; i++) // the one big-endian number of the format
        bits = bits << 8 | p[i];
    LT_TRY(push_new(m, LT_PICKLE_FLOAT, &v));
    memcpy(&v->real, &bits, sizeof bits);
    return LT_OK;
}

static lt_status push_text(machine *m, lt_pickle_kind kind, size_t width)
{
    uint64_t n;
    const uint8_t *p;
    lt_pickle *v;
    char *copy;
    LT_TRY(take_number(m, width, &n));
    if (n > SIZE_MAX / 2)
        return bad(m, "a text is too long");
    LT_TRY(take(m, (size_t)n, &p));
    LT_TRY(push_new(m, kind, &v));
    LT_TRY(lt_arena_text(m->arena, (const char *)p, (size_t)n, &copy));
    v->text = copy;
    v->len = (size_t)n;
    return LT_OK;
}

static lt_status op_text(machine *m, size_t width)
{
    return push_text(m, LT_PICKLE_TEXT, width);
}

static lt_status op_bytes(machine *m, size_t width)
{
    return push_text(m, LT_PICKLE_BYTES, width);
}

// ---- memo

static lt_status put_at(machine *m, uint64_t at)
{
    lt_pickle *v;
    LT_TRY(top(m, &v));
    if (at >= m->len) // whoever writes counts from 0, one for an opcode
        return bad(m, "a memo number is too large");
    if ((int64_t)at >= m->memo.n)
        LT_TRY(lt_vec_resize(&m->memo, (int64_t)at + 1));
    LT_AT(&m->memo, lt_pickle *, at) = v;
    return LT_OK;
}

static lt_status op_memoize(machine *m, size_t unused)
{
    (void)unused;
    return put_at(m, (uint64_t)m->memo.n);
}

static lt_status op_put(machine *m, size_t width)
{
    uint64_t at;
    LT_TRY(take_number(m, width, &at));
    return put_at(m, at);
}

static lt_status op_get(machine *m, size_t width)
{
    uint64_t at;
    LT_TRY(take_number(m, width, &at));
    if (at >= (uint64_t)m->memo.n || !LT_AT(&m->memo, lt_pickle *, at))
        return bad(m, "the memo has nothing of that number");
    return push(m, LT_AT(&m->memo, lt_pickle *, at));
}

// ---- globals and objects

static const lt_pickle_global *row_of(const machine *m, const char *module, const char *name)
{
    for (int64_t i = 0; i < m->rules->n; i++) {
        const lt_pickle_global *g = &m->rules->globals[i];
        if (strcmp(g->name, name) == 0 && strcmp(g->module, module) == 0)
            return g;
    }
    return NULL;
}

static lt_status refuse_use(const machine *m, const lt_pickle *global, const char *use)
{
    return LT_FAIL(LT_ERR_FORMAT, "%s: its pickle %s %.200s.%.200s, which has no place in it",
                   m->where, use, global->module, global->name);
}

static lt_status push_global(machine *m, const char *module, size_t module_len, const char *name,
                             size_t name_len)
{
    lt_pickle *v;
    char *a, *b;
    if (module_len > MAX_GLOBAL_BYTES || name_len > MAX_GLOBAL_BYTES)
        return bad(m, "the name of a global is too long");
    LT_TRY(push_new(m, LT_PICKLE_GLOBAL, &v));
    LT_TRY(lt_arena_text(m->arena, module, module_len, &a));
    LT_TRY(lt_arena_text(m->arena, name, name_len, &b));
    v->module = a;
    v->name = b;
    if (!m->rules->inert && !row_of(m, a, b))
        return refuse_use(m, v, "names");
    return LT_OK;
}

static lt_status take_line(machine *m, const char **line, size_t *len)
{
    const uint8_t *start = m->bytes + m->at;
    const uint8_t *end = m->at < m->len ? memchr(start, '\n', m->len - m->at) : NULL;
    if (!end)
        return bad(m, "a line has no end");
    *line = (const char *)start;
    *len = (size_t)(end - start);
    m->at += *len + 1;
    return LT_OK;
}

static lt_status op_global(machine *m, size_t unused)
{
    (void)unused;
    const char *module, *name;
    size_t module_len, name_len;
    LT_TRY(take_line(m, &module, &module_len));
    LT_TRY(take_line(m, &name, &name_len));
    return push_global(m, module, module_len, name, name_len);
}

static lt_status op_stack_global(machine *m, size_t unused)
{
    (void)unused;
    lt_pickle *name, *module;
    LT_TRY(pop(m, &name));
    LT_TRY(pop(m, &module));
    if (name->kind != LT_PICKLE_TEXT || module->kind != LT_PICKLE_TEXT)
        return bad(m, "a global's name is no text");
    return push_global(m, module->text, module->len, name->text, name->len);
}

static lt_status check_use(const machine *m, const lt_pickle *callable, const lt_pickle *args,
                           unsigned use)
{
    if (m->rules->inert)
        return LT_OK;
    if (callable->kind != LT_PICKLE_GLOBAL)
        return bad(m, "what is called is no global");
    const lt_pickle_global *row = row_of(m, callable->module, callable->name);
    if (!row || !(row->uses & use))
        return refuse_use(m, callable, use == LT_PICKLE_NEW ? "makes" : "calls");
    const lt_pickle *first = args->kind == LT_PICKLE_TUPLE && args->n > 0 ? args->items[0] : NULL;
    if (row->of &&
        !(first && first->kind == LT_PICKLE_GLOBAL && lt_text_ends(first->name, row->of)))
        return refuse_use(m, callable, "calls");
    return LT_OK;
}

static lt_status push_object(machine *m, lt_pickle *callable, lt_pickle *args, unsigned use)
{
    lt_pickle *v;
    LT_TRY(check_use(m, callable, args, use));
    LT_TRY(push_new(m, LT_PICKLE_OBJECT, &v));
    v->callable = callable;
    v->args = args;
    return LT_OK;
}

static lt_status op_call(machine *m, size_t use)
{
    lt_pickle *args, *callable;
    LT_TRY(pop(m, &args));
    LT_TRY(pop(m, &callable));
    if (args->kind != LT_PICKLE_TUPLE)
        return bad(m, "arguments are no tuple");
    if (use == LT_PICKLE_NEW && args->n > 0 && !m->rules->inert)
        return bad(m, "an object is made with arguments");
    return push_object(m, callable, args, (unsigned)use);
}

// NEWOBJ_EX: class, arguments, keyword arguments. The last are kept with the others.
static lt_status op_new_ex(machine *m, size_t unused)
{
    (void)unused;
    lt_pickle *named, *args, *class;
    LT_TRY(pop(m, &named));
    LT_TRY(pop(m, &args));
    LT_TRY(pop(m, &class));
    LT_TRY(push_object(m, class, args, LT_PICKLE_NEW));
    lt_pickle *v;
    LT_TRY(top(m, &v));
    v->dict = named->kind == LT_PICKLE_DICT && named->n > 0 ? named : NULL;
    return LT_OK;
}

static lt_status op_build(machine *m, size_t unused)
{
    (void)unused;
    lt_pickle *state, *v;
    LT_TRY(pop(m, &state));
    LT_TRY(top(m, &v));
    if (v->kind != LT_PICKLE_OBJECT)
        return bad(m, "a state is given to what is no object");
    v->state = state;
    return LT_OK;
}

static lt_status op_persistent(machine *m, size_t unused)
{
    (void)unused;
    lt_pickle *id, *v;
    LT_TRY(pop(m, &id));
    LT_TRY(push_new(m, LT_PICKLE_PERSISTENT, &v));
    v->id = id;
    return LT_OK;
}

// ---- framing

static lt_status op_proto(machine *m, size_t unused)
{
    (void)unused;
    uint64_t version;
    LT_TRY(take_number(m, 1, &version));
    if (version > MAX_PROTOCOL) {
        return LT_FAIL(LT_ERR_FORMAT,
                       "%s: pickles of protocol %llu are newer than those known (%d)", m->where,
                       (unsigned long long)version, MAX_PROTOCOL);
    }
    return LT_OK;
}

static lt_status op_frame(machine *m, size_t unused)
{
    (void)unused;
    uint64_t n;
    LT_TRY(take_number(m, 8, &n));
    return n > m->len - m->at ? bad(m, "a frame is longer than the pickle") : LT_OK;
}

static lt_status op_stop(machine *m, size_t unused)
{
    (void)unused;
    m->done = true;
    return LT_OK;
}

static const opcode opcodes[256] = {
    [0x80] = {"PROTO", op_proto, 0},
    [0x95] = {"FRAME", op_frame, 0},
    ['.'] = {"STOP", op_stop, 0},
    [0x94] = {"MEMOIZE", op_memoize, 0},
    ['q'] = {"BINPUT", op_put, 1},
    ['r'] = {"LONG_BINPUT", op_put, 4},
    ['h'] = {"BINGET", op_get, 1},
    ['j'] = {"LONG_BINGET", op_get, 4},
    ['c'] = {"GLOBAL", op_global, 0},
    [0x93] = {"STACK_GLOBAL", op_stack_global, 0},
    [0x8c] = {"SHORT_BINUNICODE", op_text, 1},
    ['X'] = {"BINUNICODE", op_text, 4},
    [0x8d] = {"BINUNICODE8", op_text, 8},
    ['U'] = {"SHORT_BINSTRING", op_text, 1}, // Python 2's text
    ['T'] = {"BINSTRING", op_text, 4},
    ['C'] = {"SHORT_BINBYTES", op_bytes, 1},
    ['B'] = {"BINBYTES", op_bytes, 4},
    [0x8e] = {"BINBYTES8", op_bytes, 8},
    [0x96] = {"BYTEARRAY8", op_bytes, 8},
    ['K'] = {"BININT1", op_int, 1},
    ['M'] = {"BININT2", op_int, 2},
    ['J'] = {"BININT", op_int, 4},
    [0x8a] = {"LONG1", op_long, 1},
    [0x8b] = {"LONG4", op_long, 4},
    ['G'] = {"BINFLOAT", op_float, 0},
    ['N'] = {"NONE", op_constant, 2},
    [0x88] = {"NEWTRUE", op_constant, 1},
    [0x89] = {"NEWFALSE", op_constant, 0},
    ['}'] = {"EMPTY_DICT", op_empty, LT_PICKLE_DICT},
    [']'] = {"EMPTY_LIST", op_empty, LT_PICKLE_LIST},
    [0x8f] = {"EMPTY_SET", op_empty, LT_PICKLE_SET},
    [')'] = {"EMPTY_TUPLE", op_empty, LT_PICKLE_TUPLE},
    [0x85] = {"TUPLE1", op_tuple, 1},
    [0x86] = {"TUPLE2", op_tuple, 2},
    [0x87] = {"TUPLE3", op_tuple, 3},
    ['t'] = {"TUPLE", op_marked, LT_PICKLE_TUPLE},
    ['l'] = {"LIST", op_marked, LT_PICKLE_LIST},
    ['d'] = {"DICT", op_marked, LT_PICKLE_DICT},
    [0x91] = {"FROZENSET", op_marked, LT_PICKLE_SET},
    ['('] = {"MARK", op_mark, 0},
    ['a'] = {"APPEND", op_append, 0},
    ['e'] = {"APPENDS", op_appends, 0},
    [0x90] = {"ADDITEMS", op_appends, 0},
    ['s'] = {"SETITEM", op_setitem, 0},
    ['u'] = {"SETITEMS", op_setitems, 0},
    ['0'] = {"POP", op_pop, 0},
    ['1'] = {"POP_MARK", op_pop_mark, 0},
    ['2'] = {"DUP", op_dup, 0},
    [0x81] = {"NEWOBJ", op_call, LT_PICKLE_NEW},
    [0x92] = {"NEWOBJ_EX", op_new_ex, 0},
    ['R'] = {"REDUCE", op_call, LT_PICKLE_CALL},
    ['b'] = {"BUILD", op_build, 0},
    ['Q'] = {"BINPERSID", op_persistent, 0},
    ['P'] = {"PERSID", NULL, 0},
    ['i'] = {"INST", NULL, 0},
    ['o'] = {"OBJ", NULL, 0},
    [0x82] = {"EXT1", NULL, 0},
    [0x83] = {"EXT2", NULL, 0},
    [0x84] = {"EXT4", NULL, 0},
    [0x97] = {"NEXT_BUFFER", NULL, 0},
    [0x98] = {"READONLY_BUFFER", NULL, 0},
    ['I'] = {"INT", NULL, 0},
    ['L'] = {"LONG", NULL, 0},
    ['F'] = {"FLOAT", NULL, 0},
    ['S'] = {"STRING", NULL, 0},
    ['V'] = {"UNICODE", NULL, 0},
    ['p'] = {"PUT", NULL, 0},
    ['g'] = {"GET", NULL, 0},
};

static lt_status run(machine *m, const lt_pickle **out)
{
    while (!m->done) {
        const uint8_t *code;
        LT_TRY(take(m, 1, &code));
        const opcode *op = &opcodes[*code];
        if (!op->run) {
            return LT_FAIL(LT_ERR_FORMAT,
                           "%s: its pickle has opcode %s (0x%02x) at byte %zu, which isn't read",
                           m->where, op->name ? op->name : "unknown", *code, m->at - 1);
        }
        LT_TRY(op->run(m, op->arg));
    }
    lt_pickle *v;
    LT_TRY(pop(m, &v));
    if (m->marks.n > 0 || m->stack.n > 0)
        return bad(m, "it ends with values left over");
    *out = v;
    return LT_OK;
}

lt_status lt_pickle_parse(const void *bytes, size_t len, const lt_pickle_rules *rules,
                          const char *where, lt_arena *arena, const lt_pickle **out)
{
    machine m = {.bytes = bytes,
                 .len = len,
                 .rules = rules,
                 .where = where,
                 .arena = arena,
                 .stack = LT_VEC_OF(lt_pickle *),
                 .marks = LT_VEC_OF(int64_t),
                 .memo = LT_VEC_OF(lt_pickle *)};
    if (len > MAX_BYTES)
        return LT_FAIL(LT_ERR_FORMAT, "%s: its pickle has %zu bytes; %d are allowed", where, len,
                       MAX_BYTES);
    const lt_status st = run(&m, out);
    lt_vec_deinit(&m.stack);
    lt_vec_deinit(&m.marks);
    lt_vec_deinit(&m.memo);
    return st;
}
