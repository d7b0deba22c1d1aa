/* SPDX-License-Identifier: Apache-2.0
 *
 * The strict schema layer: a mapping is decoded by a table of its fields; a key that is not in the table is an error
 * that lists those that are. Every fault has its place and, where there is one, the range. */
#pragma once

#include "rules/yaml_node.h"

struct weir_decode {
    struct weir_config *config;
    struct weir_arena *arena;                     /* what the configuration keeps */
    struct weir_config_fault *fault, *fault_last; /* the next one is told here, and others up to there */

    const char *directory; /* where relative secret files are looked for; NULL = the working directory */
    const struct weir_secret_read *secrets; /* files of secrets that were read before, and are not read again */
    bool partial; /* what stands beside the limits has errors: how these are shared is not judged */
};

#define WEIR_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

struct weir_field;

/* Reads the value of a field; `target` already has the field's offset added. */
typedef int weir_field_reader(struct weir_decode *decode, const struct weir_yaml_node *value,
                              const struct weir_field *field, void *target);

struct weir_field {
    const char *name;
    weir_field_reader *read;
    size_t offset; /* of what `read` sets, in the struct that the mapping becomes */
    bool required;
    uint64_t min, max;        /* numbers, sizes and durations */
    const char *const *names; /* words: their list, ended by NULL; the index is the value */
};

/* After each of several parts that are right or wrong by themselves: keeps its error and its fault, the first error in
 * *first. False: no more faults can be told, or no memory; the rest is not read. */
bool weir_decode_goes_on(struct weir_decode *decode, int error, int *first);

/* `what` names the mapping in messages: "a limit". */
int weir_decode_map(struct weir_decode *decode, const struct weir_yaml_node *map, const char *what,
                    const struct weir_field *fields, size_t count, void *target);

/* Readers, and what they set. */
weir_field_reader weir_decode_text;   /* const char *, never empty, no NUL inside; at most field->max bytes */
weir_field_reader weir_decode_word;   /* an enum */
weir_field_reader weir_decode_switch; /* bool: on, off, true, false */
weir_field_reader weir_decode_u32;
weir_field_reader weir_decode_u64;
weir_field_reader weir_decode_size;     /* size_t */
weir_field_reader weir_decode_size32;   /* uint32_t */
weir_field_reader weir_decode_duration; /* uint64_t ns */
weir_field_reader weir_decode_address;

/* The same reader for what is not in a table: WEIR_EPROTO unless the node is a scalar, a list, a mapping. */
int weir_decode_kind(struct weir_decode *decode, const struct weir_yaml_node *node, enum weir_yaml_kind kind,
                     const char *what);

/* And the error shows how it is written. */
int weir_decode_kind_shown(struct weir_decode *decode, const struct weir_yaml_node *node, enum weir_yaml_kind kind,
                           const char *what, const char *shown);

/* A list of `min` to `max` items: *ret_items, a pointer to items of `size` bytes, gets room for them, all zeros. */
int weir_decode_list(struct weir_decode *decode, const struct weir_yaml_node *list, const char *what, size_t min,
                     size_t max, size_t size, void *ret_items);

/* A warning at a place; silently counted beyond WEIR_CONFIG_WARNINGS_MAX. */
__attribute__((format(printf, 3, 4))) int weir_decode_warn(struct weir_decode *decode, struct weir_mark mark,
                                                           const char *format, ...);

int weir_decode_nomem(struct weir_decode *decode);
