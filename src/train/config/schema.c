// SPDX-License-Identifier: Apache-2.0
// The root of the schema: the six sections, lathe's own, and ways through the table.
#include "train/config/schema.h"
#include "train/config/config.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

const lt_range lt_range_at_least_0 = {0, HUGE_VAL, false, false, "0 or more"};
const lt_range lt_range_at_least_1 = {1, HUGE_VAL, false, false, "1 or more"};
const lt_range lt_range_up_to_256 = {0, 256, false, false, "from 0 to 256"};
const lt_range lt_range_above_0 = {0, HUGE_VAL, true, false, "more than 0"};
const lt_range lt_range_unit = {0, 1, false, false, "from 0 to 1"};
const lt_range lt_range_unit_open_high = {0, 1, false, true, "from 0 to 1, 1 excluded"};
const lt_range lt_range_unit_open_low = {0, 1, true, false, "from 0 to 1, 0 excluded"};

#define AT(field) offsetof(lt_config, field)
static const lt_field sections[] = {
    {"parallel", LT_FIELD_RECORD, AT(parallel), .record = &lt_schema_parallel,
     .help = "How the work is spread over ranks"},
    {"data", LT_FIELD_RECORD, AT(data), .flags = LT_FIELD_REQUIRED, .record = &lt_schema_data,
     .help = "Data sets and how they are read"},
    {"model", LT_FIELD_RECORD, AT(model), .record = &lt_schema_model,
     .help = "Which model, from where, what is frozen"},
    {"features", LT_FIELD_RECORD, AT(features), .record = &lt_schema_features,
     .help = "The loss, and what saves memory"},
    {"training", LT_FIELD_RECORD, AT(training), .record = &lt_schema_training,
     .help = "Rates, steps, checkpoints"},
    {"tools", LT_FIELD_RECORD, AT(tools), .record = &lt_schema_tools, .help = "Profiles"},
    {"lathe", LT_FIELD_RECORD, AT(lathe), .record = &lt_schema_lathe,
     .help = "Settings that only lathe has; other tools ignore the section"},
};
#undef AT

const lt_record lt_schema = {"", sections, sizeof sections / sizeof *sections, sizeof(lt_config)};

const lt_field *lt_schema_find(const lt_record *record, const char *key)
{
    for (int64_t i = 0; i < record->n; i++) {
        if (strcmp(record->fields[i].key, key) == 0)
            return &record->fields[i];
    }
    return NULL;
}

typedef struct walk {
    lt_schema_visit visit;
    void *ctx;
    char path[LT_KEY_PATH_MAX];
} walk;

static lt_status walk_record(walk *w, const lt_record *record, const char *base, size_t len)
{
    for (int64_t i = 0; i < record->n; i++) {
        const lt_field *f = &record->fields[i];
        const int n = snprintf(w->path + len, sizeof w->path - len, "%s%s", len ? "." : "", f->key);
        LT_ASSERT(n > 0 && (size_t)n < sizeof w->path - len);
        const char *member = base ? base + f->at : NULL;
        LT_TRY(w->visit(w->ctx, f, w->path, member));
        if (f->kind == LT_FIELD_RECORD)
            LT_TRY(walk_record(w, f->record, member, len + (size_t)n));
        w->path[len] = '\0';
    }
    return LT_OK;
}

lt_status lt_schema_walk(const lt_record *record, const void *base, lt_schema_visit visit,
                         void *ctx)
{
    walk w = {.visit = visit, .ctx = ctx};
    return walk_record(&w, record, base, 0);
}
