/* SPDX-License-Identifier: Apache-2.0
 *
 * The witness file: what the service last knew of its store (core/lease/incarnation.h), kept outside the store, one
 * text line with a checksum, replaced atomically (write, fsync, rename, fsync of the folder). Thread rule: one thread.
 * */
#pragma once

#include "core/lease/incarnation.h"
#include "weir/error.h"

#define WEIR_WITNESS_NEXT ".next" /* ends the name of what takes the file's place */

/* WEIR_ENOENT: there is none yet. WEIR_ECORRUPT: it is not ours. WEIR_EIO. */
int weir_witness_load(const char *path, struct weir_witness *ret_witness);
int weir_witness_save(const char *path, const struct weir_witness *witness); /* durable when 0 is returned; WEIR_EIO */
