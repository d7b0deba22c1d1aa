/* SPDX-License-Identifier: Apache-2.0
 *
 * `weir rules import`: an export into a store of rules, or envoyproxy/ratelimit's configuration files as limits of
 * weir. */
#pragma once

/* argv[0] is "import"; the exit code. */
int weir_cli_rules_import(int argc, char **argv);
