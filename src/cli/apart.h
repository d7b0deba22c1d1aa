/* SPDX-License-Identifier: Apache-2.0
 *
 * Verbs that are programs of their own, so that a server does not carry what they need: `weir sim` is weir-sim. weir
 * becomes that program: same process, same arguments, same exit code. */
#pragma once

/* Returns only if it cannot be started: WEIR_EXIT_ERROR, and stderr says why. argv[0] is the verb. */
int weir_apart_run(const char *program, char **argv);
