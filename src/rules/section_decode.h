/* SPDX-License-Identifier: Apache-2.0
 *
 * The sections of the configuration other than `limits:`. Each is a reader for a field (rules/decode.h) whose target is
 * the struct weir_config; weir_server_decode's is its `server`. */
#pragma once

#include "rules/decode.h"

weir_field_reader weir_listen_decode;
weir_field_reader weir_envoy_decode;
weir_field_reader weir_table_decode;
weir_field_reader weir_tls_decode;
weir_field_reader weir_auth_decode;
weir_field_reader weir_server_decode;
weir_field_reader weir_headers_decode;
weir_field_reader weir_log_decode;
weir_field_reader weir_top_decode;
weir_field_reader weir_throttle_decode;
int weir_throttle_check(struct weir_decode *decode, const struct weir_yaml_node *map); /* when all sections are read */
weir_field_reader weir_engine_decode;
/* `nodes` of a set of rules in a store. */
weir_field_reader weir_rule_nodes_decode;
weir_field_reader weir_cluster_decode;
weir_field_reader weir_rules_decode;  /* rules/store_decode.c */
weir_field_reader weir_traces_decode; /* rules/traces_decode.c */
weir_field_reader weir_cluster_secret_decode;
