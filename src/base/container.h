/* SPDX-License-Identifier: Apache-2.0
 *
 * From a member to what it is in. */
#pragma once

#include <stddef.h>

/* The struct of this type whose `member` is at `pointer`. */
#define weir_container(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))
