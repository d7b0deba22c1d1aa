/* SPDX-License-Identifier: Apache-2.0
 *
 * weir_assert: a programmer's error stops the program, in release builds too. It says expression, file and line; in
 * WebAssembly it only traps, so that core/ needs no import. An operating error is returned instead (weir/error.h).
 *
 * weir_debug_assert: the same in builds with debug information (sanitizers, fuzzers); in a release it is compiled but
 * never evaluated. It stands on the path of a key that is resident, where each instruction is counted. */
#pragma once

#ifdef __wasm__
#define weir_assert(condition) ((condition) ? (void)0 : __builtin_trap())
#else
_Noreturn __attribute__((cold)) void weir_assert_failed(const char *expression, const char *file, int line);
#define weir_assert(condition) ((condition) ? (void)0 : weir_assert_failed(#condition, __FILE__, __LINE__))
#endif

#ifdef WEIR_DEBUG
#define weir_debug_assert(condition) weir_assert(condition)
#else
#define weir_debug_assert(condition) ((void)sizeof((condition) ? 1 : 0))
#endif
