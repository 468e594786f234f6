// SPDX-License-Identifier: Apache-2.0
// Joining the other ranks of a launcher, and leaving with one message and one exit code.
#include "cli/ranks.h"

#include "cli/cli.h"
#include "comm/mpi/mpi.h"

// A process is one rank or none, for as long as it lives.
static lt_mpi *ranks;

lt_status lt_cli_join(void)
{
    LT_TRY(lt_mpi_open(&ranks));
    return lt_same_text(lt_cli_world(), "the version of lathe", LATHE_VERSION);
}

lt_group *lt_cli_world(void)
{
    return lt_mpi_world(ranks);
}

bool lt_cli_is_first(void)
{
    return lt_mpi_is_first(ranks);
}

int lt_cli_leave(lt_status st)
{
    const bool speaks = lt_mpi_settle(ranks, &st);
    if (st != LT_OK && speaks && lt_error_message()[0] != '\0')
        lt_cli_complain(st == LT_ERR_CANCELLED ? "note" : "error", lt_error_message());
    int code = lt_exit_code_of(st);
    if (fflush(stdout) != 0 && st == LT_OK)
        code = lt_exit_code_of(LT_ERR_IO);
    lt_mpi_close(ranks, st, code);
    ranks = NULL;
    return code;
}
