/* SPDX-License-Identifier: Apache-2.0
 *
 * The questions, each in a file of its own. */
#pragma once

#include "sim/lab/lab.h"

extern const struct weir_lab weir_lab_counter;
extern const struct weir_lab weir_lab_pauses;
extern const struct weir_lab weir_lab_phone;
extern const struct weir_lab weir_lab_refill;
extern const struct weir_lab weir_lab_replicas;
extern const struct weir_lab weir_lab_sticky;
extern const struct weir_lab weir_lab_tenants;
extern const struct weir_lab weir_lab_expire;
extern const struct weir_lab weir_lab_gossip;
extern const struct weir_lab weir_lab_leaky;
