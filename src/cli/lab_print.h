/* SPDX-License-Identifier: Apache-2.0
 *
 * What an experiment found, for people and for programs. */
#pragma once

#include <stdio.h>

#include "sim/lab/lab.h"

/* The question, how it was answered, the plot, the numbers, and what they show. */
void weir_lab_print(const struct weir_lab *lab, const struct weir_lab_report *report);
/* One object. False: it could not be written. */
bool weir_lab_print_json(const struct weir_lab *lab, const struct weir_lab_report *report, FILE *out);
