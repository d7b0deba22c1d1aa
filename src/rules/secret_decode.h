/* SPDX-License-Identifier: Apache-2.0
 *
 * Secrets in the configuration, written there or in a file of their own. They are copied into the arena, which wipes
 * them, and never into a message. */
#pragma once

#include "rules/decode.h"

#define WEIR_SECRET_MAX 512

/* What a file said when a configuration was loaded. Who makes another one of the same text (weir_config_again,
 * weir_config_with_rules) goes by it: the file may be gone by then, or say something else that nobody asked to take. */
struct weir_secret_read {
    const struct weir_secret_read *next;
    const char *path;
    struct weir_slice secret;
};

enum weir_secret_kind {
    WEIR_SECRET_TOKEN,    /* goes into headers: 16 to 512 printable ASCII characters without spaces */
    WEIR_SECRET_PASSWORD, /* 1 to 512 bytes without control characters */
};

/* Sets *ret_secret. The value is the secret itself. */
int weir_secret_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const char *name,
                       enum weir_secret_kind kind, struct weir_slice *ret_secret);

/* The value is a path, relative to the configuration's folder: the file's first line, so that `echo secret > file`
 * works. WEIR_EIO where it cannot be read. It is read once for all configurations of one loaded text. */
int weir_secret_file_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const char *name,
                            enum weir_secret_kind kind, struct weir_slice *ret_secret);

/* Readers for the fields of passwords, and of what may contain one; `target` is a struct weir_slice. */
weir_field_reader weir_password_decode;
weir_field_reader weir_password_file_decode;
