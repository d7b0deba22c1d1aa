/* SPDX-License-Identifier: Apache-2.0
 *
 * The questions that are answered with real servers. What is counted as in the simulator has the same name in both
 * reports. */
#pragma once

#include "cli/lab_stand.h"

#define WEIR_LAB_NEEDS_MAX 4

struct weir_lab_real {
    unsigned number;
    const char *needs[WEIR_LAB_NEEDS_MAX + 1]; /* programs; up to a NULL */
    bool (*run)(struct weir_lab_stand *stand); /* NULL: weir was built without what it takes */
};

/* NULL: the question needs no server. */
const struct weir_lab_real *weir_lab_real_find(unsigned number);
/* The first of what it needs that is not there; NULL: all of it is. */
const char *weir_lab_real_lacks(const struct weir_lab_real *real);

bool weir_lab_pauses_real(struct weir_lab_stand *stand);
bool weir_lab_phone_real(struct weir_lab_stand *stand); /* where there is libpq */
bool weir_lab_expire_real(struct weir_lab_stand *stand);
bool weir_lab_sticky_real(struct weir_lab_stand *stand); /* the same */
bool weir_lab_replicas_real(struct weir_lab_stand *stand);
bool weir_lab_tenants_real(struct weir_lab_stand *stand);
