/* SPDX-License-Identifier: Apache-2.0
 *
 * Stands before each changed source of a build of mutants (schemata.py), and nowhere else. WEIR_MUTANT names the mutant
 * that lives; WEIR_MUTANTS_SEEN a file with a byte for each, set when a mutant's place is come by.
 *
 * It includes nothing, so that no name of a system's header meets one of the source; and each source brings all of it,
 * weak, so that whatever is linked from a few of them has it once. */
#pragma once

__attribute__((weak, visibility("hidden"))) int weir_mutant_alive;
__attribute__((weak, visibility("hidden"))) volatile unsigned char *weir_mutant_seen;

static inline _Bool weir_mutant_at(int number)
{
    if (weir_mutant_seen)
        weir_mutant_seen[number] = 1;
    return weir_mutant_alive == number;
}

__attribute__((weak, visibility("hidden"), constructor)) void weir_mutant_read(void)
{
    char *getenv(const char *name);
    int atoi(const char *text);
    long syscall(long number, ...); /* a test may have put its own open() in the place of libc's */
    const char *alive = getenv("WEIR_MUTANT"), *seen = getenv("WEIR_MUTANTS_SEEN"), *size = getenv("WEIR_MUTANTS_SIZE");
    weir_mutant_alive = alive ? atoi(alive) : 0;
    if (!seen || !size)
        return;
    void *mmap(void *at, __SIZE_TYPE__ bytes, int protection, int flags, int file, long offset);
    long file = syscall(257 /* openat */, -100 /* AT_FDCWD */, seen, 02 /* O_RDWR */, 0);
    if (file < 0)
        return;
    void *bytes = mmap(0, (__SIZE_TYPE__)atoi(size), 3 /* read, write */, 1 /* shared */, (int)file, 0);
    if (bytes != (void *)-1)
        weir_mutant_seen = bytes;
    syscall(3 /* close */, file);
}
