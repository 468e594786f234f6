// SPDX-License-Identifier: Apache-2.0
// lathe, the program: everything is in cli.c and the commands.
#include "cli/cli.h"

int main(int argc, char **argv)
{
    return lt_cli_main(argc, argv);
}
