/* SPDX-License-Identifier: Apache-2.0
 *
 * weir_assert: a programmer's error stops the program, in release builds too; it traps, so that core/ needs no import.
 * An operating error is returned instead (weir/error.h). */
#ifndef WEIR_BASE_ASSERT_H
#define WEIR_BASE_ASSERT_H

#define weir_assert(condition) ((condition) ? (void)0 : __builtin_trap())

#endif
