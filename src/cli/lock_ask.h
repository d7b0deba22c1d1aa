/* SPDX-License-Identifier: Apache-2.0
 *
 * `weir lock show | release | restored`: one HTTP call each. argv[0] is the word; returns the exit code. */
#pragma once

int weir_lock_show(int argc, char **argv);
int weir_lock_give_back(int argc, char **argv);
int weir_lock_restored(int argc, char **argv);

/* What a file says without its last line end, as a token: NULL after a complaint; free() it. */
char *weir_token_file_read(const char *path);
