/* SPDX-License-Identifier: Apache-2.0
 *
 * The sections of the configuration other than `limits:`. Each is a reader for a field (rules/decode.h) whose target is
 * the struct weir_config; weir_server_decode's is its `server`. */
#pragma once

#include "rules/decode.h"

int weir_listen_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                       void *target);
int weir_table_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                      void *target);
int weir_tls_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                    void *target);
int weir_auth_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                     void *target);
int weir_server_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                       void *target);
int weir_headers_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                        void *target);
int weir_log_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                    void *target);
int weir_top_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                    void *target);
int weir_throttle_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                         void *target);
int weir_throttle_check(struct weir_decode *decode, const struct weir_yaml_node *map); /* when all sections are read */
int weir_engine_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                       void *target);
/* `nodes` of a set of rules in a store. */
int weir_rule_nodes_decode(struct weir_decode *decode, const struct weir_yaml_node *value,
                           const struct weir_field *field, void *target);
int weir_cluster_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                        void *target);
int weir_rules_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                      void *target); /* rules/store_decode.c */
int weir_traces_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                       void *target); /* rules/traces_decode.c */
int weir_cluster_secret_decode(struct weir_decode *decode, const struct weir_yaml_node *value,
                               const struct weir_field *field, void *target);
