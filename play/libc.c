/* SPDX-License-Identifier: Apache-2.0
 *
 * What of libc ends a program or prints, for WebAssembly: a trap, which the page catches and tells, and as much of
 * snprintf and vsnprintf as sim/ uses. wasi-libc's own would import a file to print to. Compiled for WebAssembly
 * alone. */
#include <assert.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

_Noreturn void __assert_fail(const char *expression, const char *file, int line, const char *function)
{
    (void)expression, (void)file, (void)line, (void)function;
    __builtin_trap();
}

_Noreturn void abort(void)
{
    __builtin_trap();
}

struct text {
    char *at;
    size_t size, used;
};

static void put(struct text *text, char letter)
{
    if (text->used + 1 < text->size)
        text->at[text->used] = letter;
    text->used++;
}

static void put_number(struct text *text, unsigned long long number)
{
    if (number >= 10)
        put_number(text, number / 10);
    put(text, (char)('0' + number % 10));
}

/* %s, %d and %llu; anything else is a mistake of whoever compiled it in. */
int vsnprintf(char *restrict to, size_t size, const char *restrict format, va_list values)
{
    struct text text = { to, size, 0 };
    for (; *format; format++) {
        if (*format != '%') {
            put(&text, *format);
        } else if (format[1] == 's') {
            for (const char *letter = va_arg(values, const char *); *letter; letter++)
                put(&text, *letter);
            format++;
        } else if (format[1] == 'd') {
            int number = va_arg(values, int);
            if (number < 0)
                put(&text, '-');
            put_number(&text, number < 0 ? -(unsigned long long)number : (unsigned long long)number);
            format++;
        } else if (format[1] == 'l' && format[2] == 'l' && format[3] == 'u') {
            put_number(&text, va_arg(values, unsigned long long));
            format += 3;
        } else {
            __builtin_trap();
        }
    }
    if (size > 0)
        to[text.used < size ? text.used : size - 1] = 0;
    return (int)text.used;
}

int snprintf(char *restrict to, size_t size, const char *restrict format, ...)
{
    va_list values;
    va_start(values, format);
    int used = vsnprintf(to, size, format, values);
    va_end(values);
    return used;
}
