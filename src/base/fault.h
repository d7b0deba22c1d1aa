/* SPDX-License-Identifier: Apache-2.0
 *
 * Filling a struct weir_fault, in the last line of a function that refuses. */
#pragma once

#include "weir/error.h"

/* Fills *ret_fault, if there is one, cut to fit; returns `error`. */
int weir_fault_set(struct weir_fault *ret_fault, int error, const char *field, const char *text);
