// SPDX-License-Identifier: Apache-2.0
// Texts that have to be the same on all ranks.
#include "base/memory.h"
#include "comm/comm.h"

#include <string.h>

static lt_status compare(const char *what, const char *mine, const char *first)
{
    while (*mine && *mine == *first) { // line by line, as far as they agree
        const size_t n = strcspn(mine, "\n"), m = strcspn(first, "\n");
        if (n != m || memcmp(mine, first, n) != 0)
            break;
        mine += n + (mine[n] == '\n');
        first += m + (first[m] == '\n');
    }
    if (strcmp(mine, first) == 0)
        return LT_OK;
    enum { MOST = 300 };
    const size_t n = strcspn(mine, "\n"), m = strcspn(first, "\n");
    return LT_FAIL(LT_ERR_CONFIG, "%s differs between ranks: here \"%.*s\", on the first \"%.*s\"",
                   what, (int)(n < MOST ? n : MOST), mine, (int)(m < MOST ? m : MOST), first);
}

lt_status lt_same_text(lt_group *g, const char *what, const char *text)
{
    void *memory = NULL;
    uint64_t bytes = strlen(text) + 1;
    if (lt_group_size(g) == 1)
        return LT_OK;
    LT_TRY(lt_broadcast(g, 0, &bytes, sizeof bytes));
    LT_TRY(lt_mem_alloc(&memory, bytes, "the first rank's text"));
    if (lt_group_rank(g) == 0)
        memcpy(memory, text, bytes);
    lt_status st = lt_broadcast(g, 0, memory, bytes);
    if (st == LT_OK)
        st = compare(what, text, memory);
    lt_mem_free(memory);
    return st;
}
