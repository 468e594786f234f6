// SPDX-License-Identifier: Apache-2.0
// The schema: one table of every key, by section. What the loader, the printer, the refusals,
// `lathe config --keys` and the user guide know about a key comes from its row.
#ifndef LT_TRAIN_CONFIG_SCHEMA_H
#define LT_TRAIN_CONFIG_SCHEMA_H

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lt_record lt_record;

/** The type of a key and of its member in sections.h. */
typedef enum lt_field_kind {
    LT_FIELD_BOOL,          /* bool */
    LT_FIELD_TRISTATE,      /* int: 0, 1, LT_CFG_UNSET */
    LT_FIELD_INT,           /* int64_t */
    LT_FIELD_INT_OR_AUTO,   /* int64_t, LT_CFG_AUTO */
    LT_FIELD_BYTES,         /* int64_t: "64GiB" or a number of bytes */
    LT_FIELD_FLOAT,         /* double, finite */
    LT_FIELD_TEXT,          /* const char * */
    LT_FIELD_BOOL_OR_TEXT,  /* const char *: "true", "false" or a word */
    LT_FIELD_CHOICE,        /* int: index into choices */
    LT_FIELD_TEXTS,         /* lt_texts */
    LT_FIELD_TEXT_OR_TEXTS, /* lt_texts: a text is split at its commas */
    LT_FIELD_INTS,          /* lt_ints */
    LT_FIELD_RECORD,        /* a struct */
    LT_FIELD_RECORDS,       /* a list of structs: pointer, then int64_t n */
    LT_FIELD_ANY,           /* accepted whatever it is, and dropped */
    LT_N_FIELD_KINDS
} lt_field_kind;

enum {
    LT_FIELD_REQUIRED = 1, /* has to stand in the file */
    LT_FIELD_NULL = 2,     /* null is allowed, and the same as leaving the key out */
    LT_FIELD_PATTERNS = 4, /* each text is a module-path pattern */
    LT_FIELD_LOWER = 8,    /* blanks around are dropped, letters made small */
    LT_FIELD_GIVEN = 16,   /* a record whose first member is `bool given` */
};

typedef struct lt_range {
    double low, high;
    bool open_low, open_high; /* the bound itself is not allowed */
    const char *words;        /* "0 or more" */
} lt_range;

/** What a key does in this build, when it is not refused. */
typedef enum lt_support {
    LT_SUPPORT_WORKS,
    LT_SUPPORT_HINT,  /* changes no result: named in one note when it is set */
    LT_SUPPORT_INERT, /* does nothing, here as in the reference: a warning when it is set to
                         something */
} lt_support;

/** Which values ask for something that this build does not have. Turning a feature on means
 * removing its cell. */
typedef enum lt_when {
    LT_WHEN_NEVER,
    LT_WHEN_TRUE,
    LT_WHEN_FALSE,
    LT_WHEN_GIVEN,  /* anything but null and an empty list */
    LT_WHEN_ABOVE,  /* a number above `limit` */
    LT_WHEN_NOT_IN, /* a text or choice that is not in `allowed` */
} lt_when;

typedef struct lt_refusal {
    lt_when when;
    int64_t limit;       /* LT_WHEN_ABOVE */
    const char *allowed; /* LT_WHEN_NOT_IN: words with blanks between them */
    /* LT_WHEN_NOT_IN: words that are right and not built yet; others are unknown words */
    const char *known;
    /* "activation offload": what is missing; for unknown words "model", "template" */
    const char *feature;
    const char *instead; /* "set it to false" */
} lt_refusal;

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): the order is that of reading a row
typedef struct lt_field {
    const char *key;
    lt_field_kind kind;
    size_t at;            /* offset in the struct of the record */
    const char *standard; /* the default as YAML; NULL: absent */
    uint32_t flags;
    const lt_range *range;      /* numbers */
    const char *const *choices; /* LT_FIELD_CHOICE, ended by NULL */
    const lt_record *record;    /* LT_FIELD_RECORD, LT_FIELD_RECORDS */
    lt_support support;
    lt_refusal refuse;
    const char *help;
} lt_field;

struct lt_record {
    const char *name;
    const lt_field *fields;
    int64_t n;
    size_t bytes; /* of its struct */
};

/** The root: its fields are the sections. */
extern const lt_record lt_schema;

extern const lt_record lt_schema_parallel, lt_schema_data, lt_schema_model, lt_schema_features,
    lt_schema_training, lt_schema_tools, lt_schema_lathe;

extern const lt_range lt_range_up_to_256, lt_range_at_least_0, lt_range_at_least_1,
    lt_range_above_0, lt_range_unit, lt_range_unit_open_high, lt_range_unit_open_low;

/** The field of this key in a record, NULL when there is none. */
const lt_field *lt_schema_find(const lt_record *record, const char *key);

/** A key path, grown and cut while walking the schema. */
enum { LT_KEY_PATH_MAX = 256 };

/** Visit every field below `record`, records before their fields; `path` is the field's. Stops at
 * the first failure. */
typedef lt_status (*lt_schema_visit)(void *ctx, const lt_field *field, const char *path,
                                     const void *member);
LT_NODISCARD lt_status lt_schema_walk(const lt_record *record, const void *base,
                                      lt_schema_visit visit, void *ctx);

#ifdef __cplusplus
}
#endif
#endif
